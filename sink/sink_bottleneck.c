#include "sink_bottleneck.h"

#include <math.h>
#include <stdlib.h>

/* Counted attempts of one worker whose CPU is known. */
typedef struct {
    double s, cpu_s, proc_cpu_s;
    double behind_s; /* others of the process on the CPU, this thread not */
} ran_t;

static double
s_least(double a, double b)
{
    return a < b ? a : b;
}

static double
s_positive(double s)
{
    return s > 0 ? s : 0;
}

static void
s_add_chunk(ran_t *ran, const sink_chunk_t *chunk)
{
    double s = sink_chunk_s(chunk), cpu_s = chunk->cpu_s, proc_cpu_s = chunk->proc_cpu_s;
    if (isnan(cpu_s))
        return;
    if (isnan(proc_cpu_s))
        proc_cpu_s = cpu_s;
    ran->s += s;
    ran->cpu_s += cpu_s;
    ran->proc_cpu_s += proc_cpu_s;
    ran->behind_s += s_positive(s_least(s - cpu_s, proc_cpu_s - cpu_s));
}

/* Nobody looked at the GIL: do the worker's threads behave as if they took turns? */
static double
s_behind(const ran_t *ran, const sink_load_t *load, double wait_s)
{
    double wanted = ran->proc_cpu_s / ran->s + wait_s / load->active_s;
    return wanted <= SINK_GIL_CORES ? s_least(ran->behind_s, ran->s - ran->cpu_s - wait_s) : 0;
}

/* Seconds of one worker's tasks spent behind the GIL. */
static double
s_gil(sink_bottleneck_t *self, const ran_t *ran, const sink_load_t *load, double wait_s,
      double held)
{
    if (load->active_s <= 0 || ran->s <= 0 || ran->proc_cpu_s <= 0)
        return 0;
    double at_once = load->busy_s / load->active_s;
    if (at_once < SINK_GIL_TASKS || held < SINK_GIL_QUIET)
        return 0;
    double gil_s = s_positive(
        isnan(held) ? s_behind(ran, load, wait_s)
                    : s_least(held * (at_once - 1) / at_once * ran->s, ran->s - ran->cpu_s));
    if (gil_s > 0) {
        self->n_gil++;
        self->tasks_at_once += at_once;
        self->gil_held += held;
    }
    return gil_s;
}

/* Waiting for a core and for the GIL, worker by worker. */
static void
s_wait(sink_bottleneck_t *self, const sink_facts_t *facts, const ran_t *ran, double *ret_cores_s,
       double *ret_gil_s)
{
    *ret_cores_s = *ret_gil_s = 0;
    for (size_t w = 0; w < facts->n_workers; w++) {
        double wait_s = facts->cpu_wait_s[w], noncpu_s = s_positive(ran[w].s - ran[w].cpu_s);
        self->cores_known = self->cores_known || !isnan(wait_s);
        wait_s = isnan(wait_s) ? 0 : s_least(wait_s, noncpu_s);
        double gil_s = s_gil(self, &ran[w], &facts->sweep.workers[w], wait_s, facts->gil[w]);
        *ret_gil_s += gil_s;
        *ret_cores_s += s_least(wait_s, noncpu_s - gil_s);
    }
    self->tasks_at_once = self->n_gil ? self->tasks_at_once / (double)self->n_gil : NAN;
    self->gil_held = self->n_gil ? self->gil_held / (double)self->n_gil : NAN;
}

static double
s_open_share(const sink_facts_t *facts, double *ret_gc_s)
{
    double open_s = 0, all_s = 0;
    *ret_gc_s = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (!chunk->counted)
            continue;
        open_s += isnan(chunk->open_s) ? 0 : chunk->open_s;
        *ret_gc_s += isnan(chunk->gc_s) ? 0 : chunk->gc_s;
        all_s += sink_chunk_s(chunk);
    }
    return all_s > 0 ? open_s / all_s : 0;
}

static void
s_divide(sink_bottleneck_t *self, const sink_facts_t *facts, const sink_budget_t *b,
         const ran_t *ran)
{
    const sink_spent_t *all = &b->all;
    double *s = self->seconds, gc_s, cores_s, gil_s;
    self->open_share = s_open_share(facts, &gc_s);
    s_wait(self, facts, ran, &cores_s, &gil_s);
    gc_s = s_least(gc_s, all->cpu_s) * (1 - self->open_share);
    gil_s = s_least(gil_s, all->noncpu_s);
    cores_s = s_least(cores_s, all->noncpu_s - gil_s);
    double noncpu_s = all->noncpu_s - cores_s - gil_s;
    s[CREMA_BOTTLENECK_COMPUTE] = all->cpu_s * (1 - self->open_share) - gc_s;
    s[CREMA_BOTTLENECK_GARBAGE] = gc_s;
    s[CREMA_BOTTLENECK_INPUT] = noncpu_s * (1 - self->open_share);
    s[CREMA_BOTTLENECK_GIL] = gil_s * (1 - self->open_share);
    s[CREMA_BOTTLENECK_CORES] = cores_s;
    s[CREMA_BOTTLENECK_USER] = all->user_s;
    s[CREMA_BOTTLENECK_CHUNKS] = (all->cpu_s + noncpu_s + gil_s) * self->open_share +
                                 (all->runtime_s - all->spill_s - all->serialize_s) +
                                 b->idle_s[SINK_IDLE_LATENCY];
    s[CREMA_BOTTLENECK_SPILL] = all->spill_s;
    s[CREMA_BOTTLENECK_SERIALIZE] = all->serialize_s;
    s[CREMA_BOTTLENECK_PREPROCESS] = sink_spent_side_s(all, CREMA_SIDE_PREPROCESS);
    s[CREMA_BOTTLENECK_MERGE] = sink_spent_side_s(all, CREMA_SIDE_MERGE);
    s[CREMA_BOTTLENECK_OVERHEAD] = sink_spent_side_s(all, CREMA_SIDE_OVERHEAD) +
                                   sink_spent_side_s(all, CREMA_SIDE_UNATTRIBUTED);
    s[CREMA_BOTTLENECK_WASTED] = all->wasted_s;
    s[CREMA_BOTTLENECK_STARTUP] = b->idle_s[SINK_IDLE_STARTUP];
    s[CREMA_BOTTLENECK_DRAINED] = b->idle_s[SINK_IDLE_DRAINED];
    s[CREMA_BOTTLENECK_TAIL] = b->idle_s[SINK_IDLE_TAIL];
    s[CREMA_BOTTLENECK_SCALING] = b->idle_s[SINK_IDLE_JOIN] + b->absent_s;
    s[CREMA_BOTTLENECK_STARVED] = b->idle_s[SINK_IDLE_STARVED];
}

/* Compute stands where a loss of just SINK_LOSS_MATTERS would. */
static double
s_weight(const sink_bottleneck_t *self, const sink_budget_t *b, crema_bottleneck_t i)
{
    double s = self->seconds[i];
    return i == CREMA_BOTTLENECK_COMPUTE ? s_least(s, SINK_LOSS_MATTERS * b->cap_s) : s;
}

static void
s_rank(sink_bottleneck_t *self, const sink_budget_t *b)
{
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        int at = i;
        for (; at > 0 &&
               s_weight(self, b, (crema_bottleneck_t)i) > s_weight(self, b, self->order[at - 1]);
             at--)
            self->order[at] = self->order[at - 1];
        self->order[at] = (crema_bottleneck_t)i;
    }
}

crema_err_t
sink_bottleneck_find(const sink_facts_t *facts, const sink_budget_t *budget,
                     sink_bottleneck_t *ret_found)
{
    sink_bottleneck_t self = {0};
    ran_t *ran = calloc(facts->n_workers + 1, sizeof *ran);
    if (!ran)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < facts->n_chunks; i++)
        if (facts->chunks[i].counted && facts->chunks[i].worker < facts->n_workers)
            s_add_chunk(&ran[facts->chunks[i].worker], &facts->chunks[i]);
    s_divide(&self, facts, budget, ran);
    s_rank(&self, budget);
    free(ran);
    *ret_found = self;
    return CREMA_OK;
}
