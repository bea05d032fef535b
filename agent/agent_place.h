/* agent_place - the spool directory itself, and becoming a daemon beside it. */
#ifndef AGENT_PLACE_H
#define AGENT_PLACE_H

#include <limits.h>

#include "crema_error.h"

/* Makes the directory (mode 0700) and those above it. NULL: the default place, ${TMPDIR:-/tmp}/crema-<uid>/spool, which must belong to this
 * user. Its real path goes into `path`. On failure errno says why; CREMA_ECONFIG: it is another user's. */
CREMA_MUST_CHECK crema_err_t agent_place_make(const char *dir, char path[PATH_MAX]);

/* Removes what crema put there - segments, locks, identity, log, keys - and the directory, if nothing else is in it. */
void agent_place_remove(const char *dir);

/* Goes on in a detached process with its output in `<dir>/agent.log`. The process that called waits for agent_daemon_ready() and leaves
 * with its status; only the detached one returns, with the descriptor for it. */
CREMA_MUST_CHECK crema_err_t agent_daemon_start(const char *dir, int *ret_ready);

/* Lets whoever waits leave with that exit status. -1 does nothing. */
void agent_daemon_ready(int ready, int status);

#endif
