/* sink_child - starts this same program again for work that must not delay commits. */
#ifndef SINK_CHILD_H
#define SINK_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "crema_error.h"

/* `argv` as for exec. *ret_fd: our end of a pipe, which does not block; the other one is the
 * child's standard input or output, `as`. The child runs at a lower priority and without CREMA_*
 * in its environment, which it would take for its options. CREMA_EAGAIN: it cannot be started
 * now. */
CREMA_MUST_CHECK crema_err_t sink_child_start(const char *const argv[], int as, pid_t *ret_pid,
                                              int *ret_fd);

#define SINK_CHILD_KILL_MS 5000 /* in which a killed process ends */

/* Waits `grace_ms` for the end of these children (0: none), then kills all that have not ended. One
 * that does not even end SINK_CHILD_KILL_MS after that, such as one that waits for a file system
 * that is gone, is left. Those that have ended become 0. */
void sink_child_end(pid_t pids[], size_t n, int grace_ms);

#endif
