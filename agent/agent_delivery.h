/* agent_delivery - connects spool, sampler, session and socket: delivers the spool to the
 * aggregator and trims what is committed there.
 *
 * The session decides; this module carries it out: it dials, sends, reads, scans and trims. */
#ifndef AGENT_DELIVERY_H
#define AGENT_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_sampler.h"
#include "crema_keys.h"
#include "crema_session.h"
#include "crema_spool.h"

typedef struct {
    crema_session_config_t session;
    crema_id_t run_id;      /* zero: all runs */
    uint64_t spool_limit_b; /* evict records above this size */
    const char *endpoints;  /* as for way_dir, see agent_reach.h */
    const char *way_dir;
    const crema_keys_t *keys;
    void (*on_turn)(
        void *context); /* after messages, which may have ended the session; may be NULL */
    void *context;
} agent_delivery_config_t;

typedef struct agent_delivery agent_delivery_t;
typedef struct _zloop_t zloop_t;

/* All arguments are borrowed for the life of the delivery, which ends before the loop's. */
CREMA_MUST_CHECK crema_err_t agent_delivery_new(const agent_delivery_config_t *config,
                                                zloop_t *loop, crema_spool_t *spool,
                                                agent_sampler_t *sampler,
                                                agent_delivery_t **ret_self);
/* Not while the loop runs: a timer that was ended may still be due in it. */
void agent_delivery_destroy(agent_delivery_t **self_p);

/* Begins another session after the last one ended, under another boot. If it fails, the old one
 * stays. */
CREMA_MUST_CHECK crema_err_t agent_delivery_begin_anew(agent_delivery_t *self, uint64_t boot);

/* Scans the spool for new records, evicts above its limit, and informs the session. */
void agent_delivery_scan(agent_delivery_t *self);

/* Call it at least every 100 ms while busy, otherwise as convenient. */
void agent_delivery_tick(agent_delivery_t *self);

/* Delivers what there is and ends the session; see crema_session_drain(). */
void agent_delivery_drain(agent_delivery_t *self, int64_t deadline_ns);

/* True after BYE was sent or the session was closed: records found later are not delivered by
 * it. */
bool agent_delivery_is_over(const agent_delivery_t *self);

/* True while records are in flight. */
bool agent_delivery_is_busy(const agent_delivery_t *self);

/* Its state, its end, its counters, and when agent_delivery_tick() is needed next. */
const crema_session_t *agent_delivery_session(const agent_delivery_t *self);
/* The reason of END_REFUSED; 0 otherwise. */
crema_fence_reason_t agent_delivery_refusal(const agent_delivery_t *self);

/* True if the aggregator was reached and does not admit this agent's key. */
bool agent_delivery_key_is_refused(const agent_delivery_t *self);
/* When a valid message of the aggregator last came, CLOCK_MONOTONIC; before that, the start. */
int64_t agent_delivery_heard_ns(const agent_delivery_t *self);

/* Uncommitted records in the spool, of all runs, as far as this agent knows. */
uint64_t agent_delivery_remaining(const agent_delivery_t *self);

#endif
