/* agent_child - the wrapped command.
 *
 * Signals sent to the agent are passed on. Without a terminal, as in a batch job, the command has
 * a process group of its own: it gets once what is sent to the agent's group. At a terminal it is
 * in the agent's group, as a command of time(1): Ctrl-C, Ctrl-\ and Ctrl-Z reach both from there,
 * so SIGINT and SIGQUIT are not passed on. */
#ifndef AGENT_CHILD_H
#define AGENT_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>

#include "crema_error.h"

typedef struct agent_child agent_child_t;

/* Blocks the signals to be passed on and adds them to the signalfd of crema_signals_new(). Call
 * it before any thread starts. */
CREMA_MUST_CHECK crema_err_t agent_child_catch_signals(int signal_fd);

/* Runs argv (PATH is searched) with CREMA_SPOOL set and with the limit of open files `files`, the
 * one the agent was started with (NULL: the agent's current limit). Returns when the program runs.
 * CREMA_ENOENT: the program was not found; CREMA_EIO: it cannot be run, see errno. */
CREMA_MUST_CHECK crema_err_t agent_child_start(char *const argv[], const char *spool_dir,
                                               const struct rlimit *files,
                                               agent_child_t **ret_self);

/* Does not affect the process. Accepts NULL. */
void agent_child_destroy(agent_child_t **self_p);

/* Passes on a signal that the agent received, other than SIGCHLD. */
void agent_child_pass_on(agent_child_t *self, int number);

/* After SIGCHLD: reaps all children (as process 1 of a container the agent inherits others).
 * True once the command has ended: *ret_status is its exit status, or 128 + the signal that
 * killed it. */
bool agent_child_reap(agent_child_t *self, int *ret_status);

#endif
