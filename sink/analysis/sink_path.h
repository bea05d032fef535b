/* sink_path - the critical path: the longest way through the task graph.
 * Pure: arithmetic on arrays. */
#ifndef SINK_PATH_H
#define SINK_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    uint32_t task, needs; /* `task` starts after `needs` */
} sink_edge_t;

/* Seconds of the longest chain of tasks that need each other. CREMA_EINVAL: the edges form a circle. Sorts the edges. */
CREMA_MUST_CHECK crema_err_t sink_path_longest(const double *durations_s, size_t n_tasks,
                                               sink_edge_t *edges, size_t n_edges, double *ret_s);

#endif
