/* agent - the reactor: one loop over signals, timers, the spool and the socket. agent_life.h has
 * the phases that an agent goes through. */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent_child.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_keys.h"

enum {
    AGENT_EXIT_DONE = 0,
    AGENT_EXIT_FAILED = 1, /* also if records stay in the spool */
    AGENT_EXIT_REFUSED = 3,
};

typedef struct {
    const char *spool_dir; /* absolute; exists */
    const char *endpoints;
    const crema_keys_t *keys; /* may be NULL */
    crema_id_t run_id;        /* zero: serve all runs, and stay after a dismissal */
    int64_t heartbeat_ns, sample_ns, poll_ns, drain_ns, orphan_ns;
    int64_t spool_limit_b;
    agent_child_t *child;    /* the wrapped command, with which it ends; else NULL */
    pid_t attached;          /* the process with which it ends; else 0 */
    bool ignore_hangup;      /* do not leave on SIGHUP */
    int signals;             /* of crema_signals_new() */
    int ready;               /* for agent_daemon_ready(), or -1 */
    const char *health_file; /* NULL: no file */
} agent_config_t;

/* Runs until the agent is done; returns the program's exit status. */
int agent_run(const agent_config_t *config);

#endif
