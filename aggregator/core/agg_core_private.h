/* agg_core_private - shared by the parts of agg_core; private to them: structs and the
 * functions between the parts.
 *
 * Each part uses only those above it:
 *
 *   agg_core_due.c     agents by the time of their next check
 *   agg_core_peers.c   replies; ends of sessions; agents that have something to send
 *   agg_core_access.c  whose a thing is, and what one key may make the aggregator keep
 *   agg_core_entries.c runs and streams: found, created, listed by age, forgotten
 *   agg_core_flows.c   streams: attached, followed
 *   agg_core_clock.c   clocks of agents
 *   agg_core_split.c   live splits of runs
 *   agg_core_writers.c RUN_WRITERS, RUN_LISTED: the writers and what they must have delivered
 *   agg_core_faults.c  what agents cannot read
 *   agg_core_runs.c    RUN_OPEN, RUN_END, RUN_QUERY, verdicts, dismissal
 *   agg_core_ages.c    abandoned and forgotten runs
 *   agg_core_keys.c    keys that the sink reports, revoked keys
 *   agg_core_clients.c agents: found, created, forgotten
 *   agg_core_agents.c  HELLO, HEARTBEAT, BYE, DATA
 *   agg_core_sink.c    STATE, COMMITTED, NACK, FULL, SEALED
 *   agg_core_next.c    actions
 *   agg_core.c         creation, dispatch, time, counters
 *
 * Event handlers send nothing. They mark what is wanted and link the object into a list, and
 * agg_core_next() produces one action at a time. So an event costs what it touches, whatever the
 * number of agents and streams. */
#ifndef AGG_CORE_PRIVATE_H
#define AGG_CORE_PRIVATE_H

#include "agg_agent.h"
#include "agg_awaited.h"
#include "agg_core.h"
#include "agg_credit.h"
#include "agg_frames.h"
#include "agg_rollup.h"
#include "agg_run.h"
#include "crema_list.h"
#include "crema_map.h"
#include "crema_offset.h"
#include "crema_stream.h"
#include "crema_writers.h"

#define AGG_MS 1000000ll
#define AGG_S (1000 * AGG_MS)
#define AGG_REPLIES_MAX 64
#define AGG_WAITING_MAX 32
#define AGG_CLOCK_RUNS_MAX 8
#define AGG_TROUBLE_BYTES 1024
#define AGG_LEFT_NS (60 * AGG_S) /* after leaving, an agent is forgotten */

/* One key, or one connection without keys, and everything that counts for it; see
 * agg_core_access.c. Exists while there is a run or an agent of it. */
typedef struct {
    crema_id_t key;
    bool is_limited;      /* it is a key */
    size_t entries;       /* runs, also finished ones */
    uint64_t runs, bytes; /* of open runs */
    size_t streams;
    size_t n_only_listed; /* streams known only from lists, also of finished runs */
    size_t agents;
    uint64_t kept_b;     /* copies of messages, lists and texts */
    double hello_tokens; /* HELLOs that may still be admitted */
    int64_t hello_ns;    /* 0: none came yet */
    crema_link_t gone;   /* agg_client_t.gone_of_owner, longest silent first */
} agg_owner_t;

/* An agent with its connection. */
typedef struct {
    agg_agent_t *agent;
    agg_peer_t peer;
    bool has_session;           /* welcomed on `peer` */
    agg_agent_state_t reported; /* state of the last event */
    uint32_t events;            /* pending events, bits of agg_event_t */
    agg_account_t account;
    crema_link_t flows; /* agg_flow_t.of_client */
    crema_link_t acks;  /* agg_flow_t.ack */
    crema_link_t out;   /* in agg_core.clients_out */
    bool want_welcome, want_ack, want_dismiss;
    bool leaving;       /* ends after the next ACK */
    bool ack_waits;     /* for a commit that is under way, or for the next tick */
    uint64_t ack_hb_no; /* the heartbeat that the next ACK answers; 0: none */
    int64_t ack_t1_ns, ack_t2_ns;
    uint64_t table;       /* number of the table being received */
    uint64_t whole_table; /* number of the last complete table */
    unsigned part;        /* next part of it */
    bool table_refused;   /* there was no room for one of its rows */
    crema_id_t serves;    /* the only run it declared to serve; zero: all */
    crema_id_t bound;     /* the only run that its key admits it to; zero: all */
    /* a BYE with what it could not read at its last complete table; NULL: nothing */
    crema_msg_t *faults;
    bool faults_lost;   /* faults were dropped for lack of room */
    uint64_t faults_b;  /* of their copy */
    agg_owner_t *payer; /* whom it counts for; NULL: there are no keys */
    crema_link_t gone,
        gone_of_owner; /* while it is LOST or has left: in agg_core.gone, payer->gone */
    int64_t data_ns;   /* time of the last DATA */
    crema_offset_t *offset;
    int64_t clock_sent_ns; /* when its clock was last sent to the sink */
    Crema__ClockSample clock;
    size_t n_clock_runs; /* runs still to be sent its clock */
    crema_id_t clock_runs[AGG_CLOCK_RUNS_MAX];
    crema_id_t owner;    /* the first key that used its id */
    bool claimed;        /* `owner` is set */
    bool dismissed;      /* from dismissed_run_id, until it serves another run */
    crema_link_t look;   /* in one of agg_core.looks */
    int64_t look_ns;     /* latest time of its next check */
    crema_link_t sender; /* in agg_core.senders */
    int64_t refused_ns;  /* when a stream of its table was last refused and logged; 0: never */
    crema_stream_row_t refused;
    crema_id_t dismissed_run_id;
    uint64_t behind; /* records, as the last census found it */
} agg_client_t;

/* Runs are linked by age, oldest first, so that a tick only looks at the first of each list. */
typedef enum {
    AGG_AGE_NONE,  /* ending: other timers apply */
    AGG_AGE_OPEN,  /* since its last record or client message: will be abandoned */
    AGG_AGE_WHOLE, /* sealed and nothing is missing: will be forgotten soon */
    /* sealed with reasons that late data may remove, or not sealable: will be forgotten */
    AGG_AGE_LACKING,
    AGG_AGES,
} agg_age_t;

/* The writers of a run as its collector listed them. */
typedef struct {
    crema_writers_t *writers; /* NULL: no list yet */
    uint8_t *parts;           /* by number: WANT, KEPT */
    uint32_t n_parts;
    uint32_t n_kept; /* durable in the sink */
    uint32_t n_want; /* to be sent to the sink */
    uint64_t kept_b; /* see agg_owner_keep() */
    bool refused;    /* a part had no room; `refused_part` was the last */
    uint32_t refused_part;
} agg_list_t;

/* A run with its pending messages. */
typedef struct {
    agg_run_t *run;
    crema_link_t flows;  /* agg_flow_t.of_entry */
    crema_link_t out;    /* in agg_core.runs_out */
    crema_link_t ending; /* in agg_core.ending: waiting for its barrier */
    crema_link_t filing; /* in agg_core.filing: has a verdict but no file yet */
    crema_link_t over;   /* in agg_core.over: sealed, still has streams */
    crema_link_t age;    /* in one of agg_core.ages */
    agg_age_t age_of;    /* the list it is in */
    int64_t since_ns;    /* start of its age: last record or client message, or its file */
    int64_t since_real_ns;
    agg_owner_t *owner;          /* whom it counts for; NULL: only the sink knows it */
    bool is_counted;             /* in the owner's sums of open runs */
    crema_principal_t opened_by; /* by the first RUN_OPEN or RUN_END */
    bool has_opener;
    uint64_t bytes; /* of its records; part of the owner's sum, as the next three */
    size_t n_streams;
    uint64_t kept_b;
    uint32_t events;
    bool want_open, want_seal, want_state;
    /* an earlier aggregator may have ended it: the sink will report whether it is sealed */
    bool want_end;
    bool late_reported; /* since it was last sealed */
    bool regressed;     /* records that were durable are missing, e.g. in a restored store */
    bool has_watcher;
    agg_peer_t watcher; /* the peer that asked last and gets updates */
    int64_t seal_at_ns, seal_wait_ns;
    agg_rollup_t *rollup; /* its live split; NULL: nothing of it came here yet, or split_is_over */
    bool split_is_over;   /* it has a file, or that failed */
    double processor_s, overhead_s; /* of a split that is over */
    agg_list_t list;
    size_t n_only_listed; /* streams known only from its list */
    uint64_t messages_b;  /* of RUN_OPEN and RUN_END, in kept_b */
    bool revoked;         /* opened_by was revoked; the run is ended at once */
    bool was_asked;       /* its client has sent this aggregator a message */
    bool is_full;         /* the sink keeps only first and last records of its streams */
    bool want_lend;       /* the key of its own agents is to be admitted */
} agg_entry_t;

/* A stream and the objects it belongs to. */
typedef struct {
    crema_stream_t *line;
    crema_stream_row_t row; /* row of `line` when last followed */
    uint64_t held_b;        /* bytes held in its agent's account */
    agg_tally_t tally;
    agg_client_t *client; /* the agent that listed it last; NULL: known only from the sink */
    agg_entry_t *entry;
    agg_member_t *member;
    uint32_t user;     /* 1 + uid of the owner of its segments, from its agent; 0: unknown */
    crema_id_t owner;  /* key of the agent that brought it first */
    bool claimed;      /* `owner` is set */
    uint64_t listed;   /* number of the client's table that listed it */
    uint64_t promised; /* its last number according to the list of writers; 0: unknown */
    bool is_listed;    /* its writer is in the list */
    bool only_listed;  /* known only from that list so far */
    crema_link_t of_client, of_entry, ack, due, open;
    crema_link_t watch; /* in agg_core.watched: passing time may make something due */
} agg_flow_t;

/* A short answer to a peer, which may not be an agent. */
typedef struct {
    agg_peer_t peer;
    crema_msg_t msg; /* FENCE, WELCOME (not admitted), RUN_STATE (refused); its texts come later */
    crema_id_t run_id; /* of RUN_STATE */
} agg_reply_t;

/* Agents by the time at which silence may change their state: a wheel of slots of a twentieth of
 * a second. An agent due later than the wheel reaches is checked earlier and put back. */
#define AGG_LOOK_NS (50 * AGG_MS)
#define AGG_LOOK_SLOTS 1024

struct agg_core {
    agg_config_t config;
    crema_map_t *clients; /* by agent id */
    crema_map_t *peers;   /* by number */
    crema_map_t *flows;   /* by stream id */
    size_t n_only_listed; /* of `flows`: known only from lists; at most half of all */
    crema_map_t *entries; /* by run id */
    crema_map_t *owners;  /* by key */
    agg_awaited_t *awaited;
    agg_credit_t *credit;
    crema_link_t looks[AGG_LOOK_SLOTS]; /* agg_client_t.look */
    int64_t look_slot;                  /* the slot checked last */
    crema_link_t gone;    /* agents that are LOST or have left, longest silent first */
    crema_link_t senders; /* agents that sent data recently, least recent first */
    uint64_t n_senders, n_reported[AGG_AGENT_LEFT + 1];
    crema_link_t clients_out, runs_out, ending, filing, over;
    crema_link_t ages[AGG_AGES]; /* agg_entry_t.age */
    crema_link_t due;            /* flows with something due */
    crema_link_t watched;        /* flows to check after each tick */
    crema_link_t opens;          /* flows to ask the sink about */
    agg_reply_t replies[AGG_REPLIES_MAX];
    size_t n_replies;
    agg_reply_t reply;      /* being sent */
    bool took_run;          /* see agg_core_took_run() */
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

    double hello_tokens; /* HELLOs that may still be admitted */
    int64_t hello_ns;
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
agg_sink_takes(const agg_core_t *self)
{
    return self->sink_known && !self->sink_silent && !self->sink_full;
}

/* agg_core_peers.c */
void agg_reply(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg);
void agg_fence(agg_core_t *self, agg_peer_t peer, crema_fence_reason_t reason,
               uint32_t retry_after_ms);
/* Answers FENCE(PRINCIPAL) and counts it. */
void agg_refuse_principal(agg_core_t *self, agg_peer_t peer);
crema_id_t agg_peer_key(agg_peer_t peer);
void agg_client_out(agg_core_t *self, agg_client_t *client);
void agg_client_end_session(agg_core_t *self, agg_client_t *client);
void agg_entry_out(agg_core_t *self, agg_entry_t *entry);
/* True if the agent can have a stream of the run: by its key, then by what it declared. Only such
 * an agent delays or spoils the run; see also agg_run_can_spare(). */
bool agg_client_may_have(const agg_client_t *client, const agg_entry_t *entry);

/* agg_core_entries.c */
/* The run, created if necessary; NULL: a limit was met. */
agg_entry_t *agg_entry_get(agg_core_t *self, const crema_id_t *run_id, int64_t now_ns);
void agg_entry_free(agg_core_t *self, agg_entry_t *entry);
/* Forgets the longest finished run of that owner, complete ones first; NULL: of anybody. False:
 * there is none. */
bool agg_entry_make_room(agg_core_t *self, const agg_owner_t *owner);
/* A client at its share of runs, or of what they keep, loses its oldest finished ones. */
void agg_entry_forget_finished(agg_core_t *self, agg_peer_t peer);
/* Frees the run with its streams. */
void agg_entry_forget(agg_core_t *self, agg_entry_t *entry);
void agg_entry_free_list(agg_entry_t *entry);
/* A record of the run or a message of its client came. */
void agg_ages_heard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
/* After its phase changed: moves it to the right lists. */
void agg_ages_follow(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
/* The first run of that age if it has been that since `before_ns`, else NULL. */
agg_entry_t *agg_ages_oldest(const agg_core_t *self, agg_age_t age, int64_t before_ns);
/* A new stream of a run, which is created if necessary; NULL: a limit was met. */
agg_flow_t *agg_flow_make(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                          int64_t now_ns);
void agg_flow_free(agg_core_t *self, agg_flow_t *flow);
/* It is known not only from a list of writers any more. */
void agg_flow_unmark_listed(agg_core_t *self, agg_flow_t *flow);

/* agg_core_clock.c */
void agg_client_follow_clock(agg_core_t *self, agg_client_t *client,
                             const Crema__Heartbeat *heartbeat, int64_t now_ns);

/* agg_core_split.c */
/* Sums up the frames, which continue a stream of the run. */
void agg_split_take(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
                    agg_frames_t frames);
/* Takes the list of prefixes of RUN_OPEN or RUN_END, if there is one. */
void agg_split_set_prefixes(agg_core_t *self, agg_entry_t *entry, const Crema__RunOpen *msg);
/* Keeps the last sums only. */
void agg_split_end(agg_entry_t *entry);
/* RUN_STATE without waiting_for. */
Crema__RunState agg_entry_state(const agg_core_t *self, const agg_entry_t *entry);

/* agg_core_keys.c */
/* The sink reports a run that another aggregator opened; t_end_ns is set if it is sealed. */
void agg_key_learn(agg_core_t *self, const Crema__RunOpen *msg, int64_t now_ns);
/* True if the sender may use this agent id, which belongs to the first key that used it. */
bool agg_key_has_agent(agg_core_t *self, agg_client_t *client);
/* True if the sender may bring streams of that run. */
bool agg_key_may_bring(agg_core_t *self, const crema_id_t *run_id);
/* True if the sender's key was lent by that run, and the run lacks nothing any more: the key brings
 * no further record. */
bool agg_key_is_over(const agg_core_t *self, const crema_id_t *run_id);
/* True if that user (1 + uid; 0: unknown) may have written the stream. An agent that serves all
 * runs reports the owner of each file, and the key that opened the run may be bound to one user. */
bool agg_key_may_have_written(const agg_core_t *self, const crema_id_t *stream_id,
                              const crema_id_t *run_id, uint32_t user);
/* True if the sender may bring that stream, which belongs to the first key that brought it. */
bool agg_key_has_flow(agg_core_t *self, agg_flow_t *flow);

/* agg_core_clients.c */
/* The agent, created if necessary; NULL: no room for it, or for one more of its key. */
agg_client_t *agg_client_get(agg_core_t *self, const crema_id_t *agent_id, int64_t now_ns);
void agg_client_free(agg_core_t *self, agg_client_t *client);
/* Sets the state that was last reported as an event, and the counts per state. */
void agg_client_set_reported(agg_core_t *self, agg_client_t *client, agg_agent_state_t state);
/* Call it after anything that may change when the agent counts as silent. */
void agg_client_plan(agg_core_t *self, agg_client_t *client, int64_t now_ns);

/* agg_core_agents.c */
void agg_agents_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg,
                           int64_t now_ns);
void agg_agents_on_tick(agg_core_t *self, int64_t now_ns);

/* ---- agg_core_due.c: agents by the time of their next check */
/* After creation, and whenever the agent may become due earlier. */
void agg_due_plan(agg_core_t *self, agg_client_t *client, int64_t due_ns);
/* The next agent due by now, removed from its slot; NULL: none. */
agg_client_t *agg_due_next(agg_core_t *self, int64_t now_ns);
/* The agent sent data. */
void agg_due_sent(agg_core_t *self, agg_client_t *client, int64_t now_ns);
/* Number of agents that sent data within `within_ns`. */
uint64_t agg_due_senders(agg_core_t *self, int64_t now_ns, int64_t within_ns);
/* Removes the agent from both lists. */
void agg_due_forget_sender(agg_core_t *self, agg_client_t *client);
void agg_due_init(agg_core_t *self);

/* agg_core_faults.c */
void agg_client_take_faults(agg_client_t *client, size_t n, Crema__Reason **faults);
/* True if something the agent could not read may belong to the run. */
bool agg_client_hides(const agg_core_t *self, const agg_client_t *client, const agg_entry_t *entry);
void agg_client_blame_faults(const agg_core_t *self, const agg_client_t *client,
                             agg_entry_t *entry);

/* agg_core_flows.c */
/* The stream, created if necessary; NULL: a limit was met. */
agg_flow_t *agg_flow_get(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                         int64_t now_ns);
/* The same for a stream that an agent brings: its key, or that of the run's owner, has room. */
agg_flow_t *agg_flow_bring(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                           int64_t now_ns);
/* A stream that is known only from a list of writers; NULL: a limit was met. The caller enforces
 * the owner's limit. */
agg_flow_t *agg_flow_make_listed(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
                                 int64_t now_ns);
void agg_flow_attach(agg_core_t *self, agg_flow_t *flow, agg_client_t *client, int64_t now_ns);
/* After every call that changes flow->line: updates credit, acknowledgement, tally and what is
 * due. */
void agg_flow_follow(agg_core_t *self, agg_flow_t *flow, int64_t now_ns);
/* Discards what the list of writers said about it, and the stream if it is otherwise unknown. */
void agg_flow_unlist(agg_core_t *self, agg_flow_t *flow, int64_t now_ns);
/* Records that its writer reported and that can no longer come. */
uint64_t agg_flow_short(const agg_flow_t *flow);
bool agg_client_awaits_commit(const agg_client_t *client);
void agg_flows_on_tick(agg_core_t *self, int64_t now_ns);
/* Forgets streams that are done, sealed and no longer listed by an agent. */
void agg_flows_sweep(agg_core_t *self);

/* agg_core_sink.c */
/* What currently blocks the pipeline; "" if nothing does. */
const char *agg_sink_trouble(const agg_core_t *self);
/* The same for a run until it is sealed. */
const char *agg_run_trouble(const agg_core_t *self, const agg_entry_t *entry);
void agg_sink_on_message(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns);
void agg_sink_on_tick(agg_core_t *self, int64_t now_ns);

/* agg_core_writers.c */
void agg_writers_on_message(agg_core_t *self, agg_entry_t *entry, const Crema__RunWriters *msg,
                            int64_t now_ns);
void agg_writers_on_listed(agg_core_t *self, const Crema__RunListed *msg);
/* Updates whether parts of the list are outstanding; call it after anything that may change
 * that. */
void agg_writers_follow(const agg_core_t *self, agg_entry_t *entry);
/* True if the whole list is here and none of its writers recorded: no agent can bring a stream. */
bool agg_writers_recorded_nothing(const agg_entry_t *entry);
/* A restarted sink may have an older store: every part is sent again. */
void agg_writers_on_sink_up(const agg_core_t *self, agg_entry_t *entry);
/* A part that the sink does not have; NULL: none. */
const Crema__RunWriters *agg_writers_take(agg_entry_t *entry);
/* Number of parts, from the first, that are durable without a gap. */
uint32_t agg_writers_kept(const agg_entry_t *entry);
/* Adds the reasons that follow from the list. */
void agg_writers_blame(agg_entry_t *entry);
/* True if the list names the stream, or is incomplete and may still name it. */
bool agg_writers_may_have(const agg_core_t *self, const agg_entry_t *entry,
                          const crema_id_t *stream_id);
/* Discards the list: it came from a key that does not own the run. */
void agg_writers_discard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);

/* agg_core_runs.c */
void agg_runs_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns);
void agg_runs_on_sealed(agg_core_t *self, const Crema__Sealed *sealed, int64_t now_ns);
/* A client sent HELLO, a complete table, or BYE. */
void agg_runs_on_client(agg_core_t *self, agg_client_t *client, int64_t now_ns);
void agg_runs_on_answer(agg_core_t *self, agg_client_t *client, uint64_t barrier_seen,
                        int64_t now_ns);
void agg_runs_on_bye(agg_core_t *self, agg_client_t *client, int64_t now_ns);
/* A new sink must receive the runs again. */
void agg_runs_on_sink_up(agg_core_t *self, int64_t now_ns);
/* After RUN_END, or when a run is abandoned. */
void agg_runs_begin_barrier(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
void agg_runs_on_tick(agg_core_t *self, int64_t now_ns);
/* Gives every verdict that is due. */
void agg_runs_decide(agg_core_t *self, int64_t mono_ns, int64_t real_ns);
/* True if the agent serves no open run and nothing it lists is missing. */
bool agg_client_is_dismissable(const agg_client_t *client);

/* agg_core_access.c */
/* False while a new aggregator with keys does not know the owner of the run, because the sink
 * has not reported it yet. */
bool agg_owner_is_known(const agg_core_t *self, const agg_entry_t *entry);
/* Whether the sender of this message may request this of the run; `entry` is NULL for an unknown
 * run. */
crema_refusal_t agg_refusal(const agg_core_t *self, const agg_entry_t *entry, agg_peer_t peer,
                            const crema_msg_t *msg);
/* Text of a refusal: one sentence, borrowed until the next call. */
const char *agg_refusal_text(agg_core_t *self, crema_refusal_t refusal);
/* Makes the client the owner of the run, and counts the run while it is open. */
void agg_owner_take(agg_core_t *self, agg_entry_t *entry, agg_peer_t peer);
/* The run is finished: the client may open another. */
void agg_owner_release(agg_entry_t *entry);
/* It is not the client's any more. */
void agg_owner_leave(agg_core_t *self, agg_entry_t *entry);
void agg_owner_add_bytes(agg_entry_t *entry, uint64_t bytes);
/* Counts `n` more streams that are known only from the run's list; -1: one less. */
void agg_owner_list(agg_entry_t *entry, size_t n);
/* The same for streams of any kind. */
void agg_owner_count_stream(agg_entry_t *entry, size_t n);
/* A copy that belongs to the run now takes so many bytes; *kept_b is what it took. */
void agg_owner_keep(agg_entry_t *entry, uint64_t *kept_b, uint64_t bytes);
/* After RUN_OPEN and RUN_END were taken. */
void agg_owner_keep_messages(agg_entry_t *entry);
/* The sender of this message pays for the run until it has an owner. */
void agg_owner_adopt(agg_core_t *self, agg_entry_t *entry);
/* NULL: that client has nothing here. */
agg_owner_t *agg_owner_of_client(const agg_core_t *self, agg_peer_t peer);
/* Whom things count for that the sender of this message brings; NULL: there are no keys. */
agg_owner_t *agg_owner_of_sender(agg_core_t *self);
void agg_owner_add_agent(agg_client_t *client, agg_owner_t *owner);
void agg_owner_remove_agent(agg_core_t *self, agg_client_t *client);
void agg_owner_keep_faults(agg_client_t *client, uint64_t bytes);
/* Whether the owner, which may be NULL, has room for one more. */
bool agg_owner_may_have_agent(const agg_core_t *self, const agg_owner_t *owner);
bool agg_owner_may_have_stream(const agg_core_t *self, const agg_owner_t *owner);
bool agg_owner_may_have_run(const agg_core_t *self, const agg_owner_t *owner);
bool agg_owner_may_keep(const agg_owner_t *owner, uint64_t bytes);
bool agg_owner_may_say_hello(agg_owner_t *owner, double per_second, int64_t now_ns);
/* How many more streams, known only from lists of writers, the owner of the run may have. */
size_t agg_owner_room_listed(const agg_core_t *self, const agg_entry_t *entry);

/* agg_core_ages.c */
/* Ends the runs whose owner's key was revoked. */
void agg_ages_end_revoked(agg_core_t *self, int64_t now_ns);
void agg_ages_on_tick(agg_core_t *self, int64_t now_ns);

#endif
