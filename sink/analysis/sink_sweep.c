#include "sink_sweep.h"

#include <stdbool.h>
#include <stdlib.h>

#include "crema_columns.h"
#include "sink_scratch.h"
#include "sink_sort.h"

typedef enum { STOP, PRESENT, START, READY, PAUSE, SERVED } change_kind_t;

/* Kind of a running task, as far as it matters for idle threads of other workers. */
typedef enum { CHUNK, PREPROCESS, MERGE, OTHER, KIND_COUNT } task_kind_t;

typedef struct {
    int64_t t_ns;
    uint32_t worker;
    change_kind_t kind;
    task_kind_t task; /* of START and STOP */
    int32_t delta;    /* threads, running tasks, ready tasks or pauses */
} change_t;

typedef struct {
    int32_t threads, running, ready, paused;
    int64_t t_ns; /* since when */
    bool began;   /* its first task has begun */
    bool served;  /* its last chunk has arrived */
} worker_t;

typedef struct {
    const sink_sweep_in_t *in;
    sink_sweep_t *out;
    worker_t *workers;
    int32_t n_workers, n_threads, n_busy;
    int32_t n_running[KIND_COUNT];
    int32_t n_waiting; /* ready tasks whose own worker has no idle thread */
    /* Idle threads: of paused workers, before the first task, with a task ready on the worker,
     * and the rest by whether more chunks arrive. */
    int32_t free_paused, free_not_began, free_own, free_unserved, free_served;
} sweep_t;

static int
s_by_time(const void *a, const void *b)
{
    const change_t *left = a, *right = b;
    if (left->t_ns != right->t_ns)
        return left->t_ns < right->t_ns ? -1 : 1;
    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return left->worker < right->worker ? -1 : left->worker > right->worker;
}

/* Clips to the window; false if nothing remains. */
static bool
s_clip(const sink_sweep_in_t *in, int64_t *t0_ns, int64_t *t1_ns)
{
    if (*t0_ns < in->t0_ns)
        *t0_ns = in->t0_ns;
    if (*t1_ns > in->t1_ns)
        *t1_ns = in->t1_ns;
    return *t1_ns > *t0_ns;
}

static void
s_note_task(sink_sweep_t *out, int64_t t0_ns, int64_t t1_ns)
{
    if (out->t_first_start_ns == 0 || t0_ns < out->t_first_start_ns)
        out->t_first_start_ns = t0_ns;
    if (t0_ns > out->t_last_start_ns)
        out->t_last_start_ns = t0_ns;
    if (t1_ns > out->t_last_end_ns)
        out->t_last_end_ns = t1_ns;
}

static void
s_note_tail(sink_sweep_t *out, int64_t t0_ns, int64_t t1_ns)
{
    if (t0_ns > out->t_tail0_ns)
        out->t_tail0_ns = t0_ns;
    if (t1_ns > out->t_tail1_ns)
        out->t_tail1_ns = t1_ns;
}

static task_kind_t
s_kind(const sink_busy_t *busy)
{
    if (busy->is_chunk)
        return CHUNK;
    return busy->side == CREMA_SIDE_PREPROCESS ? PREPROCESS
           : busy->side == CREMA_SIDE_MERGE    ? MERGE
                                               : OTHER;
}

static bool
s_has_chunk(const sink_sweep_in_t *in)
{
    for (size_t i = 0; i < in->n_busy; i++)
        if (in->busy[i].is_chunk && in->busy[i].t1_ns > in->t0_ns && in->busy[i].t0_ns < in->t1_ns)
            return true;
    return false;
}

static size_t
s_spells(const sink_sweep_in_t *in, const sink_spell_t *spells, size_t n_spells, change_kind_t kind,
         change_t *changes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_spells; i++) {
        int64_t t0 = spells[i].t0_ns, t1 = spells[i].t1_ns;
        if (spells[i].worker >= in->n_workers || !s_clip(in, &t0, &t1))
            continue;
        changes[n++] = (change_t){t0, spells[i].worker, kind, OTHER, 1};
        changes[n++] = (change_t){t1, spells[i].worker, kind, OTHER, -1};
    }
    return n;
}

/* Steps take the place of changes that were applied: there is at most one more of them. */
_Static_assert(sizeof(sink_step_t) == sizeof(change_t), "a step fits in place of a change");

/* The changes in order, behind room for one step. */
static change_t *
s_changes(const sink_sweep_in_t *in, sink_sweep_t *out, size_t *ret_n, crema_err_t *err)
{
    size_t n = 0;
    bool any_chunk = s_has_chunk(in);
    size_t most = 2 * (in->n_presence + in->n_busy + in->n_ready + in->n_paused) + in->n_workers;
    change_t *all = sink_scratch(in->dir, most + 2, sizeof *all, err);
    if (!all)
        return NULL;
    change_t *changes = all + 1;
    for (size_t i = 0; i < in->n_presence; i++) {
        const sink_presence_t *p = &in->presence[i];
        int64_t t0 = p->t0_ns, t1 = p->t1_ns;
        if (!s_clip(in, &t0, &t1))
            continue;
        changes[n++] = (change_t){t0, p->worker, PRESENT, OTHER, (int32_t)p->nthreads};
        changes[n++] = (change_t){t1, p->worker, PRESENT, OTHER, -(int32_t)p->nthreads};
    }
    for (size_t i = 0; i < in->n_busy; i++) {
        int64_t t0 = in->busy[i].t0_ns, t1 = in->busy[i].t1_ns;
        if (!s_clip(in, &t0, &t1))
            continue;
        bool foreign = in->busy[i].side == CREMA_SIDE_FOREIGN;
        if (!foreign)
            s_note_task(out, t0, t1);
        if (in->busy[i].is_chunk || (!any_chunk && !foreign))
            s_note_tail(out, t0, t1);
        changes[n++] = (change_t){t0, in->busy[i].worker, START, s_kind(&in->busy[i]), 1};
        changes[n++] = (change_t){t1, in->busy[i].worker, STOP, s_kind(&in->busy[i]), -1};
    }
    n += s_spells(in, in->ready, in->n_ready, READY, changes + n);
    n += s_spells(in, in->paused, in->n_paused, PAUSE, changes + n);
    for (uint32_t w = 0; in->last_arrival_ns && w < in->n_workers; w++)
        if (in->last_arrival_ns[w] > in->t0_ns && in->last_arrival_ns[w] < in->t1_ns)
            changes[n++] = (change_t){in->last_arrival_ns[w], w, SERVED, OTHER, 0};
    sink_sort_by_int64(changes, n, sizeof *changes, s_by_time);
    *ret_n = n;
    return all;
}

static int32_t
s_busy_of(const worker_t *worker)
{
    return worker->running < worker->threads ? worker->running : worker->threads;
}

/* Adds the worker to the sums, or subtracts it with sign -1. */
static void
s_count(sweep_t *self, const worker_t *worker, int sign)
{
    int32_t busy = s_busy_of(worker), idle = worker->threads - busy;
    int32_t own = worker->ready < idle ? worker->ready : idle;
    self->n_workers += sign * (worker->threads > 0);
    self->n_threads += sign * worker->threads;
    self->n_busy += sign * busy;
    self->n_waiting += sign * (worker->ready - own);
    if (worker->paused > 0) {
        self->free_paused += sign * idle;
    } else if (!worker->began) {
        self->free_not_began += sign * idle;
    } else {
        self->free_own += sign * own;
        *(worker->served ? &self->free_served : &self->free_unserved) += sign * (idle - own);
    }
}

static void
s_settle_worker(sweep_t *self, uint32_t number, int64_t t_ns)
{
    worker_t *worker = &self->workers[number];
    sink_load_t *load = &self->out->workers[number];
    double s = (double)(t_ns - worker->t_ns) * 1e-9;
    if (worker->threads > 0)
        load->present_s += s;
    load->thread_s += s * worker->threads;
    load->busy_s += s * s_busy_of(worker);
    if (worker->running > 0)
        load->active_s += s;
    worker->t_ns = t_ns;
}

static void
s_apply(sweep_t *self, const change_t *change)
{
    worker_t *worker = &self->workers[change->worker];
    s_settle_worker(self, change->worker, change->t_ns);
    s_count(self, worker, -1);
    switch (change->kind) {
    case PRESENT:
        worker->threads += change->delta;
        break;
    case START:
        worker->began = true;
        /* fall through */
    case STOP:
        worker->running += change->delta;
        self->n_running[change->task] += change->delta;
        break;
    case READY:
        worker->ready += change->delta;
        break;
    case PAUSE:
        worker->paused += change->delta;
        break;
    case SERVED:
        worker->served = true;
        break;
    }
    s_count(self, worker, 1);
}

/* Idle threads during the run, for `s` seconds. */
static void
s_idle(sweep_t *self, double s)
{
    double *idle_s = self->out->idle_s;
    bool others_work = self->n_running[CHUNK] > 0 || self->n_waiting > 0;
    int32_t held_up = self->n_waiting < self->free_served ? self->n_waiting : self->free_served;
    idle_s[SINK_IDLE_JOIN] += s * self->free_not_began;
    idle_s[SINK_IDLE_LATENCY] += s * self->free_own;
    idle_s[others_work ? SINK_IDLE_LATENCY : SINK_IDLE_STARVED] += s * self->free_unserved;
    idle_s[SINK_IDLE_IMBALANCE] += s * held_up;
    idle_s[SINK_IDLE_STARVED] += s * (self->free_served - held_up);
}

/* Handles the segment [t0, t1) with constant counts. */
static void
s_segment(sweep_t *self, int64_t t0_ns, int64_t t1_ns)
{
    sink_sweep_t *out = self->out;
    double s = (double)(t1_ns - t0_ns) * 1e-9;
    int32_t idle = self->n_threads - self->n_busy, usable = idle - self->free_paused;
    bool in_tail = t0_ns >= out->t_tail0_ns && t0_ns < out->t_tail1_ns;
    out->alloc_s += s * self->n_threads;
    out->busy_s += s * self->n_busy;
    out->worker_s += s * self->n_workers;
    if (in_tail)
        out->tail_free_s += s * idle;
    if (self->n_threads > 0 && self->n_busy >= 0.9 * self->n_threads) {
        if (out->t_steady0_ns == 0)
            out->t_steady0_ns = t0_ns;
        out->t_steady1_ns = t1_ns;
    }
    if (out->t_first_start_ns == 0 || t0_ns < out->t_first_start_ns) {
        out->idle_s[SINK_IDLE_STARTUP] += s * idle;
        return;
    }
    if (t0_ns >= out->t_last_end_ns) {
        out->idle_s[SINK_IDLE_DRAINED] += s * idle;
        return;
    }
    out->idle_s[SINK_IDLE_PAUSED] += s * self->free_paused;
    if (self->n_running[CHUNK] == 0 && self->n_running[PREPROCESS] > 0)
        out->idle_s[SINK_IDLE_PREPROCESS] += s * usable;
    else if (self->n_running[CHUNK] == 0 && self->n_running[MERGE] > 0)
        out->idle_s[SINK_IDLE_MERGE] += s * usable;
    else if (in_tail)
        out->idle_s[SINK_IDLE_TAIL] += s * usable;
    else
        s_idle(self, s);
}

static void
s_step(sweep_t *self, int64_t t_ns)
{
    sink_sweep_t *out = self->out;
    if (self->n_threads > out->threads_peak)
        out->threads_peak = self->n_threads;
    if (self->n_workers > out->workers_peak)
        out->workers_peak = self->n_workers;
    out->steps[out->n_steps++] =
        (sink_step_t){t_ns, self->n_workers, self->n_threads, self->n_busy};
}

/* Changes at the same instant are applied together: a slot that is handed over was never idle.
 * After the last one no worker is present. */
static void
s_sweep(sweep_t *self, const change_t *changes, size_t n)
{
    int64_t now = self->in->t0_ns;
    size_t i = 0;
    while (i < n && changes[i].t_ns == now)
        s_apply(self, &changes[i++]);
    s_step(self, now);
    while (i < n) {
        int64_t t_ns = changes[i].t_ns;
        s_segment(self, now, t_ns);
        while (i < n && changes[i].t_ns == t_ns)
            s_apply(self, &changes[i++]);
        now = t_ns;
        if (now < self->in->t1_ns)
            s_step(self, now);
    }
    for (uint32_t w = 0; w < self->in->n_workers; w++)
        s_settle_worker(self, w, self->in->t1_ns);
}

crema_err_t
sink_sweep_run(const sink_sweep_in_t *in, sink_sweep_t *ret_sweep)
{
    sink_sweep_t out = {0};
    if (in->t1_ns <= in->t0_ns)
        return CREMA_EINVAL;
    size_t n = 0, n_workers = in->n_workers ? in->n_workers : 1;
    crema_err_t err = CREMA_OK;
    change_t *all = s_changes(in, &out, &n, &err);
    out.steps = (sink_step_t *)all;
    sweep_t self = {.in = in, .out = &out};
    self.workers = calloc(n_workers, sizeof *self.workers);
    out.workers = calloc(n_workers, sizeof *out.workers);
    if (err == CREMA_OK && (!self.workers || !out.workers))
        err = CREMA_ENOMEM;
    if (err != CREMA_OK) {
        free(self.workers);
        sink_sweep_clear(&out);
        return err;
    }
    for (size_t w = 0; w < n_workers; w++)
        self.workers[w].t_ns = in->t0_ns;
    for (size_t w = 0; w < in->n_workers; w++)
        self.workers[w].served = !in->last_arrival_ns || in->last_arrival_ns[w] <= in->t0_ns;
    s_sweep(&self, all + 1, n);
    sink_scratch_trim(out.steps, out.n_steps, sizeof *out.steps);
    out.steady_thread_s = sink_sweep_integral_s(&out, SINK_STEP_THREADS, out.t_steady0_ns,
                                                out.t_steady1_ns, in->t1_ns);
    free(self.workers);
    *ret_sweep = out;
    return CREMA_OK;
}

void
sink_sweep_clear(sink_sweep_t *sweep)
{
    free(sweep->workers);
    sink_scratch_free(sweep->steps);
    *sweep = (sink_sweep_t){0};
}

/* Index of the step valid at t_ns, or the first. */
static size_t
s_step_at(const sink_sweep_t *sweep, int64_t t_ns)
{
    size_t low = 0, high = sweep->n_steps;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (sweep->steps[middle].t_ns <= t_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double
sink_sweep_integral_s(const sink_sweep_t *sweep, sink_step_field_t field, int64_t t0_ns,
                      int64_t t1_ns, int64_t window_end_ns)
{
    double sum = 0;
    if (sweep->n_steps == 0)
        return 0;
    for (size_t i = s_step_at(sweep, t0_ns); i < sweep->n_steps; i++) {
        const sink_step_t *step = &sweep->steps[i];
        int64_t from = step->t_ns > t0_ns ? step->t_ns : t0_ns;
        int64_t to = i + 1 < sweep->n_steps ? sweep->steps[i + 1].t_ns : window_end_ns;
        if (from >= t1_ns)
            break;
        if (to > t1_ns)
            to = t1_ns;
        int32_t value = field == SINK_STEP_WORKERS   ? step->workers
                        : field == SINK_STEP_THREADS ? step->threads
                                                     : step->busy;
        if (to > from)
            sum += (double)(to - from) * 1e-9 * value;
    }
    return sum;
}
