/* agent_spool_dir - creates, cleans and removes the spool directory, and detaches the agent as a
 * daemon. */
#ifndef AGENT_SPOOL_DIR_H
#define AGENT_SPOOL_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"

/* Creates the directory and its parents: for this user only (mode 0700) or, if `shared`, for all
 * users (mode 1777 like /tmp; its parents 0755). One that is there keeps its mode. NULL: the
 * default, ${TMPDIR:-/tmp}/crema-<uid>/spool, which must belong to this user. `path` receives its
 * real path. After a failure see errno; CREMA_ECONFIG: it belongs to another user. */
CREMA_MUST_CHECK crema_err_t agent_spool_dir_make(const char *dir, bool shared,
                                                  char path[PATH_MAX]);

/* The directory of the agent's own keys: `<dir>/keys`. False if the name is too long. */
bool agent_spool_dir_keys(const char *dir, char path[PATH_MAX]);

/* Removes the keys in `<dir>/keys` that were brought for this agent and have been loaded. Other
 * keys stay; keys_dir may be NULL. */
void agent_spool_dir_take_keys(const char *dir, const char *keys_dir);

/* Removes markers of ended runs that are older than a day: their collector was killed. */
void agent_spool_dir_sweep(const char *dir, int64_t now_s);

/* Removes crema's files (locks, identity, log, keys) and the directory if nothing else is in it.
 * Segments are never removed: while one is there, or the directory cannot be read, everything
 * stays including the keys, since the same identity must deliver it. False if segments stay. */
CREMA_MUST_CHECK bool agent_spool_dir_remove(const char *dir);

/* Continues in a detached process with output to `<dir>/agent.log`. The calling process waits
 * for agent_daemon_ready() and exits with its status; only the detached one returns, with the
 * descriptor for it. */
CREMA_MUST_CHECK crema_err_t agent_daemon_start(const char *dir, int *ret_ready);

/* Lets the waiting process exit with that status. -1 does nothing. */
void agent_daemon_ready(int ready, int status);

#endif
