/* sink_path - the critical path: the longest path through the task graph. Pure: arithmetic on
 * arrays. */
#ifndef SINK_PATH_H
#define SINK_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    uint32_t task, needs; /* `task` starts after `needs` */
} sink_edge_t;

/* Length in seconds of the longest chain of dependent tasks. CREMA_EINVAL: the edges contain a
 * cycle. Sorts the edges. `dir`: for arrays that are larger than memory; NULL: none. */
CREMA_MUST_CHECK crema_err_t sink_path_longest(const char *dir, const double *durations_s,
                                               size_t n_tasks, sink_edge_t *edges, size_t n_edges,
                                               double *ret_s);

#endif
