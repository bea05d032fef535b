/* agg_messages - what agents and the sink send. Pure: time is an argument. */
#ifndef AGG_MESSAGES_H
#define AGG_MESSAGES_H

#include <stdint.h>

#include "agg_core.h"
#include "agg_run.h"
#include "crema_wire.h"

/* HELLO, HEARTBEAT, BYE, DATA. */
void agg_sessions_on_message(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg,
                             int64_t now_ns);
void agg_sessions_on_tick(agg_core_t *core, int64_t now_ns);
/* The key is not admitted any more: the sessions of its agents end. */
void agg_sessions_on_revoked(agg_core_t *core, const crema_id_t *key);

/* STATE, COMMITTED, NACK, FULL, RUN_LISTED, SEALED, RUN_OPEN. */
void agg_sink_on_message(agg_core_t *core, const crema_msg_t *msg, int64_t now_ns);
void agg_sink_on_tick(agg_core_t *core, int64_t now_ns);
/* What currently blocks the pipeline; "" if nothing does. */
const char *agg_sink_trouble(const agg_core_t *core);
/* The same for a run until it is sealed. */
const char *agg_run_trouble(const agg_core_t *core, const agg_run_t *run);

#endif
