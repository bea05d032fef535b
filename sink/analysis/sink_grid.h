/* sink_grid - a run in even time steps: what each worker did in each, and sums over workers.
 * Pure: arithmetic on the facts.
 *
 * A value is the mean over its step. Events and bytes are spread evenly over the attempt that
 * processed them. NaN where a worker was absent or not observed. */
#ifndef SINK_GRID_H
#define SINK_GRID_H

#include <stddef.h>
#include <stdint.h>

#include "crema_metrics.h"
#include "sink_axis.h"
#include "sink_facts.h"

/* Fills values[variable][(worker - first) * axis.n + step] for workers first..first+n. */
void sink_grid_workers(const sink_facts_t *facts, const sink_axis_t *axis, size_t first, size_t n,
                       double *const values[CREMA_GRID_PER_WORKER]);

/* Fills values[step] of one of the sums; `axis` is that of the run's window. */
void sink_grid_sum(const sink_facts_t *facts, const sink_axis_t *axis, crema_grid_t variable,
                   double *values);

#endif
