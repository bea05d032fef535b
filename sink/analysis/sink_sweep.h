/* sink_sweep - threads over time: how many were present, how many were busy, and why the others
 * were idle. Pure: one pass over all change points, of which only those of running tasks are held.
 *
 * An idle thread belongs to the first class that applies: STARTUP before the run's first task
 * began; DRAINED after its last task ended; PAUSED while its worker is paused; PREPROCESS, MERGE
 * while such tasks run and no chunk does; TAIL from the start of the last chunk to the end of
 * all chunks (of tasks, if there are no chunks); JOIN before the worker's first task began;
 * LATENCY while a task is ready on its own worker or, until the worker's last chunk arrives,
 * while chunks run or wait elsewhere, since that chunk could already be here; IMBALANCE while a
 * task waits for a thread of another worker and no further chunk arrives here; STARVED
 * otherwise. */
#ifndef SINK_SWEEP_H
#define SINK_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_presence.h"

typedef enum {
    SINK_IDLE_STARTUP,
    SINK_IDLE_DRAINED,
    SINK_IDLE_TAIL,
    SINK_IDLE_JOIN,
    SINK_IDLE_LATENCY,
    SINK_IDLE_STARVED,
    SINK_IDLE_IMBALANCE,
    SINK_IDLE_PREPROCESS,
    SINK_IDLE_MERGE,
    SINK_IDLE_PAUSED,
    SINK_IDLE_COUNT,
} sink_idle_t;

/* A task on a slot of a worker. */
typedef struct {
    int64_t t0_ns, t1_ns;
    int64_t t_ready_ns; /* since when it waited for the slot; 0: it did not */
    uint32_t worker;
    bool is_chunk;
    uint8_t side; /* crema_side_t of a task that is not a chunk */
} sink_busy_t;

/* The next task in order of t0_ns; false after the last one. */
typedef bool (*sink_busy_fn)(void *cursor, sink_busy_t *ret_busy);

/* A paused worker. */
typedef struct {
    int64_t t0_ns, t1_ns;
    uint32_t worker;
} sink_spell_t;

/* The counts from t_ns until the next step. */
typedef struct {
    int64_t t_ns;
    int32_t workers, threads, busy;
} sink_step_t;

typedef struct {
    double present_s, thread_s, busy_s;
    double active_s; /* with at least one task */
} sink_load_t;

typedef struct {
    int64_t t0_ns, t1_ns; /* the window */
    size_t n_workers;     /* all worker numbers are below */
    const sink_presence_t *presence;
    size_t n_presence;
    sink_busy_fn next; /* NULL: no tasks */
    void *cursor;
    void (*rewind)(void *cursor); /* back to the first task */
    const sink_spell_t *paused;
    size_t n_paused;
    const int64_t *last_arrival_ns; /* by worker: arrival of its last chunk; NULL: unknown */
    const char *dir;                /* for arrays that are larger than memory; NULL: none */
} sink_sweep_in_t;

typedef struct {
    double alloc_s, busy_s;
    double idle_s[SINK_IDLE_COUNT];
    double punctual_s[SINK_IDLE_COUNT]; /* of JOIN: workers that were there when the first task
                                           began, by the class that would be theirs after JOIN */
    int32_t threads_peak, workers_peak;
    double worker_s; /* worker-seconds present */
    int64_t t_first_start_ns, t_last_start_ns,
        t_last_end_ns; /* of tasks in the window; 0 if there were none */
    /* start of the last chunk, end of all; of tasks if there are no chunks */
    int64_t t_tail0_ns, t_tail1_ns;
    /* first and last instant with 90 % of the threads busy; 0 if there was none */
    int64_t t_steady0_ns, t_steady1_ns;
    double steady_thread_s;
    double tail_free_s; /* idle threads in the tail */
    sink_load_t *workers;
    sink_step_t *counts; /* where the number of workers or threads changes */
    size_t n_counts;
    sink_step_t *tail; /* all steps of the tail, with the one in which it begins */
    size_t n_tail;
    double *worker_ns, *thread_ns, *busy_ns; /* by step of the window's sink_axis() */
} sink_sweep_t;

CREMA_MUST_CHECK crema_err_t sink_sweep_run(const sink_sweep_in_t *in, sink_sweep_t *ret_sweep);
/* Frees the content; a zeroed struct is allowed. */
void sink_sweep_clear(sink_sweep_t *sweep);

/* Thread-seconds present between two instants of the window. */
double sink_sweep_thread_s(const sink_sweep_t *sweep, int64_t t0_ns, int64_t t1_ns);

/* Idle thread-seconds from an instant in the tail to its end. */
double sink_sweep_idle_tail_s(const sink_sweep_t *sweep, int64_t t0_ns);

#endif
