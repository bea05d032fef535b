/* agg_core_private - what the parts of agg_core share. Nobody else includes it.
 * Pure: structs and the functions between the parts.
 *
 *   agg_core.c         life, dispatch, time, counters
 *   agg_core_agents.c  HELLO, HEARTBEAT, BYE, DATA
 *   agg_core_faults.c  what agents cannot read
 *   agg_core_flows.c   streams: found, made, attached, followed, forgotten
 *   agg_core_sink.c    STATE, COMMITTED, NACK, FULL, SEALED
 *   agg_core_writers.c RUN_WRITERS, RUN_LISTED: who wrote, and what of it must be durable
 *   agg_core_runs.c    RUN_OPEN, RUN_END, RUN_QUERY, verdicts, dismissal
 *   agg_core_owners.c  what a client may not, how much it may
 *   agg_core_ages.c    runs that are abandoned, runs that are forgotten
 *   agg_core_keys.c    whose an agent and a stream are, and what follows when a key is revoked
 *   agg_core_next.c    actions
 *
 * Nothing is sent where something happens: things are marked as wanted and linked into a list of what has something to say, and
 * agg_core_next() says one thing at a time. So an event costs what it touches, whatever the number of agents and streams. */
#ifndef AGG_CORE_PRIVATE_H
#define AGG_CORE_PRIVATE_H

#include "agg_agent.h"
#include "agg_awaited.h"
#include "agg_core.h"
#include "agg_credit.h"
#include "agg_frames.h"
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

/* An agent with its connection. */
typedef struct {
    agg_agent_t *agent;
    agg_peer_t peer;
    bool has_session;           /* welcomed on `peer` */
    agg_agent_state_t reported; /* state of the last event */
    uint32_t events;            /* bits of agg_event_t to tell */
    agg_account_t account;
    crema_link_t flows; /* agg_flow_t.of_client */
    crema_link_t acks;  /* agg_flow_t.ack */
    crema_link_t out;   /* in agg_core.clients_out */
    bool want_welcome, want_ack, want_dismiss;
    bool leaving;       /* ends after the next ACK */
    uint64_t ack_hb_no; /* the heartbeat that the next ACK answers, 0 none */
    int64_t ack_t1_ns, ack_t2_ns;
    uint64_t table;       /* number of the table that is coming in */
    uint64_t whole_table; /* number of the last one that was whole */
    unsigned part;        /* part of it that is due */
    bool table_refused;   /* a row of it found no room */
    crema_id_t serves;    /* the one run that it serves; zero: all */
    crema_faults_t
        *faults;      /* what it could not read when it sent the last whole table; NULL: nothing */
    bool faults_lost; /* there was no memory for them */
    int64_t data_ns;  /* last DATA */
    crema_offset_t *offset;
    int64_t clock_sent_ns; /* when the sink was told of it last */
    crema_clock_sample_t clock;
    size_t n_clock_runs; /* runs that still have to be told */
    crema_id_t clock_runs[AGG_CLOCK_RUNS_MAX];
    crema_id_t owner;    /* the key that said its id first */
    bool claimed;        /* and it did */
    bool dismissed;      /* of dismissed_run_id, until it serves another */
    crema_link_t look;   /* in one of agg_core.looks */
    int64_t look_ns;     /* when it is looked at next, at the latest */
    crema_link_t sender; /* in agg_core.senders */
    int64_t refused_ns;  /* when a stream of its table was refused and told last; 0: never */
    crema_stream_row_t refused;
    crema_id_t dismissed_run_id;
    uint64_t behind; /* records, as the last census found it */
} agg_client_t;

/* Runs wait in lists by age, the oldest first, so that time costs a look at the first of each. */
typedef enum {
    AGG_AGE_NONE,  /* it is ending: other clocks run */
    AGG_AGE_OPEN,  /* since its last record, or the last word of its client: abandoned in the end */
    AGG_AGE_WHOLE, /* sealed, and nothing is missing: forgotten soon */
    AGG_AGE_LACKING, /* sealed with reasons that late data may take back, or not to be sealed: forgotten in the end */
    AGG_AGES,
} agg_age_t;

/* A client's open runs: of one key, or of one connection where there are no keys. There as long as any of the counts is not 0. */
typedef struct {
    crema_id_t key;
    uint64_t runs, bytes;
    size_t n_only_listed; /* streams that only its lists know, also of runs that are over */
} agg_owner_t;

/* Who wrote records of a run, as its collector lists it. */
typedef struct {
    crema_writers_t *writers; /* NULL: nobody said anything yet */
    uint8_t *parts;           /* by number: what is to be done with it */
    uint32_t n_parts;
    uint32_t n_kept; /* durable in the sink */
    uint32_t n_want; /* to be sent to it */
} agg_list_t;

/* A run with what it has to say. */
typedef struct {
    agg_run_t *run;
    crema_link_t flows;  /* agg_flow_t.of_entry */
    crema_link_t out;    /* in agg_core.runs_out */
    crema_link_t ending; /* in agg_core.ending: its barrier is out */
    crema_link_t filing; /* in agg_core.filing: its verdict is given, its file is not there */
    crema_link_t over;   /* in agg_core.over: sealed, and holds streams */
    crema_link_t age;    /* in one of agg_core.ages */
    agg_age_t age_of;    /* in which */
    int64_t since_ns; /* its age there: of the last record or word of its client, or of its file */
    int64_t since_real_ns;
    agg_owner_t *owner;          /* whose open run it is; NULL: nobody's, or it is over */
    crema_principal_t opened_by; /* of the RUN_OPEN or RUN_END that came first */
    bool has_opener;
    uint64_t bytes; /* of records, in the owner's sum */
    uint32_t events;
    bool want_open, want_seal, want_state;
    bool want_end; /* the sink may have sealed it before this aggregator began: then it says so */
    bool late_reported; /* since it was sealed last */
    bool regressed;     /* a store that was put back lacks what had been durable */
    bool has_watcher;
    agg_peer_t watcher; /* whoever asked last is told of what follows */
    int64_t seal_at_ns, seal_wait_ns;
    double processor_s, overhead_s;
    agg_list_t list;
    size_t n_only_listed; /* streams that nobody but its list knows */
    agg_owner_t *lister;  /* in whose sum they are; NULL: there is none */
    bool revoked;         /* opened_by was; it is ended at once */
    bool was_asked;       /* its client spoke to this aggregator */
    bool is_full;         /* the sink keeps no more of it than beginnings and ends */
    bool want_lend;       /* its own agents' key is to be admitted */
} agg_entry_t;

/* A stream with its places. */
typedef struct {
    crema_stream_t *line;
    crema_stream_row_t row; /* of `line` when it was followed last */
    uint64_t held_b;        /* bytes that its agent's account holds for it */
    agg_tally_t tally;
    agg_client_t *client; /* who listed it last; NULL: only the sink knows it */
    agg_entry_t *entry;
    agg_member_t *member;
    uint32_t user;     /* 1 + uid that owns its segments, as its agent said; 0: it did not */
    crema_id_t owner;  /* the key of the agent that brought it first */
    bool claimed;      /* and it did */
    uint64_t listed;   /* number of the client's table that listed it */
    uint64_t promised; /* its last record, by the list of writers; 0: not said */
    bool is_listed;    /* its writer is in the list */
    bool only_listed;  /* nobody but that list knew it, and no agent has brought it */
    crema_link_t of_client, of_entry, ack, due, open;
    crema_link_t watch; /* in agg_core.watched: time alone may make something due */
} agg_flow_t;

/* A short answer to a peer that need not be an agent. */
typedef struct {
    agg_peer_t peer;
    crema_msg_type_t type; /* FENCE, WELCOME (not admitted), RUN_STATE (unknown run) */
    crema_fence_reason_t reason;
    uint32_t retry_after_ms;
    crema_id_t run_id;
    crema_refusal_t refusal; /* RUN_STATE */
} agg_reply_t;

/* Agents by the time at which silence may change what they are: a wheel of slots, each a twentieth of a second. Who is due later than the
 * wheel reaches is looked at earlier, and put off again. */
#define AGG_LOOK_NS (50 * AGG_MS)
#define AGG_LOOK_SLOTS 1024

struct agg_core {
    agg_config_t config;
    crema_map_t *clients; /* by agent id */
    crema_map_t *peers;   /* by number */
    crema_map_t *flows;   /* by stream id */
    size_t n_only_listed; /* of them; half of all at most */
    crema_map_t *entries; /* by run id */
    crema_map_t *owners;  /* by key */
    agg_awaited_t *awaited;
    agg_credit_t *credit;
    crema_link_t looks[AGG_LOOK_SLOTS]; /* agg_client_t.look */
    int64_t look_slot;                  /* the last one that was looked at */
    crema_link_t senders;               /* agents that sent lately, the longest ago first */
    uint64_t n_senders, n_reported[AGG_AGENT_LEFT + 1];
    crema_link_t clients_out, runs_out, ending, filing, over;
    crema_link_t ages[AGG_AGES]; /* agg_entry_t.age */
    crema_link_t due;            /* flows to look at */
    crema_link_t watched;        /* flows to look at after each tick */
    crema_link_t opens;          /* flows whose row the sink is asked for */
    agg_reply_t replies[AGG_REPLIES_MAX];
    size_t n_replies;
    bool took_run;          /* see agg_core_took_run() */
    uint64_t barriers;      /* the last barrier's id */
    int64_t real_ns;        /* of the event that is being handled */
    crema_principal_t from; /* whose message is being handled */

    uint64_t sink_boot;
    bool sink_known; /* its list of streams was read to the end */
    bool sink_silent, sink_full;
    bool want_list; /* OPEN without rows */
    bool want_ping;
    uint32_t sink_events;
    int64_t sink_heard_ns, sink_pinged_ns, sink_known_ns, full_until_ns, full_heard_ns;
    uint64_t full_free_b;
    char trouble[AGG_TROUBLE_BYTES]; /* what the sink said with its last FULL */
    size_t ping_cursor;

    double hello_tokens; /* admissions left */
    int64_t hello_ns;
    int64_t swept_ns;

    bool putting; /* frames of the DATA that is being passed on */
    agg_frames_t put_frames;
    crema_data_t put;

    crema_msg_t msg; /* the action's */
    crema_stream_row_t *rows;
    const char *waiting[AGG_WAITING_MAX];
    char text[512]; /* of a refusal */
    agg_stats_t stats;
};

static inline bool
agg_sink_takes(const agg_core_t *self)
{
    return self->sink_known && !self->sink_silent && !self->sink_full;
}

/* agg_core.c */
void agg_reply(agg_core_t *self, const agg_reply_t *reply);
/* FENCE(PRINCIPAL), and counted. */
void agg_refuse_principal(agg_core_t *self, agg_peer_t peer);
crema_id_t agg_peer_key(agg_peer_t peer);

/* agg_core_keys.c */
/* What the sink says of a run that another aggregator opened; t_end_ns is set if it is sealed. */
void agg_key_learn(agg_core_t *self, const crema_run_msg_t *msg, int64_t now_ns);
/* Whether the sender of the message is that agent: the first key that says an agent id has it. */
bool agg_key_has_agent(agg_core_t *self, agg_client_t *client);
/* Whether it may bring streams of that run. */
bool agg_key_may_bring(agg_core_t *self, const crema_id_t *run_id);
/* Whether that user (1 + uid; 0: not stated) may have written the stream: an agent that serves all runs says whose files it reads, and the
 * key that opened the run may be bound to one user. */
bool agg_key_may_have_written(const agg_core_t *self, const crema_id_t *stream_id,
                              const crema_id_t *run_id, uint32_t user);
/* Whether it may bring that stream: the first that did has it. */
bool agg_key_has_flow(agg_core_t *self, agg_flow_t *flow);

/* agg_core_ages.c */
/* Ends the runs whose owner was revoked. */
void agg_ages_end_revoked(agg_core_t *self, int64_t now_ns);

/* agg_core_agents.c */
agg_client_t *agg_client_of(const agg_core_t *self, const crema_id_t *agent_id);
void agg_client_out(agg_core_t *self, agg_client_t *client);
void agg_client_end_session(agg_core_t *self, agg_client_t *client);
void agg_client_free(agg_core_t *self, agg_client_t *client);
void agg_agents_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg,
                           int64_t now_ns);
void agg_agents_on_tick(agg_core_t *self, int64_t now_ns);

/* agg_core_due.c: agents by what time changes of them */
/* After its creation, and after what may make it due earlier. */
void agg_due_plan(agg_core_t *self, agg_client_t *client, int64_t due_ns);
/* The next one to look at by now, out of its slot; NULL: no more. */
agg_client_t *agg_due_next(agg_core_t *self, int64_t now_ns);
/* It sent data. */
void agg_due_sent(agg_core_t *self, agg_client_t *client, int64_t now_ns);
/* How many did so within `within_ns`. */
uint64_t agg_due_senders(agg_core_t *self, int64_t now_ns, int64_t within_ns);
/* It is in neither of these any more. */
void agg_due_forget_sender(agg_core_t *self, agg_client_t *client);
void agg_due_init(agg_core_t *self);

/* agg_core_faults.c */
void agg_client_take_faults(agg_client_t *client, const crema_faults_t *faults);
/* Whether something that it could not read may belong to the run. */
bool agg_client_hides(const agg_core_t *self, const agg_client_t *client, const agg_entry_t *entry);
void agg_client_blame_faults(const agg_core_t *self, const agg_client_t *client,
                             agg_entry_t *entry);

/* agg_core_flows.c */
/* The stream, made if need be; NULL: a limit was met. */
agg_flow_t *agg_flow_get(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                         int64_t now_ns);
/* How many more streams the owner of the run may have of which only lists of writers say that they are there: a sixteenth of all streams for each key,
 * half of them for all keys. */
size_t agg_flows_room_listed(const agg_core_t *self, const agg_entry_t *entry);
/* One of these; NULL: a limit was met, of which the caller minds the owner's. */
agg_flow_t *agg_flow_make_listed(agg_core_t *self, agg_entry_t *entry, const crema_id_t *stream_id,
                                 int64_t now_ns);
void agg_flow_attach(agg_core_t *self, agg_flow_t *flow, agg_client_t *client, int64_t now_ns);
/* After every call that changes its line: credit, acknowledgement, tally, what is due. */
void agg_flow_follow(agg_core_t *self, agg_flow_t *flow, int64_t now_ns);
void agg_flow_free(agg_core_t *self, agg_flow_t *flow);
/* Forgets what the list of writers said of it, and the stream if nobody else knows it. */
void agg_flow_unlist(agg_core_t *self, agg_flow_t *flow, int64_t now_ns);
void agg_flows_on_tick(agg_core_t *self);
/* Forgets streams that are done, sealed and no longer listed. */
void agg_flows_sweep(agg_core_t *self);

/* agg_core_sink.c */
/* What holds the pipeline up just now; "" if nothing does. */
const char *agg_sink_trouble(const agg_core_t *self);
/* Or this run, until it is sealed. */
const char *agg_run_trouble(const agg_core_t *self, const agg_entry_t *entry);
void agg_sink_on_message(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns);
void agg_sink_on_tick(agg_core_t *self, int64_t now_ns);

/* Records that its writer says it wrote, and that can no longer come. */
uint64_t agg_flow_short(const agg_flow_t *flow);

/* agg_core_writers.c */
void agg_writers_on_message(agg_core_t *self, agg_entry_t *entry, const crema_writers_msg_t *msg,
                            int64_t now_ns);
void agg_writers_on_listed(agg_core_t *self, const crema_writers_msg_t *msg);
/* Whether the list is still outstanding, after everything that may change that. */
void agg_writers_follow(agg_entry_t *entry);
/* A sink that was started anew may have an older store: every part goes there again. */
void agg_writers_on_sink_up(agg_entry_t *entry);
/* A part that the sink does not have; NULL if there is none. */
const crema_writers_msg_t *agg_writers_take(agg_entry_t *entry);
/* Parts that are durable, from the first on without a hole. */
uint32_t agg_writers_kept(const agg_entry_t *entry);
/* What the list says against the run. */
void agg_writers_blame(agg_entry_t *entry);
/* It names the stream, or is not whole, so that it may. */
bool agg_writers_may_have(const agg_core_t *self, const agg_entry_t *entry,
                          const crema_id_t *stream_id);
void agg_writers_free(agg_entry_t *entry);
/* It was a stranger's: nothing of it stays. */
void agg_writers_discard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);

/* agg_core_runs.c */
/* NULL: a limit was met. */
agg_entry_t *agg_entry_get(agg_core_t *self, const crema_id_t *run_id, int64_t now_ns);
void agg_entry_out(agg_core_t *self, agg_entry_t *entry);
void agg_entry_free(agg_core_t *self, agg_entry_t *entry);
void agg_runs_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg, int64_t now_ns);
void agg_runs_on_sealed(agg_core_t *self, const crema_sealed_t *sealed, int64_t now_ns);
/* A client said HELLO, or a whole table, or BYE. */
void agg_runs_on_client(agg_core_t *self, agg_client_t *client, int64_t now_ns);
void agg_runs_on_answer(agg_core_t *self, agg_client_t *client, uint64_t barrier_seen,
                        int64_t now_ns);
void agg_runs_on_bye(agg_core_t *self, agg_client_t *client, int64_t now_ns);
/* A new sink must be told of the runs. */
void agg_runs_on_sink_up(agg_core_t *self, int64_t now_ns);
/* RUN_END, or in its place. */
void agg_runs_begin_barrier(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
void agg_runs_on_tick(agg_core_t *self, int64_t now_ns);
/* Gives every verdict that is ready. */
void agg_runs_decide(agg_core_t *self, int64_t mono_ns, int64_t real_ns);
/* A barrier is out. */
bool agg_runs_is_ending(const agg_core_t *self);
/* The agent serves no run that is still open, and nothing it lists is missing. */
bool agg_client_is_dismissable(const agg_client_t *client);

/* agg_core_owners.c */
/* With keys: before a new aggregator has heard the sink it cannot say whose a run is. */
bool agg_owner_is_known(const agg_core_t *self, const agg_entry_t *entry);
/* Whether the client whose message this is may ask this of the run; `entry` is NULL if there is none yet. */
crema_refusal_t agg_refusal(const agg_core_t *self, const agg_entry_t *entry, agg_peer_t peer,
                            const crema_msg_t *msg);
/* One sentence, borrowed until the next call. */
const char *agg_refusal_text(agg_core_t *self, crema_refusal_t refusal);
/* The run is that client's from now on. */
void agg_owner_take(agg_core_t *self, agg_entry_t *entry, agg_peer_t peer);
/* It is over: the client may open another. */
void agg_owner_release(agg_core_t *self, agg_entry_t *entry);
void agg_owner_add_bytes(agg_entry_t *entry, uint64_t bytes);
/* Streams that only lists of this run's owner know, of all its runs. */
size_t agg_owner_listed(const agg_core_t *self, const agg_entry_t *entry);
/* One more of this run; false: no memory. */
bool agg_owner_list(agg_core_t *self, agg_entry_t *entry);
void agg_owner_unlist(agg_core_t *self, agg_entry_t *entry);
/* Another key opened the run: they are in that one's sum from now on. */
void agg_owner_follow(agg_core_t *self, agg_entry_t *entry);

/* agg_core_ages.c */
/* A record of the run came, or a word of its client: it lives. */
void agg_ages_heard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
/* After its phase changed: which lists it is in. */
void agg_ages_follow(agg_core_t *self, agg_entry_t *entry, int64_t now_ns);
/* Forgets the run that has been over for longest, or that nothing is known of. False: there is none. */
bool agg_ages_make_room(agg_core_t *self);
void agg_ages_on_tick(agg_core_t *self, int64_t now_ns);

#endif
