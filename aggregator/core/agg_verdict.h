/* agg_verdict - how runs end: what their clients ask for, whom the barrier expects, when a verdict
 * is given and why, the file, and what is forgotten. */
#ifndef AGG_VERDICT_H
#define AGG_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "agg_core.h"
#include "agg_session.h"
#include "crema_wire.h"

/* RUN_OPEN, RUN_END, RUN_QUERY, RUN_WRITERS. True if it was accepted. */
bool agg_runs_on_message(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns);
/* An agent sent HELLO, a complete table, or BYE. */
void agg_runs_on_session(agg_core_t *core, agg_session_t *session, int64_t now_ns);
void agg_runs_on_answer(agg_core_t *core, agg_session_t *session, uint64_t barrier_seen,
                        int64_t now_ns);
void agg_runs_on_bye(agg_core_t *core, agg_session_t *session, int64_t now_ns);
void agg_runs_on_sealed(agg_core_t *core, const Crema__Sealed *sealed, int64_t now_ns);
/* A new sink must receive the runs again. */
void agg_runs_on_sink_up(agg_core_t *core, int64_t now_ns);
/* The key is not admitted any more: the open runs that it opened end. */
void agg_runs_on_revoked(agg_core_t *core, const crema_id_t *key, int64_t now_ns);
/* Asks, gives up, repeats RUN_SEAL; ends runs that are abandoned, and forgets finished ones. */
void agg_runs_on_tick(agg_core_t *core, int64_t now_ns);
/* Gives every verdict that is due. */
void agg_runs_decide(agg_core_t *core, int64_t mono_ns, int64_t real_ns);
/* True if the agent serves no open run and nothing it lists is missing. */
bool agg_session_is_dismissable(const agg_session_t *session);

#endif
