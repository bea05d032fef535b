#include "sink_change.h"

#include <stdlib.h>

#include "crema_columns.h"
#include "crema_grow.h"
#include "sink_scratch.h"
#include "sink_sort.h"

bool
sink_change_clip(const sink_sweep_in_t *in, int64_t *t0_ns, int64_t *t1_ns)
{
    if (*t0_ns < in->t0_ns)
        *t0_ns = in->t0_ns;
    if (*t1_ns > in->t1_ns)
        *t1_ns = in->t1_ns;
    return *t1_ns > *t0_ns;
}

static sink_runs_t
s_runs(const sink_busy_t *busy)
{
    if (busy->is_chunk)
        return SINK_RUNS_CHUNK;
    return busy->side == CREMA_SIDE_PREPROCESS ? SINK_RUNS_PREPROCESS
           : busy->side == CREMA_SIDE_MERGE    ? SINK_RUNS_MERGE
                                               : SINK_RUNS_OTHER;
}

/* ---- tasks, in order of their start */

/* When the task waited for its slot, within the window; false if it did not. */
static bool
s_waited(const sink_sweep_in_t *in, const sink_busy_t *busy, int64_t *ret_t0_ns, int64_t *ret_t1_ns)
{
    *ret_t0_ns = busy->t_ready_ns;
    *ret_t1_ns = busy->t0_ns;
    return busy->t_ready_ns != 0 && sink_change_clip(in, ret_t0_ns, ret_t1_ns);
}

/* The next task of a known worker that waits or runs within the window. */
static void
s_fetch(sink_changes_t *self)
{
    const sink_sweep_in_t *in = self->in;
    const sink_busy_t *busy = &self->busy;
    int64_t t0, t1;
    do {
        if (!(self->more = in->next && in->next(in->cursor, &self->busy)))
            return;
        self->waited = s_waited(in, busy, &t0, &t1);
        t0 = busy->t0_ns;
        t1 = busy->t1_ns;
        self->runs = sink_change_clip(in, &t0, &t1);
    } while (busy->worker >= in->n_workers || (!self->waited && !self->runs));
}

static void
s_rewind(sink_changes_t *self)
{
    if (self->in->rewind)
        self->in->rewind(self->in->cursor);
    s_fetch(self);
}

/* Within the window. */
static int64_t
s_start_ns(const sink_changes_t *self)
{
    const sink_sweep_in_t *in = self->in;
    int64_t t_ns = self->busy.t0_ns > in->t0_ns ? self->busy.t0_ns : in->t0_ns;
    return t_ns < in->t1_ns ? t_ns : in->t1_ns;
}

/* ---- ends of tasks: a heap */

static void
s_push_stop(sink_changes_t *self, sink_change_t stop)
{
    sink_change_t *stops = crema_grow(self->stops, self->n_stops, &self->stops_room, sizeof *stops);
    if (!stops) {
        self->err = CREMA_ENOMEM;
        return;
    }
    self->stops = stops;
    size_t at = self->n_stops++;
    for (size_t parent; at > 0 && stops[parent = (at - 1) / 2].t_ns > stop.t_ns; at = parent)
        stops[at] = stops[parent];
    stops[at] = stop;
}

static sink_change_t
s_pop_stop(sink_changes_t *self)
{
    sink_change_t *stops = self->stops, first = stops[0], last = stops[--self->n_stops];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < self->n_stops; at = child) {
        if (child + 1 < self->n_stops && stops[child + 1].t_ns < stops[child].t_ns)
            child++;
        if (stops[child].t_ns >= last.t_ns)
            break;
        stops[at] = stops[child];
    }
    stops[at] = last;
    return first;
}

/* ---- the rest, sorted */

/* Of waiting tasks and of changes alike: both begin with t_ns. */
static int
s_by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void
s_take_ready(sink_changes_t *self)
{
    size_t most = 0, n = 0;
    int64_t t0 = 0, t1;
    for (s_rewind(self); self->more; s_fetch(self))
        most += self->waited;
    self->ready = sink_scratch(self->in->dir, most + 1, sizeof *self->ready, &self->err);
    if (!self->ready)
        return;
    for (s_rewind(self); self->more; s_fetch(self))
        if (s_waited(self->in, &self->busy, &t0, &t1))
            self->ready[n++] = (sink_waiting_t){t0, self->busy.worker};
    sink_sort_by_int64(self->ready, n, sizeof *self->ready, s_by_time);
    self->n_ready = n;
}

static void
s_add_other(sink_changes_t *self, int64_t t_ns, uint32_t worker, sink_change_kind_t kind,
            int32_t delta)
{
    self->others[self->n_others++] = (sink_change_t){t_ns, worker, kind, SINK_RUNS_OTHER, delta};
}

static void
s_take_others(sink_changes_t *self)
{
    const sink_sweep_in_t *in = self->in;
    const size_t most = 2 * (in->n_presence + in->n_paused) + in->n_workers + 1;
    if (!(self->others = calloc(most, sizeof *self->others))) {
        self->err = CREMA_ENOMEM;
        return;
    }
    for (size_t i = 0; i < in->n_presence; i++) {
        const sink_presence_t *p = &in->presence[i];
        int64_t t0 = p->t0_ns, t1 = p->t1_ns;
        if (!sink_change_clip(in, &t0, &t1))
            continue;
        s_add_other(self, t0, p->worker, SINK_CHANGE_PRESENT, (int32_t)p->nthreads);
        s_add_other(self, t1, p->worker, SINK_CHANGE_PRESENT, -(int32_t)p->nthreads);
    }
    for (size_t i = 0; i < in->n_paused; i++) {
        const sink_spell_t *paused = &in->paused[i];
        int64_t t0 = paused->t0_ns, t1 = paused->t1_ns;
        if (paused->worker >= in->n_workers || !sink_change_clip(in, &t0, &t1))
            continue;
        s_add_other(self, t0, paused->worker, SINK_CHANGE_PAUSE, 1);
        s_add_other(self, t1, paused->worker, SINK_CHANGE_PAUSE, -1);
    }
    for (uint32_t w = 0; in->last_arrival_ns && w < in->n_workers; w++)
        if (in->last_arrival_ns[w] > in->t0_ns && in->last_arrival_ns[w] < in->t1_ns)
            s_add_other(self, in->last_arrival_ns[w], w, SINK_CHANGE_SERVED, 0);
    sink_sort_by_int64(self->others, self->n_others, sizeof *self->others, s_by_time);
}

/* ---- all in order */

crema_err_t
sink_changes_open(sink_changes_t *self, const sink_sweep_in_t *in)
{
    *self = (sink_changes_t){.in = in};
    s_take_ready(self);
    if (self->err == CREMA_OK)
        s_take_others(self);
    s_rewind(self);
    return self->err;
}

void
sink_changes_close(sink_changes_t *self)
{
    free(self->stops);
    free(self->others);
    sink_scratch_free(self->ready);
}

/* The next task leaves the queue of its worker, or starts. */
static sink_change_t
s_start(sink_changes_t *self)
{
    const sink_busy_t busy = self->busy;
    const sink_runs_t runs = s_runs(&busy);
    const int64_t t_ns = s_start_ns(self);
    if (self->waited) {
        self->waited = false;
        if (!self->runs)
            s_fetch(self);
        return (sink_change_t){t_ns, busy.worker, SINK_CHANGE_READY, runs, -1};
    }
    int64_t t0 = busy.t0_ns, t1 = busy.t1_ns;
    (void)sink_change_clip(self->in, &t0, &t1);
    s_push_stop(self, (sink_change_t){t1, busy.worker, SINK_CHANGE_STOP, runs, -1});
    s_fetch(self);
    return (sink_change_t){t_ns, busy.worker, SINK_CHANGE_START, runs, 1};
}

bool
sink_changes_next(sink_changes_t *self, sink_change_t *ret_change)
{
    const int64_t never = INT64_MAX;
    const int64_t start_ns = self->more ? s_start_ns(self) : never;
    const int64_t stop_ns = self->n_stops > 0 ? self->stops[0].t_ns : never;
    const int64_t ready_ns =
        self->next_ready < self->n_ready ? self->ready[self->next_ready].t_ns : never;
    const int64_t other_ns =
        self->next_other < self->n_others ? self->others[self->next_other].t_ns : never;
    const int64_t worker_ns = stop_ns < other_ns ? stop_ns : other_ns;
    const int64_t queue_ns = start_ns < ready_ns ? start_ns : ready_ns;
    if (self->err != CREMA_OK || (worker_ns == never && queue_ns == never))
        return false;
    if (queue_ns < worker_ns) {
        if (start_ns < ready_ns) {
            *ret_change = s_start(self);
        } else {
            *ret_change = (sink_change_t){ready_ns, self->ready[self->next_ready++].worker,
                                          SINK_CHANGE_READY, SINK_RUNS_OTHER, 1};
        }
    } else {
        *ret_change = stop_ns < other_ns ? s_pop_stop(self) : self->others[self->next_other++];
    }
    return true;
}
