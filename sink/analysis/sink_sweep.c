#include "sink_sweep.h"

#include <math.h>
#include <stdlib.h>

#include "crema_columns.h"
#include "crema_grow.h"
#include "sink_axis.h"
#include "sink_change.h"
#include "sink_scratch.h"

typedef struct {
    int32_t threads, running, ready, paused;
    int64_t t_ns; /* since when */
    bool late;    /* it came after the first task of the run had begun */
    bool began;   /* its first task has begun */
    bool served;  /* its last chunk has arrived */
} worker_t;

/* Idle threads with a task ready on their worker, and the others by whether more chunks arrive. */
typedef struct {
    int32_t own, unserved, served;
} free_t;

typedef struct {
    const sink_sweep_in_t *in;
    sink_sweep_t *out;
    sink_axis_t axis;
    worker_t *workers;
    crema_err_t err;
    size_t counts_room, tail_room;
    double steady_s; /* thread-seconds since t_steady0_ns */
    int32_t n_workers, n_threads, n_busy;
    int32_t n_running[SINK_RUNS_COUNT];
    int32_t n_waiting;                /* ready tasks whose own worker has no idle thread */
    int32_t free_paused, free_late;   /* idle threads of paused workers; before a late one's task */
    free_t free_begun, free_punctual; /* of workers that have begun; of others that are not late */
} sweep_t;

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
s_note_tail(int64_t *tail0_ns, int64_t *tail1_ns, int64_t t0_ns, int64_t t1_ns)
{
    if (t0_ns > *tail0_ns)
        *tail0_ns = t0_ns;
    if (t1_ns > *tail1_ns)
        *tail1_ns = t1_ns;
}

/* First and last start and end, and the tail: of chunks, or of all tasks if there are none. */
static void
s_look_ahead(const sink_sweep_in_t *in, sink_sweep_t *out)
{
    int64_t tail0_ns = 0, tail1_ns = 0;
    bool any_chunk = false;
    sink_busy_t busy;
    if (in->rewind)
        in->rewind(in->cursor);
    while (in->next && in->next(in->cursor, &busy)) {
        int64_t t0 = busy.t0_ns, t1 = busy.t1_ns;
        if (busy.worker >= in->n_workers)
            continue;
        any_chunk = any_chunk || (busy.is_chunk && t1 > in->t0_ns && t0 < in->t1_ns);
        if (!sink_change_clip(in, &t0, &t1))
            continue;
        if (busy.side != CREMA_SIDE_FOREIGN)
            s_note_task(out, t0, t1);
        if (busy.is_chunk)
            s_note_tail(&out->t_tail0_ns, &out->t_tail1_ns, t0, t1);
        if (busy.side != CREMA_SIDE_FOREIGN)
            s_note_tail(&tail0_ns, &tail1_ns, t0, t1);
    }
    if (!any_chunk) {
        out->t_tail0_ns = tail0_ns;
        out->t_tail1_ns = tail1_ns;
    }
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
    } else if (!worker->began && worker->late) {
        self->free_late += sign * idle;
    } else {
        free_t *others = worker->began ? &self->free_begun : &self->free_punctual;
        others->own += sign * own;
        *(worker->served ? &others->served : &others->unserved) += sign * (idle - own);
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
s_apply(sweep_t *self, const sink_change_t *change)
{
    worker_t *worker = &self->workers[change->worker];
    s_settle_worker(self, change->worker, change->t_ns);
    s_count(self, worker, -1);
    switch (change->kind) {
    case SINK_CHANGE_PRESENT:
        if (worker->threads == 0)
            worker->late = change->t_ns > self->out->t_first_start_ns;
        worker->threads += change->delta;
        break;
    case SINK_CHANGE_START:
        worker->began = true;
        /* fall through */
    case SINK_CHANGE_STOP:
        worker->running += change->delta;
        self->n_running[change->task] += change->delta;
        break;
    case SINK_CHANGE_READY:
        worker->ready += change->delta;
        break;
    case SINK_CHANGE_PAUSE:
        worker->paused += change->delta;
        break;
    case SINK_CHANGE_SERVED:
        worker->served = true;
        break;
    }
    s_count(self, worker, 1);
}

/* Adds `s` seconds of idle threads to their classes; returns how many of the tasks that wait for
 * a thread of another worker are left for other threads. */
static int32_t
s_class(const sweep_t *self, const free_t *idle, int32_t n_waiting, double s, double *idle_s)
{
    const bool others_work = self->n_running[SINK_RUNS_CHUNK] > 0 || self->n_waiting > 0;
    const int32_t held_up = n_waiting < idle->served ? n_waiting : idle->served;
    idle_s[SINK_IDLE_LATENCY] += s * idle->own;
    idle_s[others_work ? SINK_IDLE_LATENCY : SINK_IDLE_STARVED] += s * idle->unserved;
    idle_s[SINK_IDLE_IMBALANCE] += s * held_up;
    idle_s[SINK_IDLE_STARVED] += s * (idle->served - held_up);
    return n_waiting - held_up;
}

/* Idle threads during the run, for `s` seconds. */
static void
s_idle(sweep_t *self, double s)
{
    const free_t *punctual = &self->free_punctual;
    int32_t n_waiting = s_class(self, &self->free_begun, self->n_waiting, s, self->out->idle_s);
    s_class(self, punctual, n_waiting, s, self->out->punctual_s);
    self->out->idle_s[SINK_IDLE_JOIN] +=
        s * (self->free_late + punctual->own + punctual->unserved + punctual->served);
}

/* First and last instant with 90 % of the threads busy, and the threads between them. */
static void
s_note_steady(sweep_t *self, int64_t t0_ns, int64_t t1_ns)
{
    sink_sweep_t *out = self->out;
    const bool steady = self->n_threads > 0 && self->n_busy >= 0.9 * self->n_threads;
    if (steady && out->t_steady0_ns == 0)
        out->t_steady0_ns = t0_ns;
    if (out->t_steady0_ns != 0)
        self->steady_s += (double)(t1_ns - t0_ns) * 1e-9 * self->n_threads;
    if (steady) {
        out->t_steady1_ns = t1_ns;
        out->steady_thread_s = self->steady_s;
    }
}

static void
s_spread(const sweep_t *self, int64_t t0_ns, int64_t t1_ns)
{
    const sink_sweep_t *out = self->out;
    const double ns = (double)(t1_ns - t0_ns);
    sink_axis_spread(&self->axis, t0_ns, t1_ns, self->n_workers * ns, out->worker_ns);
    sink_axis_spread(&self->axis, t0_ns, t1_ns, self->n_threads * ns, out->thread_ns);
    sink_axis_spread(&self->axis, t0_ns, t1_ns, self->n_busy * ns, out->busy_ns);
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
    s_spread(self, t0_ns, t1_ns);
    s_note_steady(self, t0_ns, t1_ns);
    if (out->t_first_start_ns == 0 || t0_ns < out->t_first_start_ns) {
        out->idle_s[SINK_IDLE_STARTUP] += s * idle;
        return;
    }
    if (t0_ns >= out->t_last_end_ns) {
        out->idle_s[SINK_IDLE_DRAINED] += s * idle;
        return;
    }
    out->idle_s[SINK_IDLE_PAUSED] += s * self->free_paused;
    if (self->n_running[SINK_RUNS_CHUNK] == 0 && self->n_running[SINK_RUNS_PREPROCESS] > 0)
        out->idle_s[SINK_IDLE_PREPROCESS] += s * usable;
    else if (self->n_running[SINK_RUNS_CHUNK] == 0 && self->n_running[SINK_RUNS_MERGE] > 0)
        out->idle_s[SINK_IDLE_MERGE] += s * usable;
    else if (in_tail)
        out->idle_s[SINK_IDLE_TAIL] += s * usable;
    else
        s_idle(self, s);
}

static void
s_add_step(sweep_t *self, sink_step_t **steps, size_t *n, size_t *room, sink_step_t step)
{
    sink_step_t *grown = crema_grow(*steps, *n, room, sizeof step);
    if (!grown) {
        self->err = CREMA_ENOMEM;
        return;
    }
    *steps = grown;
    grown[(*n)++] = step;
}

static void
s_step(sweep_t *self, int64_t t_ns)
{
    sink_sweep_t *out = self->out;
    const sink_step_t step = {t_ns, self->n_workers, self->n_threads, self->n_busy};
    const sink_step_t *before = out->n_counts > 0 ? &out->counts[out->n_counts - 1] : NULL;
    if (self->n_threads > out->threads_peak)
        out->threads_peak = self->n_threads;
    if (self->n_workers > out->workers_peak)
        out->workers_peak = self->n_workers;
    if (!before || before->workers != step.workers || before->threads != step.threads)
        s_add_step(self, &out->counts, &out->n_counts, &self->counts_room, step);
    if (t_ns <= out->t_tail0_ns)
        out->n_tail = 0;
    if (t_ns < out->t_tail1_ns)
        s_add_step(self, &out->tail, &out->n_tail, &self->tail_room, step);
}

/* Changes at the same instant are applied together: a slot that is handed over was never idle.
 * After the last one no worker is present. */
static void
s_sweep(sweep_t *self, sink_changes_t *changes)
{
    int64_t now = self->in->t0_ns;
    sink_change_t change;
    bool more = sink_changes_next(changes, &change);
    for (; more && change.t_ns == now; more = sink_changes_next(changes, &change))
        s_apply(self, &change);
    s_step(self, now);
    while (more) {
        const int64_t t_ns = change.t_ns;
        s_segment(self, now, t_ns);
        for (; more && change.t_ns == t_ns; more = sink_changes_next(changes, &change))
            s_apply(self, &change);
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
    sweep_t self = {.in = in, .out = &out, .axis = sink_axis(in->t0_ns, in->t1_ns)};
    self.workers = sink_scratch(NULL, in->n_workers + 1, sizeof *self.workers, &self.err);
    out.workers = sink_scratch(NULL, in->n_workers + 1, sizeof *out.workers, &self.err);
    out.worker_ns = sink_scratch(NULL, self.axis.n, sizeof *out.worker_ns, &self.err);
    out.thread_ns = sink_scratch(NULL, self.axis.n, sizeof *out.thread_ns, &self.err);
    out.busy_ns = sink_scratch(NULL, self.axis.n, sizeof *out.busy_ns, &self.err);
    for (size_t w = 0; self.err == CREMA_OK && w < in->n_workers; w++) {
        self.workers[w].t_ns = in->t0_ns;
        self.workers[w].served = !in->last_arrival_ns || in->last_arrival_ns[w] <= in->t0_ns;
    }
    if (self.err == CREMA_OK) {
        sink_changes_t changes;
        s_look_ahead(in, &out);
        self.err = sink_changes_open(&changes, in);
        if (self.err == CREMA_OK)
            s_sweep(&self, &changes);
        if (self.err == CREMA_OK)
            self.err = changes.err;
        sink_changes_close(&changes);
    }
    sink_scratch_free(self.workers);
    if (self.err == CREMA_OK)
        *ret_sweep = out;
    else
        sink_sweep_clear(&out);
    return self.err;
}

void
sink_sweep_clear(sink_sweep_t *sweep)
{
    sink_scratch_free(sweep->workers);
    free(sweep->counts);
    free(sweep->tail);
    sink_scratch_free(sweep->worker_ns);
    sink_scratch_free(sweep->thread_ns);
    sink_scratch_free(sweep->busy_ns);
    *sweep = (sink_sweep_t){0};
}

/* Seconds of step `i` of `n` between two instants; the last step has no end of its own. */
static double
s_step_s(const sink_step_t *steps, size_t n, size_t i, int64_t t0_ns, int64_t t1_ns)
{
    const int64_t from = steps[i].t_ns > t0_ns ? steps[i].t_ns : t0_ns;
    const int64_t to = i + 1 < n && steps[i + 1].t_ns < t1_ns ? steps[i + 1].t_ns : t1_ns;
    return to > from ? (double)(to - from) * 1e-9 : 0;
}

double
sink_sweep_thread_s(const sink_sweep_t *sweep, int64_t t0_ns, int64_t t1_ns)
{
    double sum = 0;
    for (size_t i = 0; i < sweep->n_counts; i++)
        sum += s_step_s(sweep->counts, sweep->n_counts, i, t0_ns, t1_ns) * sweep->counts[i].threads;
    return sum;
}

double
sink_sweep_idle_tail_s(const sink_sweep_t *sweep, int64_t t0_ns)
{
    double threads_s = 0, busy_s = 0;
    for (size_t i = 0; i < sweep->n_tail; i++) {
        const double s = s_step_s(sweep->tail, sweep->n_tail, i, t0_ns, sweep->t_tail1_ns);
        threads_s += s * sweep->tail[i].threads;
        busy_s += s * sweep->tail[i].busy;
    }
    return fmax(threads_s - busy_s, 0);
}
