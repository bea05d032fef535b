/* agent_child - the wrapped command: started in a process group of its own, so that each signal reaches it exactly once.
 *
 * What is sent to the agent is passed on. At a terminal the command's group is the foreground, so Ctrl-C and Ctrl-Z go to it directly and not
 * to the agent; when it is stopped there, the agent gives the terminal back, stops too, and goes on with it. */
#ifndef AGENT_CHILD_H
#define AGENT_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>

#include "crema_error.h"

typedef struct agent_child agent_child_t;

/* Blocks the signals that are to be passed on and adds them to the signalfd of crema_signals_new(). Before any thread. */
CREMA_MUST_CHECK crema_err_t agent_child_catch_signals(int signal_fd);

/* Runs argv (PATH is searched) with CREMA_SPOOL and CREMA_AGENT_PID set and the limit of open files that the agent found (NULL: the agent's
 * own), and returns when it runs. CREMA_ENOENT: there is no such program; CREMA_EIO: it cannot be run, errno says why. */
CREMA_MUST_CHECK crema_err_t agent_child_start(char *const argv[], const char *spool_dir,
                                               const struct rlimit *files,
                                               agent_child_t **ret_self);

/* Leaves the process alone. Accepts NULL. */
void agent_child_destroy(agent_child_t **self_p);

/* A signal that the agent received, but for SIGCHLD. */
void agent_child_pass_on(agent_child_t *self, int number);

/* After SIGCHLD: reaps all children there are (as process 1 of a container the agent inherits others'). True once the command has
 * ended: *ret_status is its exit status, or 128 + the signal that killed it. */
bool agent_child_reap(agent_child_t *self, int *ret_status);

#endif
