/* sink_bottleneck - measures from the facts what the diagnosis needs besides the budget. Pure:
 * arithmetic on facts and model.
 *
 * The GIL, per worker: k tasks run at once, a share U of the samples found it held (with a
 * confidence interval, since few samples say little), and exact mean value analysis gives how
 * long a thread waited, at most the time it was off the CPU. The interval of U gives the
 * interval of the wait. Without samples, threads are assumed to hold the GIL whenever they use
 * the CPU if the process wants about one core (CPU + waiting for one <= SINK_GIL_CORES),
 * otherwise never; the interval covers both.
 *
 * Only the rest can be waiting for a core: a thread that waits for the GIL wakes every few
 * milliseconds to ask for it, and the kernel counts the wait for a core before each attempt. */
#ifndef SINK_BOTTLENECK_H
#define SINK_BOTTLENECK_H

#include "sink_diagnosis.h"

typedef struct {
    sink_measured_t measured;
    size_t n_gil;         /* workers whose threads wait for the GIL */
    double tasks_at_once; /* of these workers, on average; NaN if there are none */
    double gil_held;      /* of these workers; NaN without samples */
    size_t gil_looks;
} sink_bottleneck_t;

CREMA_MUST_CHECK crema_err_t sink_bottleneck_measure(const sink_facts_t *facts,
                                                     const sink_model_t *model,
                                                     sink_bottleneck_t *ret_found);

#endif
