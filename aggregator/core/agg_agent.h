/* agg_agent - one agent as the aggregator sees it: whether it is alive, judged by its own
 * heartbeat interval, and whether two processes share its identity. Pure: time is an argument.
 *
 *     NEW --admitted--> LIVE <--valid message-- SUSPECT --max(10 H, 30 s)--> LOST --24 h--> EXPIRED
 *                        | \--3 H + round trip--->                             |
 *                        |  <--------------------HELLO--------------------------+
 *                        +--BYE--> LEFT, or LEAVING if records stayed in its spool
 *
 * The declared interval cannot be trusted, so H = max(declared, half the observed median of the
 * times between heartbeats). */
#ifndef AGG_AGENT_H
#define AGG_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

typedef struct agg_agent agg_agent_t;

typedef enum {
    AGG_AGENT_NEW, /* seen, not admitted yet */
    AGG_AGENT_LIVE,
    AGG_AGENT_SUSPECT, /* silent for 3 H and a round trip */
    AGG_AGENT_LOST,    /* silent for max(10 H, 30 s): windows and verdicts no longer wait for it */
    AGG_AGENT_EXPIRED, /* silent for a day: may be forgotten */
    AGG_AGENT_LEAVING, /* sent BYE with records left in its spool */
    AGG_AGENT_LEFT,    /* sent BYE after delivering everything */
} agg_agent_state_t;

typedef enum {
    AGG_HELLO_ADMIT,      /* the known process, perhaps on a new connection */
    AGG_HELLO_SUPERSEDES, /* a new process: fence the connection of the old one */
    /* more than 10 a minute from one process, or more than one new process per second */
    AGG_HELLO_TOO_OFTEN,
    AGG_HELLO_CLONE, /* two processes alternate under one identity: fence both */
} agg_hello_verdict_t;

CREMA_MUST_CHECK crema_err_t agg_agent_new(const crema_id_t *agent_id, agg_agent_t **ret_self);
void agg_agent_destroy(agg_agent_t **self_p);

/* Decides on a HELLO; ADMIT and SUPERSEDES begin a session. *ret_retry_after_ms is set for
 * TOO_OFTEN. */
agg_hello_verdict_t agg_agent_on_hello(agg_agent_t *self, const Crema__Hello *hello, int64_t now_ns,
                                       uint32_t *ret_retry_after_ms);
/* Any valid message of its session has come. */
void agg_agent_on_heard(agg_agent_t *self, int64_t now_ns);
void agg_agent_on_heartbeat(agg_agent_t *self, uint32_t hb_ivl_ms, int64_t now_ns);
void agg_agent_on_round_trip(agg_agent_t *self, int64_t rtt_ns);
void agg_agent_on_bye(agg_agent_t *self, bool drained);

agg_agent_state_t agg_agent_state(const agg_agent_t *self, int64_t now_ns);
/* When its state will change if it stays silent. */
int64_t agg_agent_changes_ns(const agg_agent_t *self, int64_t now_ns);
const char *agg_agent_state_name(agg_agent_state_t state);
const crema_id_t *agg_agent_id(const agg_agent_t *self);
/* Host name, at most 63 bytes; the id in hex if it sent no name. */
const char *agg_agent_name(const agg_agent_t *self);
/* H, see above. */
int64_t agg_agent_interval_ns(const agg_agent_t *self);
int64_t agg_agent_silent_ns(const agg_agent_t *self, int64_t now_ns);

#endif
