/* agg_core - everything the aggregator decides: sessions, streams, windows, runs, verdicts.
 * Pure: events in, actions out; time is an argument; no socket, clock, file or log.
 *
 * It holds no record longer than the event that brought it: what a sink lost is asked for again from the agents, whose spools keep
 * everything that is not committed. It is composed of agg_agent (one agent's session, heartbeat window, credit), crema_stream (one
 * stream, receiver's half), crema_offset (clock), agg_run (barrier and verdict) and agg_rollup (live split). */
#ifndef AGG_CORE_H
#define AGG_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_principal.h"
#include "crema_wire.h"

typedef struct agg_core agg_core_t;

/* The reactor's number for one ZeroMQ routing id, never used twice. */
typedef uint64_t agg_peer_t;

typedef struct {
    uint64_t session;        /* random per aggregator start */
    int64_t credit_pool_b;   /* sum of all agents' credit at most; 512 MiB */
    int64_t sink_silence_ns; /* no word from the sink for this long closes credit; 2 s */
    int64_t barrier_retries; /* questions to an agent before PARTIAL; 5 */
    int64_t barrier_cap_ns;  /* longest wait between two of them; 30 s */
    int64_t
        abandon_after_ns; /* a run without a record and a word of its client for so long is ended; 1 h */
    size_t agents_max, streams_max, runs_max; /* refused above, counted */
    /* Open runs of one client's key, and bytes in them, above which it may not open another. */
    uint64_t owner_runs_max, owner_bytes_max;
    /* 1 + uid that a client's key is bound to, 0: to none; NULL: no key is bound to any. See crema_keyring_user(). */
    uint32_t (*user_of)(const void *user_context, const crema_id_t *key);
    const void *user_context;
} agg_config_t;

typedef enum {
    AGG_TO_PEER,
    AGG_TO_SINK,
    AGG_LEND,  /* the key in the RUN_OPEN `msg` is of that run's own agents: admit it */
    AGG_EVENT, /* something worth a log line and a tap message */
} agg_action_type_t;

typedef enum {
    AGG_EVENT_AGENT_WELCOMED,
    AGG_EVENT_AGENT_SUSPECT,
    AGG_EVENT_AGENT_LOST,
    AGG_EVENT_AGENT_RETURNED,
    AGG_EVENT_AGENT_LEFT,
    AGG_EVENT_AGENT_FENCED,
    AGG_EVENT_STREAM_REFUSED, /* of a user to whom the run does not belong; told once a minute at most */
    AGG_EVENT_SINK_UP,
    AGG_EVENT_SINK_SILENT,
    AGG_EVENT_SINK_FULL,
    AGG_EVENT_RUN_OPENED,
    AGG_EVENT_RUN_ABANDONED, /* its client is gone */
    AGG_EVENT_RUN_BARRIER,
    AGG_EVENT_RUN_VERDICT,
    AGG_EVENT_RUN_SEALED,
    AGG_EVENT_RUN_LATE, /* data for a sealed run */
    AGG_EVENT_COUNT,
} agg_event_t;

const char *agg_event_name(agg_event_t event); /* "agent_welcomed", ... */

typedef struct {
    agg_action_type_t type;
    agg_peer_t peer;        /* TO_PEER */
    const crema_msg_t *msg; /* TO_PEER, TO_SINK: valid until the next action is taken */
    agg_event_t event;      /* EVENT */
    crema_id_t agent_id;    /* EVENT, zero if it does not apply */
    crema_id_t run_id;
    const char *subject; /* EVENT: host of the agent, path of the file; may be NULL */
    const char *detail;  /* EVENT: a phrase; may be NULL */
} agg_action_t;

CREMA_MUST_CHECK crema_err_t agg_core_new(const agg_config_t *config, agg_core_t **ret_self);
void agg_core_destroy(agg_core_t **self_p);

/* A message of an agent or a collector, and whose connection brought it; the same for all messages of one `peer`. DATA's frames must outlive the taking of all actions. `mono` and `real` are of the
 * aggregator's host, read when the message was received. */
void agg_core_on_peer(agg_core_t *self, agg_peer_t peer, const crema_principal_t *from,
                      const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns);
/* A message that could not be decoded: counted; CREMA_EVERSION is answered with FENCE(VERSION). */
void agg_core_on_bad(agg_core_t *self, agg_peer_t peer, crema_err_t why, int64_t mono_ns);
/* A message of the sink; msg->session is the sink's boot number: when it changes, every stream is asked for anew. */
void agg_core_on_sink(agg_core_t *self, const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns);
/* A key is not admitted any more: its agents' sessions end, its open runs end PARTIAL. */
void agg_core_on_revoked(agg_core_t *self, const crema_id_t *key, int64_t mono_ns, int64_t real_ns);
/* The socket to a peer or to the sink would not take a message: it is as if lost. */
void agg_core_on_tick(agg_core_t *self, int64_t mono_ns, int64_t real_ns);

/* What one client may have from now on; runs that are open stay. Both at least 1. */
void agg_core_limit_owners(agg_core_t *self, uint64_t runs_max, uint64_t bytes_max);

/* False when there is nothing to do now. */
bool agg_core_next(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action);

/* Records accepted of activity batches feed the live split; the reactor decodes (agg_rollup). */
void agg_core_note_split(agg_core_t *self, const crema_id_t *run_id, double processor_s,
                         double overhead_s);

typedef struct {
    uint64_t agents_live, agents_suspect, agents_lost, streams, runs_open;
    uint64_t data_accepted, data_dropped, data_bytes, repeats, gaps_seen, replays, bad_messages;
    uint64_t puts, nacks, committed_records, hellos, fences, refused;
    uint64_t
        not_allowed; /* messages of a kind, or about a run or an agent, that their key may not send */
    uint64_t credit_granted_b, credit_in_use_b;
    uint64_t no_room;          /* agents and streams beyond what this aggregator keeps */
    uint64_t agents_looked_at; /* by time, whether they are silent */
} agg_stats_t;
agg_stats_t agg_core_stats(const agg_core_t *self);

#endif
