/* sink_child - starts this very program once more for work that must not hold up the commits. */
#ifndef SINK_CHILD_H
#define SINK_CHILD_H

#include <sys/types.h>

#include "crema_error.h"

/* `argv` as for exec. The descriptor becomes the child's number `as`. It runs at a lower priority, without CREMA_* in its environment: options of
 * this program would be taken for its own. CREMA_EAGAIN: it cannot be started now. */
CREMA_MUST_CHECK crema_err_t sink_child_start(char *const argv[], int fd, int as, pid_t *ret_pid);

#endif
