/* agg_access - whose a thing is, and what one key may make the aggregator keep.
 *
 * Every run, stream, agent and copied text counts for one key, which has one budget for all of
 * them: a run and all of its streams for the key that opened it, and before that for the key whose
 * agent brought it; an agent for its own key, or, if a run admitted that, for the key of the run.
 * A key at its share is refused what is new, or loses the oldest of its own that is over; no other
 * key notices. Without keys clients are indistinguishable, and only the limits of all together
 * apply. */
#ifndef AGG_ACCESS_H
#define AGG_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_list.h"
#include "crema_wire.h"

typedef struct agg_owner agg_owner_t;
typedef struct agg_run agg_run_t;
typedef struct agg_session agg_session_t;
typedef struct agg_stream agg_stream_t;

/* What may still be admitted, at so many per second. All zero: a whole second's worth. */
typedef struct {
    double n;
    int64_t at_ns;
} agg_tokens_t;

/* What a run uses, and all runs of a key together. */
typedef struct {
    size_t streams;
    size_t only_listed; /* streams that only lists of writers know */
    uint64_t kept_b;    /* copies of messages, lists and texts */
    uint64_t split_b;   /* live splits: names, their numbers, totals */
} agg_usage_t;

/* One key, or one connection without keys, and everything that counts for it. Exists while there
 * is a run or an agent of it. */
struct agg_owner {
    crema_id_t key;
    bool is_limited; /* it is a key */
    size_t n_runs;   /* also finished ones */
    agg_usage_t uses;
    uint64_t n_open, open_b; /* open runs, and bytes of their records */
    size_t agents;
    agg_tokens_t hellos;
    crema_link_t gone; /* agg_session_t.gone_of_owner, longest silent first */
};

/* ---- requests of clients */

/* False while a new aggregator with keys does not know the owner of the run, because the sink
 * has not reported it yet. */
bool agg_owner_is_known(const agg_core_t *core, const agg_run_t *run);
/* Whether the sender of this message may request this of the run; `run` is NULL for an unknown
 * run. */
crema_refusal_t agg_refusal(const agg_core_t *core, const agg_run_t *run, agg_peer_t peer,
                            const crema_msg_t *msg);
/* Text of a refusal: one sentence, borrowed until the next call. */
const char *agg_refusal_text(agg_core_t *core, crema_refusal_t refusal);

/* ---- the owner of a run or an agent */

/* NULL: that client has nothing here. */
agg_owner_t *agg_owner_of_client(const agg_core_t *core, agg_peer_t peer);
/* What the sender of this message brings counts for this one; NULL: there are no keys. */
agg_owner_t *agg_owner_of_sender(agg_core_t *core);
/* Makes the client the owner of the run, and counts the run while it is open. */
void agg_owner_take(agg_core_t *core, agg_run_t *run, agg_peer_t peer);
/* The run counts for the sender of this message until it has an owner. */
void agg_owner_adopt(agg_core_t *core, agg_run_t *run);
/* The run is finished: the client may open another. */
void agg_owner_release(agg_run_t *run);
/* It is not the client's any more. */
void agg_owner_leave(agg_core_t *core, agg_run_t *run);
void agg_owner_add_agent(agg_session_t *session, agg_owner_t *owner);
void agg_owner_remove_agent(agg_core_t *core, agg_session_t *session);

/* ---- how much */

void agg_owner_add_bytes(agg_run_t *run, uint64_t bytes);
/* The run uses so much more, or less: (size_t)-1 is one less. */
void agg_owner_use(agg_run_t *run, agg_usage_t more);
/* A copy that belongs to the run now takes so many bytes; *kept_b is what it took. */
void agg_owner_keep(agg_run_t *run, uint64_t *kept_b, uint64_t bytes);
/* After RUN_OPEN and RUN_END were taken. */
void agg_owner_keep_messages(agg_run_t *run);
void agg_owner_keep_faults(agg_session_t *session, uint64_t bytes);
/* Whether the owner, which may be NULL, has room for one more. */
bool agg_owner_may_have_agent(const agg_core_t *core, const agg_owner_t *owner);
bool agg_owner_may_have_stream(const agg_core_t *core, const agg_owner_t *owner);
bool agg_owner_may_have_run(const agg_core_t *core, const agg_owner_t *owner);
bool agg_owner_may_keep(const agg_owner_t *owner, uint64_t bytes);
bool agg_tokens_take(agg_tokens_t *self, double per_second, int64_t now_ns);
bool agg_owner_may_say_hello(agg_owner_t *owner, double per_second, int64_t now_ns);
/* How many bytes more the live splits of the owner, which may be NULL, may take. */
uint64_t agg_owner_room_split(const agg_owner_t *owner);
/* How many more streams, known only from lists of writers, the owner of the run may have. */
size_t agg_owner_room_listed(const agg_core_t *core, const agg_run_t *run);

/* ---- what an agent may bring */

/* True if the sender may use this agent id, which belongs to the first key that used it. */
bool agg_key_has_agent(const agg_core_t *core, agg_session_t *session);
/* True if the sender may bring streams of that run. */
bool agg_key_may_bring(const agg_core_t *core, const crema_id_t *run_id);
/* True if that user (1 + uid; 0: unknown) may have written the stream. An agent that serves all
 * runs reports the owner of each file, and the key that opened the run may be bound to one user. */
bool agg_key_may_have_written(const agg_core_t *core, const crema_id_t *stream_id,
                              const crema_id_t *run_id, uint32_t user);
/* True if the sender may bring that stream, which belongs to the first key that brought it. */
bool agg_key_has_stream(const agg_core_t *core, agg_stream_t *stream);

#endif
