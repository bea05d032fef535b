/* sink_bottleneck - what holds a run back: the waterfall divided by cause.
 * Pure: arithmetic on facts and budget.
 *
 * A worker's threads take turns on the GIL where several tasks run at once (SINK_GIL_TASKS on average) and the GIL is found held at SINK_GIL_QUIET of the looks
 * or more. While one of k tasks holds it, whether on a core or waiting for one, the others cannot run Python: held x (k - 1) / k of the tasks' time, of what was not
 * CPU. Only what is left of that can be waiting for a core: a thread that waits for the GIL wakes every few milliseconds to ask for it, and the kernel counts
 * the wait for a core before each question.
 *
 * Where nobody looked at the GIL, threads are taken to wait for it if the process as a whole wants about one core: what it used while chunks ran plus what its threads
 * waited for one is at most SINK_GIL_CORES. The seconds are then those in which other threads of the process were on the CPU while this one was not. */
#ifndef SINK_BOTTLENECK_H
#define SINK_BOTTLENECK_H

#include "crema_metrics.h"
#include "sink_budget.h"

#define SINK_GIL_TASKS 1.5
#define SINK_GIL_CORES 1.2
#define SINK_GIL_QUIET 0.2

/* A loss of this share of the capacity comes before compute, which is no loss. */
#define SINK_LOSS_MATTERS 0.2

typedef struct {
    double seconds[CREMA_BOTTLENECK_COUNT]; /* they sum to the capacity less the residual */
    bool cores_known;                       /* the kernel told how long threads waited for one */
    double open_share;                      /* of the time of counted attempts */
    size_t n_gil;                           /* workers whose threads take turns */
    double tasks_at_once;                   /* of these; NaN if there are none */
    double gil_held;                        /* of these; NaN if nobody looked */
    crema_bottleneck_t order[CREMA_BOTTLENECK_COUNT]; /* what costs most first */
} sink_bottleneck_t;

CREMA_MUST_CHECK crema_err_t sink_bottleneck_find(const sink_facts_t *facts,
                                                  const sink_budget_t *budget,
                                                  sink_bottleneck_t *ret_found);

#endif
