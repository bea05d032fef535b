/* agent_life - what an agent goes through, from the lock of its spool to its exit status:
 *
 *     STANDBY --lock--> SERVING --TERM, dismissed, orphaned, command or process ended--> LEAVING
 *     LEAVING --delivered, or deadline--> done
 *
 * In STANDBY another agent serves the spool; only an agent that wraps a command or attaches to a
 * process waits there. Functions that return an int follow CZMQ's loop: -1 ends it. */
#ifndef AGENT_LIFE_H
#define AGENT_LIFE_H

#include <limits.h>

#include "agent.h"
#include "agent_delivery.h"
#include "agent_sampler.h"
#include "crema_spool.h"

typedef enum { AGENT_STANDBY, AGENT_SERVING, AGENT_LEAVING } agent_phase_t;

/* The fields are read by the reactor; only agent_life.c writes them. */
typedef struct {
    const agent_config_t *config; /* set by the reactor, up to reactor */
    zloop_t *loop;
    void (*on_turn)(void *reactor); /* after messages: agent_life_go_on() may be due */
    void *reactor;
    agent_phase_t phase;
    char host[HOST_NAME_MAX + 1];
    crema_spool_t *spool;
    agent_sampler_t *sampler; /* from SERVING on, as is delivery */
    agent_delivery_t *delivery;
    crema_id_t agent_id;
    int64_t leave_by_ns;  /* in LEAVING */
    int64_t idle_from_ns; /* last time with writers or records */
    bool unreachable;     /* and that was logged */
    bool hides_others;    /* processes of other users cannot be sampled, and that was logged */
    bool refused;         /* and the command continues */
    bool child_ended;
    int child_status;
    int status; /* exit status */
} agent_life_t;

/* Takes the spool's lock, in so many tries, and begins to serve. CREMA_EBUSY: another agent holds
 * the lock. */
CREMA_MUST_CHECK crema_err_t agent_life_serve(agent_life_t *self, int tries);

/* Destroys what the fields hold, but for the reactor's. */
void agent_life_clear(agent_life_t *self);

/* Ends the agent's own streams and delivers what there is. */
int agent_life_leave(agent_life_t *self, int64_t patience_ns, const char *why);

/* The same, for as long as an agent that is asked to stop waits for its aggregator. */
int agent_life_leave_soon(agent_life_t *self, const char *why);

/* The wrapped command may have ended. */
int agent_life_reap(agent_life_t *self);

/* After each tick of the delivery: notes whether the aggregator answers, leaves if the agent is
 * not needed any more, and reacts to the end of the session. */
int agent_life_go_on(agent_life_t *self, int64_t now_ns);

bool agent_life_is_healthy(const agent_life_t *self);

#endif
