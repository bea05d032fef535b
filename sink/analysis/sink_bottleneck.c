#include "sink_bottleneck.h"

#include <math.h>
#include <stdlib.h>

#include "sink_scratch.h"

/* With fewer chunks, or if opening and process() times are nearly proportional, their waiting
 * cannot be separated. */
#define PLANE_CHUNKS 8
#define PLANE_COLLINEAR 0.995

/* Counted attempts of one worker with known CPU time. */
typedef struct {
    double s, cpu_s, proc_cpu_s;
} ran_t;

static void
s_add_chunk(ran_t *ran, const sink_chunk_t *chunk)
{
    double cpu_s = chunk->cpu_s, proc_cpu_s = chunk->proc_cpu_s;
    ran->s += sink_chunk_s(chunk);
    ran->cpu_s += cpu_s;
    ran->proc_cpu_s += isnan(proc_cpu_s) ? cpu_s : proc_cpu_s;
}

/* ---- the GIL, and cores */

/* Share of time that the GIL is in use while `at_once` tasks run. A sample also finds it free
 * while it is handed to a thread that still waits for a core: while threads queue for it one of
 * them is in that state, so samples may have missed as much as each waits for cores. */
static sink_range_t
s_utilization(const ran_t *ran, double at_once, double held, size_t looks, double wait_share)
{
    if (!isnan(held)) {
        sink_range_t used = sink_queue_share(held, looks > 0 ? looks : 1);
        double queued = at_once * sink_queue_wait_share(at_once, used.hi);
        used.hi = sink_least(used.hi + wait_share * sink_least(queued, 1), 1);
        return used;
    }
    double most = sink_between(at_once * ran->cpu_s / ran->s, 0, 1);
    bool one_core = ran->proc_cpu_s / ran->s + wait_share <= SINK_GIL_CORES;
    return (sink_range_t){one_core ? most : 0, 0, most};
}

/* Seconds of one worker's tasks. */
typedef struct {
    sink_range_t gil, cores;
    double waits_s, saved_s; /* in neither wait, and how much shorter tasks would be without it */
} turns_t;

static turns_t
s_turns(const ran_t *ran, double at_once, double held, size_t looks, double wait_share)
{
    double noncpu = sink_between(1 - ran->cpu_s / ran->s, 0, 1);
    sink_range_t used = s_utilization(ran, at_once, held, looks, wait_share);
    double gil = sink_least(sink_queue_wait_share(at_once, used.value), noncpu),
           gil_lo = sink_least(sink_queue_wait_share(at_once, used.lo), noncpu),
           gil_hi = sink_least(sink_queue_wait_share(at_once, used.hi), noncpu);
    double no_core = sink_least(wait_share, noncpu), cores = sink_least(no_core, noncpu - gil);
    /* One round of a thread: it holds the GIL, waits for it, and spends the rest of the time
     * otherwise, part of it waiting. */
    double demand = used.value / at_once, waits = noncpu - gil - cores, saved = waits;
    double delay = sink_between(1 - demand - gil, 0, 1);
    if (demand > 0 && waits > 0) {
        double before = sink_queue_cycle(at_once, demand, delay);
        double after = sink_queue_cycle(at_once, demand, sink_between(delay - waits, 0, 1));
        saved = sink_between(1 - after / before, 0, waits);
    }
    return (turns_t){.gil = {gil * ran->s, gil_lo * ran->s, gil_hi * ran->s},
                     .cores = {cores * ran->s, sink_least(no_core, noncpu - gil_hi) * ran->s,
                               sink_least(no_core, noncpu - gil_lo) * ran->s},
                     .waits_s = waits * ran->s,
                     .saved_s = saved * ran->s};
}

/* Workers run the same code, so their uncertainties point in the same direction and are added
 * linearly. */
static void
s_add_range(sink_range_t *sum, const sink_range_t *part)
{
    sum->value += part->value;
    sum->lo += part->lo;
    sum->hi += part->hi;
}

static void
s_wait(sink_bottleneck_t *self, const sink_facts_t *facts, const ran_t *ran)
{
    sink_measured_t *m = &self->measured;
    double waits_s = 0, saved_s = 0, at_once_sum = 0, held_sum = 0;
    for (size_t w = 0; w < facts->n_workers; w++) {
        const sink_load_t *load = &facts->sweep.workers[w];
        const sink_worker_t *worker = &facts->workers[w];
        double wait_s = worker->cpu_wait_s;
        m->cores_known = m->cores_known || !isnan(wait_s);
        if (ran[w].s <= 0)
            continue;
        double at_once = load->active_s > 0 ? load->busy_s / load->active_s : 1;
        turns_t turns =
            s_turns(&ran[w], sink_between(at_once, 1, SINK_QUEUE_CUSTOMERS_MAX), worker->gil,
                    worker->gil_looks, isnan(wait_s) ? 0 : wait_s / fmax(ran[w].s, load->busy_s));
        s_add_range(&m->gil_s, &turns.gil);
        s_add_range(&m->cores_s, &turns.cores);
        waits_s += turns.waits_s;
        saved_s += turns.saved_s;
        if (turns.gil.value <= 0)
            continue;
        self->n_gil++;
        at_once_sum += at_once;
        held_sum += worker->gil;
        self->gil_looks += worker->gil_looks;
    }
    m->wait_pays = waits_s > 0 ? saved_s / waits_s : 1;
    self->tasks_at_once = self->n_gil ? at_once_sum / (double)self->n_gil : NAN;
    self->gil_held = self->n_gil ? held_sum / (double)self->n_gil : NAN;
}

/* ---- opening */

/* The part of the non-CPU time spent in opening: certainly between the excess of its duration
 * over the CPU time and all of it; the estimate is a least-squares fit over both durations. */
static crema_err_t
s_open(sink_measured_t *m, const sink_facts_t *facts)
{
    size_t room = facts->n_chunks + 1, n = 0;
    crema_err_t err = CREMA_OK;
    double *open = sink_scratch(facts->dir, 3 * room, sizeof *open, &err);
    double surely = 0, at_most = 0, in_proportion = 0;
    if (!open)
        return err;
    double *wall = open + room, *noncpu = wall + room;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        double s = sink_chunk_s(chunk);
        if (!chunk->counted)
            continue;
        m->opening_known = m->opening_known && !isnan(chunk->open_s);
        m->gc_s += isnan(chunk->gc_s) ? 0 : chunk->gc_s;
        if (isnan(chunk->cpu_s) || !(s > 0))
            continue;
        open[n] = isnan(chunk->open_s) ? 0 : chunk->open_s;
        wall[n] = s - open[n];
        noncpu[n] = sink_between(s - chunk->cpu_s, 0, s);
        m->chunk_s += s;
        m->chunk_noncpu_s += noncpu[n];
        m->open_s += open[n];
        surely += sink_between(open[n] - chunk->cpu_s, 0, s);
        at_most += sink_least(open[n], noncpu[n]);
        in_proportion += open[n] / s * noncpu[n];
        n++;
    }
    m->n_chunks = n;
    double value = in_proportion, lo = surely, hi = at_most;
    sink_plane_t plane = sink_stats_plane(open, wall, noncpu, n);
    if (n >= PLANE_CHUNKS && plane.collinear < PLANE_COLLINEAR) {
        value = sink_between(plane.a * m->open_s, surely, at_most);
        lo = sink_between((plane.a - 2 * plane.a_error) * m->open_s, surely, at_most);
        hi = sink_between((plane.a + 2 * plane.a_error) * m->open_s, surely, at_most);
    }
    if (m->chunk_noncpu_s > 0)
        m->opening_share = (sink_range_t){value / m->chunk_noncpu_s, lo / m->chunk_noncpu_s,
                                          hi / m->chunk_noncpu_s};
    sink_scratch_free(open);
    return CREMA_OK;
}

/* ---- killed workers */

/* Their threads from when they were last seen to the end of the run. */
static double
s_missing_s(const sink_facts_t *facts)
{
    double sum = 0;
    for (size_t i = 0; i < facts->n_presence; i++) {
        const sink_presence_t *p = &facts->presence[i];
        bool last = i + 1 == facts->n_presence || facts->presence[i + 1].worker != p->worker;
        if (last && facts->workers[p->worker].killed)
            sum += (double)(facts->t1_ns - p->t1_ns) * 1e-9 * p->nthreads;
    }
    return sum;
}

crema_err_t
sink_bottleneck_measure(const sink_facts_t *facts, const sink_model_t *model,
                        sink_bottleneck_t *ret_found)
{
    sink_bottleneck_t self = {.measured = {.n_tasks = facts->n_tasks, .opening_known = true}};
    sink_measured_t *m = &self.measured;
    ran_t *ran = calloc(facts->n_workers + 1, sizeof *ran);
    if (!ran)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (chunk->counted && chunk->worker < facts->n_workers && !isnan(chunk->cpu_s))
            s_add_chunk(&ran[chunk->worker], chunk);
    }
    s_wait(&self, facts, ran);
    free(ran);
    m->missing_s = s_missing_s(facts);
    crema_err_t err = s_open(m, facts);
    if (err == CREMA_OK)
        err = sink_slow_find(facts, model, &m->workers, &m->files);
    if (err == CREMA_OK)
        *ret_found = self;
    return err;
}
