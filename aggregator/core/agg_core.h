/* agg_core - everything the aggregator decides: sessions, streams, runs, verdicts. Pure: events
 * in, actions out; time is an argument; no socket, clock, file or log.
 *
 * Events send nothing: they mark what is wanted and link the object into a list, and
 * agg_core_next() produces one action at a time. So an event costs what it touches, whatever the
 * number of agents and streams.
 *
 * It keeps no record longer than the event that brought it: what a sink has lost is requested
 * again from the agents, whose spools keep everything uncommitted. Its things
 * are agg_session (an agent and its connection), agg_stream (a stream, the receiver's half) and
 * agg_run; agg_core_impl.h has the rest. */
#ifndef AGG_CORE_H
#define AGG_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_rollup.h"
#include "crema_error.h"
#include "crema_principal.h"
#include "crema_wire.h"

typedef struct agg_core agg_core_t;

/* The reactor's number for a ZeroMQ routing id, never reused. */
typedef uint64_t agg_peer_t;

typedef struct {
    uint64_t session;        /* random per aggregator start */
    int64_t credit_pool_b;   /* limit of all agents' credit together; 512 MiB */
    int64_t sink_silence_ns; /* silence of the sink that closes credit; 2 s */
    int64_t barrier_retries; /* questions to an agent before its run is PARTIAL; 5 */
    int64_t barrier_cap_ns;  /* longest wait between two questions; 30 s */
    /* a run is ended after this long without a record or a message of its client; 1 h */
    int64_t abandon_after_ns;
    size_t agents_max, streams_max, runs_max; /* above these limits: refused and counted */
    /* Open runs of a client's key, and bytes in them, above which it may not open another. */
    uint64_t owner_runs_max, owner_bytes_max;
    /* 1 + uid that a client's key is bound to, 0: not bound; NULL: no key is bound. See
     * crema_keyring_user(). */
    uint32_t (*user_of)(const void *user_context, const crema_id_t *key);
    const void *user_context;
} agg_config_t;

typedef enum {
    AGG_TO_PEER,
    AGG_TO_SINK,
    AGG_ADMIT_KEY, /* `msg` is a RUN_OPEN with the key of the run's own agents: admit that key */
    AGG_EVENT,     /* for the log and the tap */
} agg_action_type_t;

/* X(EVENT, name). STREAM_REFUSED: the run does not belong to the stream's user; at most once a
 * minute. RUN_ABANDONED: its client is gone. RUN_LATE: data for a sealed run. */
#define AGG_EVENTS(X)                                                                              \
    X(AGENT_WELCOMED, "agent_welcomed")                                                            \
    X(AGENT_SUSPECT, "agent_suspect")                                                              \
    X(AGENT_LOST, "agent_lost")                                                                    \
    X(AGENT_RETURNED, "agent_returned")                                                            \
    X(AGENT_LEFT, "agent_left")                                                                    \
    X(AGENT_FENCED, "agent_fenced")                                                                \
    X(STREAM_REFUSED, "stream_refused")                                                            \
    X(SINK_UP, "sink_up")                                                                          \
    X(SINK_SILENT, "sink_silent")                                                                  \
    X(SINK_FULL, "sink_full")                                                                      \
    X(RUN_OPENED, "run_opened")                                                                    \
    X(RUN_ABANDONED, "run_abandoned")                                                              \
    X(RUN_BARRIER, "run_barrier")                                                                  \
    X(RUN_VERDICT, "run_verdict")                                                                  \
    X(RUN_SEALED, "run_sealed")                                                                    \
    X(RUN_LATE, "run_late")

typedef enum {
#define X(event, name) AGG_EVENT_##event,
    AGG_EVENTS(X)
#undef X
        AGG_EVENT_COUNT,
} agg_event_t;

const char *agg_event_name(agg_event_t event); /* "agent_welcomed", ... */

typedef struct {
    agg_action_type_t type;
    agg_peer_t peer;        /* TO_PEER */
    const crema_msg_t *msg; /* TO_PEER, TO_SINK, ADMIT_KEY: valid until the next action */
    agg_event_t event;      /* EVENT */
    crema_id_t agent_id;    /* EVENT; zero if it does not apply */
    crema_id_t run_id;
    const char *subject; /* EVENT: host of the agent, path of the file; may be NULL */
    const char *detail;  /* EVENT: a phrase; may be NULL */
} agg_action_t;

CREMA_MUST_CHECK crema_err_t agg_core_new(const agg_config_t *config, agg_core_t **ret_self);
void agg_core_destroy(agg_core_t **self_p);

/* Time since the sink was heard last, or since the first tick. */
int64_t agg_core_sink_silent_ns(const agg_core_t *self, int64_t now_ns);

/* A message of an agent or a collector. `from` is the principal of the connection, the same for
 * all messages of one `peer`. DATA's frames must stay valid until all actions were taken.
 * `mono_ns` and `real_ns` are the aggregator's clocks when the message was received. True if it is
 * a message about a run and was accepted. */
bool agg_core_on_peer(agg_core_t *self, agg_peer_t peer, const crema_principal_t *from,
                      const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns);
/* A message that could not be decoded: counted. CREMA_EVERSION is answered with FENCE(VERSION). */
void agg_core_on_bad(agg_core_t *self, agg_peer_t peer, crema_err_t why);
/* A message of the sink. msg->session identifies the start of the sink: when it changes, every
 * stream is requested again. */
void agg_core_on_sink(agg_core_t *self, const crema_msg_t *msg, int64_t mono_ns, int64_t real_ns);
/* A key is no longer admitted: its agents' sessions end, its open runs end PARTIAL. */
void agg_core_on_revoked(agg_core_t *self, const crema_id_t *key, int64_t mono_ns, int64_t real_ns);
/* Advances time. Call it regularly. */
void agg_core_on_tick(agg_core_t *self, int64_t mono_ns, int64_t real_ns);
/* True if nothing but the silence of a peer can become due: a tick is enough when the sink is to
 * be asked whether it is alive. */
bool agg_core_is_quiet(const agg_core_t *self);
/* When that is, if it is not heard before. */
int64_t agg_core_ping_ns(const agg_core_t *self);
/* True once the sink has listed what it has, and that was nothing: no agent can have been here
 * before. */
bool agg_core_is_first(const agg_core_t *self);
/* A message could not be sent: the sink is not connected yet, or takes nothing now. Its list of
 * streams is requested again at the next tick, until it is known. */
void agg_core_not_sent(agg_core_t *self);

/* The next action; false when there is none. */
bool agg_core_next(agg_core_t *self, int64_t mono_ns, agg_action_t *ret_action);

/* The live split of a run until it has a file; NULL: unknown. */
const agg_rollup_t *agg_core_split(const agg_core_t *self, const crema_id_t *run_id);
/* Iterates over the runs that have one: set *cursor to 0, call until NULL. */
const agg_rollup_t *agg_core_next_split(const agg_core_t *self, size_t *cursor,
                                        Crema__RunState *ret_state);

typedef struct {
    uint64_t agents_live, agents_suspect, agents_lost, streams;
    uint64_t data_accepted, data_dropped, data_bytes, repeats, gaps_seen, replays, bad_messages;
    uint64_t puts, nacks, committed_records, hellos, fences, refused;
    uint64_t not_allowed; /* messages whose type, run or agent their key does not permit */
    uint64_t credit_granted_b, credit_in_use_b;
    uint64_t no_room;          /* agents and streams above this aggregator's limits */
    uint64_t agents_looked_at; /* checks whether an agent has become silent */
    uint64_t split_left;       /* what live splits lack: damage, a share, or no memory */
} agg_stats_t;
agg_stats_t agg_core_stats(const agg_core_t *self);

/* State of a run; false: unknown run. Texts and lists are borrowed until the next event;
 * waiting_for is not set. */
bool agg_core_look(const agg_core_t *self, const crema_id_t *run_id, Crema__RunState *ret_state);

/* Forgets the longest finished run of that client's key, complete ones first. False: it has
 * none. */
bool agg_core_forget_finished(agg_core_t *self, const crema_id_t *owner);

/* True if the sink responds and its list of streams is known. */
bool agg_core_has_sink(const agg_core_t *self);

#endif
