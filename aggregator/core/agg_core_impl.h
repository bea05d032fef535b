/* agg_core_impl - the aggregator as a whole: all that it knows, and how it is found. For the parts
 * of agg_core, of which each uses only those above it:
 *
 *   agg_access.c   whose a thing is, and what one key may make the aggregator keep
 *   agg_session.c  agents and their connections; answers to connections
 *   agg_members.c  agents of runs: which are waited for, and how long
 *   agg_stream.c   streams, and what depends on their positions
 *   agg_run.c      runs; runs and streams: found, created, forgotten
 *   agg_writers.c  RUN_WRITERS, RUN_LISTED: the writers and what they must have delivered
 *   agg_verdict.c  RUN_OPEN, RUN_END, RUN_QUERY, barriers, verdicts, dismissal, the end of runs
 *   agg_messages.c what agents and the sink send
 *   agg_next.c     actions
 *   agg_core.c     creation, dispatch, time, counters */
#ifndef AGG_CORE_IMPL_H
#define AGG_CORE_IMPL_H

#include <string.h>

#include "agg_core.h"
#include "agg_credit.h"
#include "agg_frames.h"
#include "agg_lists.h"
#include "agg_members.h"
#include "agg_run.h"
#include "agg_session.h"
#include "agg_stream.h"
#include "crema_list.h"
#include "crema_map.h"

#define AGG_MS 1000000ll
#define AGG_S (1000 * AGG_MS)
#define AGG_REPLIES_MAX 64
#define AGG_WAITING_MAX 32
#define AGG_TROUBLE_BYTES 1024

/* A short answer to a connection, which may not be an agent's. */
typedef struct {
    agg_peer_t peer;
    crema_msg_t msg; /* FENCE, WELCOME (not admitted), RUN_STATE (refused); its texts come later */
    crema_id_t run_id; /* of RUN_STATE */
} agg_reply_t;

struct agg_core {
    agg_config_t config;

    crema_map_t *sessions;    /* by agent id */
    crema_map_t *connections; /* sessions by the number of their connection */
    crema_map_t *streams;     /* by stream id */
    size_t n_only_listed;     /* of `streams`: known only from lists; at most half of all */
    crema_map_t *runs;        /* by run id */
    crema_map_t *owners;      /* by key */
    agg_awaited_t awaited;
    agg_lists_t *serving; /* agg_session_t.serving by the only run; zero: serve all */
    agg_credit_t *credit;
    crema_link_t looks[AGG_LOOK_SLOTS]; /* agg_session_t.look */
    int64_t look_slot;                  /* the slot checked last */
    crema_link_t gone;    /* agents that are LOST or have left, longest silent first */
    crema_link_t senders; /* agents that sent data recently, least recent first */
    uint64_t n_senders, n_reported[AGG_SESSION_LEFT + 1];
    crema_link_t sessions_out, runs_out, ending, filing, over;
    crema_link_t ages[AGG_AGES]; /* agg_run_t.age */
    crema_link_t due;            /* streams with something due */
    crema_link_t watched;        /* streams to check after each tick */
    crema_link_t opens;          /* streams to ask the sink about */
    agg_reply_t replies[AGG_REPLIES_MAX];
    size_t n_replies;
    agg_reply_t reply;      /* being sent */
    uint64_t barriers;      /* id of the last barrier */
    int64_t real_ns;        /* of the current event */
    crema_principal_t from; /* sender of the current message */

    uint64_t sink_boot;
    bool sink_has_past; /* that list had runs or streams */
    bool sink_known;    /* its list of streams is complete */
    bool sink_silent, sink_full;
    bool want_list;    /* send OPEN without rows */
    bool sink_unasked; /* that could not be sent */
    bool want_ping;
    uint32_t sink_events;
    int64_t sink_heard_ns, sink_pinged_ns, sink_known_ns, full_until_ns, full_heard_ns;
    uint64_t full_free_b;
    char trouble[AGG_TROUBLE_BYTES]; /* text of the sink's last FULL */
    size_t ping_cursor;

    agg_tokens_t hellos;
    int64_t swept_ns;

    bool putting; /* frames of the current DATA remain to be sent */
    agg_frames_t put_frames;
    Crema__Put put;
    crema_arena_t *record_arena;

    crema_msg_t msg; /* of the current action */
    Crema__StreamTable *table;
    char *waiting[AGG_WAITING_MAX];
    char text[512]; /* of a refusal */
    agg_stats_t stats;
};

static inline bool
agg_sink_takes(const agg_core_t *core)
{
    return core->sink_known && !core->sink_silent && !core->sink_full;
}

/* The key in agg_core.connections, and of an owner without keys. */
static inline crema_id_t
agg_peer_key(agg_peer_t peer)
{
    crema_id_t key = {{0}};
    memcpy(key.bytes, &peer, sizeof peer);
    return key;
}

/* ---- agg_session.c */

void agg_reply(agg_core_t *core, agg_peer_t peer, const crema_msg_t *msg);
void agg_fence(agg_core_t *core, agg_peer_t peer, crema_fence_reason_t reason,
               uint32_t retry_after_ms);
/* Answers FENCE(PRINCIPAL) and counts it. */
void agg_refuse_principal(agg_core_t *core, agg_peer_t peer);

/* ---- agg_run.c */

/* The run, created if necessary; NULL: a limit was met. */
agg_run_t *agg_run_get(agg_core_t *core, const crema_id_t *run_id, int64_t now_ns);
/* Frees the run with its streams. */
void agg_run_forget(agg_core_t *core, agg_run_t *run);
/* Forgets the longest finished run of that owner, complete ones first; NULL: of anybody. False:
 * there is none. */
bool agg_runs_make_room(agg_core_t *core, const agg_owner_t *owner);
/* A client at its share of runs, or of what they keep, loses its oldest finished ones. */
void agg_runs_forget_finished(agg_core_t *core, agg_peer_t peer);
/* There is something to send. */
void agg_run_out(agg_core_t *core, agg_run_t *run);
/* After its phase changed: moves it to the right lists. */
void agg_run_follow_phase(agg_core_t *core, agg_run_t *run, int64_t now_ns);
void agg_run_begin_age(agg_core_t *core, agg_run_t *run, agg_age_t age, int64_t now_ns);
/* The first run of that age if it has been that since `before_ns`, else NULL. */
agg_run_t *agg_run_oldest(const agg_core_t *core, agg_age_t age, int64_t before_ns);
/* Sums up the frames, which continue a stream of the run. */
void agg_split_take(agg_core_t *core, agg_run_t *run, const crema_id_t *stream_id,
                    agg_frames_t frames);
/* Takes the list of prefixes of RUN_OPEN or RUN_END, if there is one. */
void agg_split_set_prefixes(agg_core_t *core, agg_run_t *run, const Crema__RunOpen *msg);
/* RUN_STATE without waiting_for. */
Crema__RunState agg_run_report(const agg_core_t *core, const agg_run_t *run);
/* The stream, created if necessary; NULL: a limit was met. */
agg_stream_t *agg_stream_get(agg_core_t *core, const crema_id_t *stream_id,
                             const crema_id_t *run_id, int64_t now_ns);
/* The same for a stream that an agent brings: its key, or that of the run's owner, has room. */
agg_stream_t *agg_stream_bring(agg_core_t *core, const crema_id_t *stream_id,
                               const crema_id_t *run_id, int64_t now_ns);
/* A stream that is known only from a list of writers; NULL: a limit was met. The caller enforces
 * the owner's limit. */
agg_stream_t *agg_stream_make_listed(agg_core_t *core, agg_run_t *run, const crema_id_t *stream_id,
                                     int64_t now_ns);
/* Forgets streams that are done, sealed and no longer listed by an agent. */
void agg_streams_sweep(agg_core_t *core);

#endif
