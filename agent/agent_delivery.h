/* agent_delivery - brings spool, sampler, session and link together: what lies in the spool goes to the aggregator, what is committed
 * there goes from the spool.
 *
 * The session decides; this does: it dials, sends, reads, scans, trims. */
#ifndef AGENT_DELIVERY_H
#define AGENT_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_link.h"
#include "agent_sampler.h"
#include "crema_session.h"
#include "crema_spool.h"

typedef struct {
    crema_session_config_t session;
    crema_id_t run_id;      /* deliver this run only; zero: all */
    uint64_t spool_limit_b; /* evict above it */
    const char *endpoints;  /* see agent_reach.h, as the directory */
    const char *way_dir;
    const crema_keys_t *keys;
} agent_delivery_config_t;

typedef struct agent_delivery agent_delivery_t;

/* Everything is borrowed for the delivery's life, which ends before the loop's. */
CREMA_MUST_CHECK crema_err_t agent_delivery_new(const agent_delivery_config_t *config,
                                                zloop_t *loop, crema_spool_t *spool,
                                                agent_sampler_t *sampler,
                                                agent_delivery_t **ret_self);
void agent_delivery_destroy(agent_delivery_t **self_p);

/* Reads on in the spool, keeps it below its limit, tells the session. */
void agent_delivery_scan(agent_delivery_t *self);

/* At least each 100 ms while it is busy, else when convenient. */
void agent_delivery_tick(agent_delivery_t *self);

/* Deliver what there is and leave; see crema_session_drain(). */
void agent_delivery_drain(agent_delivery_t *self, int64_t deadline_ns);

/* It has said BYE, or its session is closed: what a scan finds now is not delivered any more. */
bool agent_delivery_is_over(const agent_delivery_t *self);

/* Records are on their way. */
bool agent_delivery_is_busy(const agent_delivery_t *self);

crema_session_state_t agent_delivery_state(const agent_delivery_t *self);
crema_session_end_t agent_delivery_end(const agent_delivery_t *self);
/* Why END_REFUSED; 0 otherwise. */
crema_fence_reason_t agent_delivery_refusal(const agent_delivery_t *self);

/* When a message of the aggregator was last understood, CLOCK_MONOTONIC; the start, before. */
int64_t agent_delivery_heard_ns(const agent_delivery_t *self);

/* Since it began. */
crema_session_stats_t agent_delivery_stats(const agent_delivery_t *self);

/* Records in the spool that are not committed, of all runs, as far as this agent was told. */
uint64_t agent_delivery_remaining(const agent_delivery_t *self);

#endif
