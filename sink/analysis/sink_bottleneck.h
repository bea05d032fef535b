/* sink_bottleneck - what the rules of the diagnosis need besides the budget, measured from the facts.
 * Pure: arithmetic on facts and model.
 *
 * The GIL, worker by worker: k tasks run at once, a share U of the looks found it held (its own range: few looks say little), and exact mean value analysis gives how
 * long a thread waited; never longer than it was off the CPU. The range of U is the range of that. Without any look, threads are taken to
 * hold the GIL whenever they use the CPU if the process wants about one core (CPU + waiting for one <= SINK_GIL_CORES), and never otherwise; the range is all in between.
 *
 * Only what is left of that can be waiting for a core: a thread that waits for the GIL wakes every few milliseconds to ask for it, and the kernel counts the wait for a core before
 * each question. */
#ifndef SINK_BOTTLENECK_H
#define SINK_BOTTLENECK_H

#include "sink_diagnosis.h"

typedef struct {
    sink_measured_t measured;
    size_t n_gil;         /* workers whose threads wait for the GIL */
    double tasks_at_once; /* of these, on average; NaN if there are none */
    double gil_held;      /* of these; NaN without any look */
    size_t gil_looks;
} sink_bottleneck_t;

CREMA_MUST_CHECK crema_err_t sink_bottleneck_measure(const sink_facts_t *facts,
                                                     const sink_model_t *model,
                                                     sink_bottleneck_t *ret_found);

#endif
