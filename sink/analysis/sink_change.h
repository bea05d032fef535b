/* sink_change - what changes on the slots of the workers, in order of time; for sink_sweep. Held
 * are the ends of the tasks that run, when tasks became ready, and what concerns whole workers.
 * Pure: arithmetic on arrays. */
#ifndef SINK_CHANGE_H
#define SINK_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_sweep.h"

typedef enum {
    SINK_CHANGE_STOP,
    SINK_CHANGE_PRESENT,
    SINK_CHANGE_START,
    SINK_CHANGE_READY,
    SINK_CHANGE_PAUSE,
    SINK_CHANGE_SERVED, /* the last chunk has arrived at the worker */
} sink_change_kind_t;

/* Kind of a running task, as far as it matters for idle threads of other workers. */
typedef enum {
    SINK_RUNS_CHUNK,
    SINK_RUNS_PREPROCESS,
    SINK_RUNS_MERGE,
    SINK_RUNS_OTHER,
    SINK_RUNS_COUNT
} sink_runs_t;

typedef struct {
    int64_t t_ns;
    uint32_t worker;
    sink_change_kind_t kind;
    sink_runs_t task; /* of START and STOP */
    int32_t delta;    /* threads, running tasks, ready tasks or pauses */
} sink_change_t;

/* A task that waits for a slot from t_ns on. */
typedef struct {
    int64_t t_ns;
    uint32_t worker;
} sink_waiting_t;

typedef struct {
    const sink_sweep_in_t *in;
    crema_err_t err;
    sink_busy_t busy;     /* the next one to start */
    bool more;            /* there is one */
    bool waited;          /* it is counted as ready until it starts */
    bool runs;            /* within the window */
    sink_change_t *stops; /* of what runs; a heap */
    size_t n_stops, stops_room;
    sink_waiting_t *ready; /* a sink_scratch() array */
    size_t n_ready, next_ready;
    sink_change_t *others; /* of whole workers */
    size_t n_others, next_other;
} sink_changes_t;

/* `in` must outlive the changes. */
CREMA_MUST_CHECK crema_err_t sink_changes_open(sink_changes_t *self, const sink_sweep_in_t *in);
void sink_changes_close(sink_changes_t *self);

/* False after the last one, and after an error, which is in self->err. */
bool sink_changes_next(sink_changes_t *self, sink_change_t *ret_change);

/* Clips to the window; false if nothing remains. */
bool sink_change_clip(const sink_sweep_in_t *in, int64_t *t0_ns, int64_t *t1_ns);

#endif
