/* sink_child - starts this same program again for work that must not delay commits. */
#ifndef SINK_CHILD_H
#define SINK_CHILD_H

#include <sys/types.h>

#include "crema_error.h"

/* `argv` as for exec. The descriptor `fd` becomes descriptor `as` of the child. The child runs
 * at a lower priority and without CREMA_* in its environment, which it would take for its
 * options. CREMA_EAGAIN: it cannot be started now. */
CREMA_MUST_CHECK crema_err_t sink_child_start(char *const argv[], int fd, int as, pid_t *ret_pid);

#endif
