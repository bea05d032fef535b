#include "sink_budget.h"

#include <math.h>
#include <stdlib.h>

#include "crema_split.h"
#include "sink_attempt.h"

/* Sums over the chunks and task events of one worker. */
typedef struct {
    double counted_s, counted_cpu_s;
    bool counted, cpu_known; /* an attempt counts; its CPU time is known */
    double superseded_s, superseded_cpu_s;
    double dropped_s; /* failed attempts in tasks that succeeded for Dask */
    double failed_s;  /* failed and cancelled attempts, including dropped ones */
    double lost_s;
    double unfinished_s;             /* slots of attempts and tasks that failed or were cancelled */
    double side_s[CREMA_SIDE_COUNT]; /* tasks that are not chunks */
    double tasks_failed_s, tasks_lost_s;
    double seceded_s[CREMA_SIDE_COUNT]; /* of tasks after they had left their slots */
} seen_t;

static double
s_task_s(const sink_task_t *task)
{
    return task->t_stop_ns > task->t_start_ns ? (double)(task->t_stop_ns - task->t_start_ns) * 1e-9
                                              : 0;
}

static void
s_see_chunk(sink_budget_t *self, seen_t *seen, const sink_chunk_t *chunk)
{
    double all_s = sink_chunk_s(chunk), cpu_s = isnan(chunk->cpu_s) ? 0 : chunk->cpu_s;
    if (chunk->counted) {
        seen->counted_s += all_s;
        seen->counted_cpu_s += cpu_s;
        seen->counted = true;
        seen->cpu_known = seen->cpu_known || !isnan(chunk->cpu_s);
        self->cpu_unknown = self->cpu_unknown || isnan(chunk->cpu_s);
    } else if (sink_chunk_returned(chunk->status)) {
        seen->superseded_s += all_s;
        seen->superseded_cpu_s += cpu_s;
    } else if (chunk->status == CREMA_CHUNK_LOST) {
        seen->lost_s += all_s;
    } else {
        seen->failed_s += all_s;
        if (chunk->task_is_ok)
            seen->dropped_s += all_s;
        else if (!chunk->in_task)
            seen->unfinished_s += all_s;
    }
}

static void
s_see_task(seen_t *seen, const sink_task_t *task)
{
    bool unfinished = task->status != CREMA_TASK_OK && task->status != CREMA_TASK_LOST;
    if (unfinished && task->side != CREMA_SIDE_FOREIGN)
        seen->unfinished_s += s_task_s(task);
    if (task->is_chunk)
        return;
    if (task->side == CREMA_SIDE_FOREIGN) { /* whatever its result: it occupied the slot */
        seen->side_s[CREMA_SIDE_FOREIGN] += s_task_s(task);
        return;
    }
    if (task->status == CREMA_TASK_LOST)
        seen->tasks_lost_s += s_task_s(task);
    else if (task->status != CREMA_TASK_OK)
        seen->tasks_failed_s += s_task_s(task);
    else if (task->side < CREMA_SIDE_COUNT)
        seen->side_s[task->side] += s_task_s(task);
}

/* Adds one of Dask's totals, in seconds of the execute context. */
static void
s_meter(sink_spent_t *spent, const sink_metered_t *metered)
{
    double s = metered->value;
    spent->metered = true;
    switch ((crema_side_t)metered->side) {
    case CREMA_SIDE_PROCESSOR:
        if (metered->kind == CREMA_ACTIVITY_CPU)
            spent->cpu_s += s;
        else if (metered->kind == CREMA_ACTIVITY_NONCPU)
            spent->noncpu_s += s;
        else
            spent->user_s += s;
        break;
    case CREMA_SIDE_RUNTIME:
        spent->runtime_s += s;
        if (metered->kind == CREMA_ACTIVITY_SPILL)
            spent->spill_s += s;
        if (metered->kind == CREMA_ACTIVITY_SERIALIZATION ||
            metered->kind == CREMA_ACTIVITY_COMPRESSION)
            spent->serialize_s += s;
        break;
    case CREMA_SIDE_WASTED:
        spent->wasted_s += s;
        break;
    case CREMA_SIDE_PREPROCESS:
    case CREMA_SIDE_MERGE:
    case CREMA_SIDE_OVERHEAD:
    case CREMA_SIDE_UNATTRIBUTED:
    case CREMA_SIDE_TRANSFER:
    case CREMA_SIDE_FOREIGN:
    case CREMA_SIDE_COUNT:
        if (metered->kind == CREMA_ACTIVITY_IDLE || metered->side >= CREMA_SIDE_COUNT)
            break;
        if (metered->kind == CREMA_ACTIVITY_CPU)
            spent->side_cpu_s[metered->side] += s;
        else
            spent->side_noncpu_s[metered->side] += s;
    }
}

/* Moves at most `s` seconds to the wasted ones; returns what was missing. */
static double
s_waste(sink_spent_t *spent, double *from_s, double s)
{
    double moved = s < *from_s ? s : *from_s;
    if (moved <= 0)
        return s;
    *from_s -= moved;
    spent->wasted_s += moved;
    return s - moved;
}

/* Counted chunks, and tasks of the processor without a row in /chunks. */
static double
s_processor_s(const seen_t *seen)
{
    return seen->counted_s + seen->side_s[CREMA_SIDE_PROCESSOR];
}

/* Takes out what Dask metered of tasks after they had left their slots: what exceeds their times
 * on slots, and the rest from the runtime, where Dask counts the way back to a slot. */
static void
s_leave_slots(sink_spent_t *spent, const seen_t *seen)
{
    for (int side = 0; side < CREMA_SIDE_COUNT; side++) {
        const bool processor = side == CREMA_SIDE_PROCESSOR;
        double *noncpu_s = processor ? &spent->noncpu_s : &spent->side_noncpu_s[side];
        double cpu_s = processor ? spent->cpu_s : spent->side_cpu_s[side];
        double on_slots_s = processor ? s_processor_s(seen) : seen->side_s[side];
        double beyond_s = fmax(*noncpu_s + cpu_s - on_slots_s, 0);
        double left_s = fmin(fmin(seen->seceded_s[side], beyond_s), *noncpu_s);
        double waits_s = spent->runtime_s - spent->spill_s - spent->serialize_s;
        *noncpu_s -= left_s;
        spent->runtime_s -= fmax(fmin(seen->seceded_s[side] - left_s, waits_s), 0);
    }
}

static void
s_from_chunks(sink_spent_t *spent, const seen_t *seen)
{
    spent->cpu_s = seen->counted_cpu_s;
    spent->noncpu_s = s_processor_s(seen) - seen->counted_cpu_s;
    spent->user_s = 0;
}

/* Dask's totals lack what a killed worker had not posted and what was still running at the end of
 * the run, and count an attempt whose result was lost as a success. */
static void
s_combine(sink_spent_t *spent, const seen_t *seen, bool killed)
{
    if (!spent->metered) {
        s_from_chunks(spent, seen);
        for (int side = 0; side < CREMA_SIDE_COUNT; side++)
            if (side != CREMA_SIDE_PROCESSOR)
                spent->side_noncpu_s[side] += seen->side_s[side];
        spent->wasted_s += seen->superseded_s + seen->failed_s + seen->lost_s +
                           seen->tasks_failed_s + seen->tasks_lost_s;
        return;
    }
    spent->side_noncpu_s[CREMA_SIDE_FOREIGN] = seen->side_s[CREMA_SIDE_FOREIGN];
    spent->wasted_s = fmax(spent->wasted_s, seen->unfinished_s);
    double rest = s_waste(spent, &spent->cpu_s, seen->superseded_cpu_s);
    rest += s_waste(spent, &spent->noncpu_s, seen->superseded_s - seen->superseded_cpu_s);
    rest += s_waste(spent, &spent->noncpu_s, seen->dropped_s);
    rest = s_waste(spent, &spent->cpu_s, rest);
    spent->wasted_s += seen->lost_s + seen->tasks_lost_s + (killed ? rest : 0);
    if (killed && spent->cpu_s + spent->noncpu_s + spent->user_s < s_processor_s(seen))
        s_from_chunks(spent, seen);
}

static void
s_judge_cpu(sink_budget_t *self, sink_spent_t *spent, const seen_t *seen)
{
    bool any = spent->metered || seen->counted || s_processor_s(seen) > 0;
    spent->knows_cpu = spent->metered || seen->cpu_known || !any;
    self->any_processor = self->any_processor || any;
    self->all.knows_cpu = self->all.knows_cpu || (any && spent->knows_cpu);
}

static void
s_add(sink_spent_t *sum, const sink_spent_t *spent)
{
    sum->cpu_s += spent->cpu_s;
    sum->noncpu_s += spent->noncpu_s;
    sum->user_s += spent->user_s;
    sum->runtime_s += spent->runtime_s;
    sum->spill_s += spent->spill_s;
    sum->serialize_s += spent->serialize_s;
    sum->wasted_s += spent->wasted_s;
    sum->metered = sum->metered || spent->metered;
    for (int side = 0; side < CREMA_SIDE_COUNT; side++) {
        sum->side_cpu_s[side] += spent->side_cpu_s[side];
        sum->side_noncpu_s[side] += spent->side_noncpu_s[side];
    }
}

/* Slots held by the runtime looked idle, most likely while tasks were waiting. */
static void
s_take_runtime_out_of_idle(sink_budget_t *self, double left)
{
    static const sink_idle_t order[] = {
        SINK_IDLE_LATENCY, SINK_IDLE_STARVED, SINK_IDLE_IMBALANCE, SINK_IDLE_TAIL,
        SINK_IDLE_JOIN,    SINK_IDLE_PAUSED,  SINK_IDLE_MERGE,     SINK_IDLE_PREPROCESS,
        SINK_IDLE_STARTUP, SINK_IDLE_DRAINED};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        double *idle = &self->idle_s[order[i]];
        double taken = left < *idle ? left : *idle;
        *idle -= taken;
        left -= taken;
    }
}

/* What is left of JOIN, in proportion. Outside Dask no process waits for tasks: each is started for
 * them. */
static void
s_see_punctual(sink_budget_t *self, const sink_sweep_t *sweep)
{
    double join_s = sweep->idle_s[SINK_IDLE_JOIN];
    if (self->outside_dask || join_s <= 0)
        return;
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        self->punctual_s[i] = sweep->punctual_s[i] * self->idle_s[SINK_IDLE_JOIN] / join_s;
}

double
sink_spent_side_s(const sink_spent_t *spent, crema_side_t side)
{
    return spent->side_cpu_s[side] + spent->side_noncpu_s[side];
}

bool
sink_budget_knows_cpu(const sink_budget_t *self)
{
    return self->all.knows_cpu || !self->any_processor;
}

double
sink_budget_class_s(const sink_budget_t *self, sink_idle_t idle)
{
    double s = self->idle_s[idle];
    if (idle != SINK_IDLE_JOIN)
        return s + self->punctual_s[idle];
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        s -= self->punctual_s[i];
    return fmax(s, 0);
}

bool
sink_budget_is_open(double residual_s, double cap_s)
{
    return fabs(residual_s) > 0.01 * cap_s;
}

double
sink_budget_idle_s(const sink_budget_t *self)
{
    double sum = 0;
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        sum += self->idle_s[i];
    return sum;
}

static void
s_close(sink_budget_t *self)
{
    const sink_spent_t *all = &self->all;
    double sum =
        all->cpu_s + all->noncpu_s + all->user_s + all->runtime_s + all->wasted_s +
        sink_spent_side_s(all, CREMA_SIDE_PREPROCESS) + sink_spent_side_s(all, CREMA_SIDE_MERGE) +
        sink_spent_side_s(all, CREMA_SIDE_OVERHEAD) +
        sink_spent_side_s(all, CREMA_SIDE_UNATTRIBUTED) +
        sink_spent_side_s(all, CREMA_SIDE_FOREIGN) + sink_budget_idle_s(self) + self->absent_s;
    self->residual_s = self->cap_s - sum;
}

/* Threads missing from the run's most, in a part of its window; 0 where no task ran at all. */
static double
s_absent_s(const sink_facts_t *facts, int64_t t0_ns, int64_t t1_ns)
{
    const sink_sweep_t *sweep = &facts->sweep;
    if (t0_ns == 0 || t1_ns <= t0_ns)
        return 0;
    return sweep->threads_peak * (double)(t1_ns - t0_ns) * 1e-9 -
           sink_sweep_thread_s(sweep, t0_ns, t1_ns);
}

crema_err_t
sink_budget_new(const sink_facts_t *facts, sink_budget_t **ret_self)
{
    sink_budget_t *self = calloc(1, sizeof *self);
    seen_t *seen = calloc(facts->n_workers + 1, sizeof *seen);
    if (self)
        self->workers = calloc(facts->n_workers + 1, sizeof *self->workers);
    if (!self || !seen || !self->workers) {
        free(seen);
        sink_budget_destroy(&self);
        return CREMA_ENOMEM;
    }
    size_t n = facts->n_workers; /* rows of unknown workers go behind the last one */
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        s_see_chunk(self, &seen[chunk->worker < n ? chunk->worker : n], chunk);
    }
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        s_see_task(&seen[task->worker < n ? task->worker : n], task);
    }
    for (size_t i = 0; i < facts->n_metered; i++) {
        const sink_metered_t *metered = &facts->metered[i];
        const size_t w = metered->worker < n ? metered->worker : n;
        if (metered->in != SINK_UNIT_SECONDS)
            continue;
        if (metered->context == CREMA_CONTEXT_BUSY && metered->kind == CREMA_ACTIVITY_IDLE &&
            metered->side < CREMA_SIDE_COUNT)
            seen[w].seceded_s[metered->side] += metered->value;
        else if (metered->context == CREMA_CONTEXT_EXECUTE)
            s_meter(&self->workers[w], metered);
        else if (metered->side == CREMA_SIDE_TRANSFER)
            self->transfer_s += metered->value;
    }
    double unfinished_s = 0; /* Dask's runtime of what failed, which it does not meter apart */
    for (size_t w = 0; w <= n; w++) {
        self->workers[w].failed_runtime_s =
            fmax(self->workers[w].wasted_s - seen[w].unfinished_s, 0);
        unfinished_s += self->workers[w].failed_runtime_s;
        if (!self->workers[w].metered && seen[w].side_s[CREMA_SIDE_PROCESSOR] > 0)
            self->cpu_unknown = true;
        if (self->workers[w].metered)
            s_leave_slots(&self->workers[w], &seen[w]);
        s_combine(&self->workers[w], &seen[w], w < n && facts->workers[w].killed);
        s_judge_cpu(self, &self->workers[w], &seen[w]);
        s_add(&self->all, &self->workers[w]);
    }
    self->wall_s = (double)(facts->t1_ns - facts->t0_ns) * 1e-9;
    self->alloc_s = facts->sweep.alloc_s;
    self->cap_s = facts->sweep.threads_peak * self->wall_s;
    self->absent_s = fmax(self->cap_s - self->alloc_s, 0); /* not the rounding of two sums */
    self->outside_dask = facts->outside_dask;
    self->absent_before_s = s_absent_s(facts, facts->t0_ns, facts->sweep.t_first_start_ns);
    self->absent_after_s = s_absent_s(facts, facts->sweep.t_last_end_ns, facts->t1_ns);
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        self->idle_s[i] = facts->sweep.idle_s[i];
    s_take_runtime_out_of_idle(self, self->all.runtime_s + unfinished_s);
    s_see_punctual(self, &facts->sweep);
    s_close(self);
    free(seen);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_budget_destroy(sink_budget_t **self_p)
{
    sink_budget_t *self = *self_p;
    if (!self)
        return;
    free(self->workers);
    free(self);
    *self_p = NULL;
}
