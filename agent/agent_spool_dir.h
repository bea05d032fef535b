/* agent_spool_dir - the spool directory itself, and becoming a daemon beside it. */
#ifndef AGENT_SPOOL_DIR_H
#define AGENT_SPOOL_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"

/* Makes the directory (mode 0700) and those above it. NULL: the default place, ${TMPDIR:-/tmp}/crema-<uid>/spool, which must belong to this
 * user. Its real path goes into `path`. On failure errno says why; CREMA_ECONFIG: it is another user's. */
CREMA_MUST_CHECK crema_err_t agent_spool_dir_make(const char *dir, char path[PATH_MAX]);

/* Where an agent has keys of its own: `<dir>/keys`. False if the name is too long. */
bool agent_spool_dir_keys(const char *dir, char path[PATH_MAX]);

/* Keys that were brought for this agent, in `<dir>/keys`, are in its memory now: they go. Others stay; keys_dir may be NULL. */
void agent_spool_dir_take_keys(const char *dir, const char *keys_dir);

/* Markers of ended runs that nobody took away for a day: a collector that was killed cannot. */
void agent_spool_dir_sweep(const char *dir, int64_t now_s);

/* Removes what crema put there - locks, identity, log, keys - and the directory, if nothing else is in it. Segments are never removed here: as
 * long as one is there, or the directory cannot be read, all stays, the keys too: who delivers it must be the same agent. False if segments
 * stay. */
CREMA_MUST_CHECK bool agent_spool_dir_remove(const char *dir);

/* Goes on in a detached process with its output in `<dir>/agent.log`. The process that called waits for agent_daemon_ready() and leaves
 * with its status; only the detached one returns, with the descriptor for it. */
CREMA_MUST_CHECK crema_err_t agent_daemon_start(const char *dir, int *ret_ready);

/* Lets whoever waits leave with that exit status. -1 does nothing. */
void agent_daemon_ready(int ready, int status);

#endif
