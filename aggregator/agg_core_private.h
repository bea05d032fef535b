/* agg_core_private - what the parts of agg_core share. Nobody else includes it.
 * Pure: structs and the functions between the parts.
 *
 *   agg_core.c         life, dispatch, time, counters
 *   agg_core_agents.c  HELLO, HEARTBEAT, BYE, DATA
 *   agg_core_flows.c   streams: found, made, attached, followed, forgotten
 *   agg_core_sink.c    STATE, COMMITTED, NACK, FULL, SEALED
 *   agg_core_runs.c    RUN_OPEN, RUN_END, RUN_QUERY, verdicts, dismissal
 *   agg_core_next.c    actions
 *
 * Nothing is sent where something happens: things are marked as wanted and linked into a list of what has something to say, and
 * agg_core_next() says one thing at a time. So an event costs what it touches, whatever the number of agents and streams. */
#ifndef AGG_CORE_PRIVATE_H
#define AGG_CORE_PRIVATE_H

#include "agg_agent.h"
#include "agg_core.h"
#include "agg_credit.h"
#include "agg_frames.h"
#include "agg_run.h"
#include "crema_list.h"
#include "crema_map.h"
#include "crema_offset.h"
#include "crema_stream.h"

#define AGG_MS 1000000ll
#define AGG_S (1000 * AGG_MS)
#define AGG_REPLIES_MAX 64
#define AGG_WAITING_MAX 32
#define AGG_CLOCK_RUNS_MAX 8

/* An agent with its connection. */
typedef struct {
    agg_agent_t *agent;
    agg_peer_t peer;
    bool has_session;       /* welcomed on `peer` */
    agg_agent_state_t told; /* state of the last event */
    uint32_t events;        /* bits of agg_event_t to tell */
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
    int64_t data_ns;      /* last DATA */
    crema_offset_t *offset;
    int64_t clock_told_ns; /* when the sink was told of it last */
    crema_clock_sample_t clock;
    size_t n_clock_runs; /* runs that still have to be told */
    crema_id_t clock_runs[AGG_CLOCK_RUNS_MAX];
    bool dismissed; /* of dismissed_run_id, until it serves another */
    crema_id_t dismissed_run_id;
} agg_client_t;

/* A run with what it has to say. */
typedef struct {
    agg_run_t *run;
    crema_link_t flows;   /* agg_flow_t.of_entry */
    crema_link_t out;     /* in agg_core.runs_out */
    crema_link_t pending; /* in agg_core.pending: waits for answers */
    uint32_t events;
    bool want_open, want_seal, want_state;
    bool want_end;  /* the sink may have sealed it before this aggregator began: then it says so */
    bool late_told; /* since it was sealed last */
    bool regressed; /* a store that was put back lacks what had been durable */
    bool has_watcher;
    agg_peer_t watcher; /* whoever asked last is told of what follows */
    int64_t seal_at_ns, seal_wait_ns;
    int64_t sealed_ns;
    double processor_s, overhead_s;
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
    uint64_t listed; /* number of the client's table that listed it */
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
} agg_reply_t;

struct agg_core {
    agg_config_t config;
    crema_map_t *clients; /* by agent id */
    crema_map_t *peers;   /* by number */
    crema_map_t *flows;   /* by stream id */
    crema_map_t *entries; /* by run id */
    agg_credit_t *credit;
    crema_link_t clients_out, runs_out, pending;
    crema_link_t due;     /* flows to look at */
    crema_link_t watched; /* flows to look at after each tick */
    crema_link_t opens;   /* flows whose row the sink is asked for */
    agg_reply_t replies[AGG_REPLIES_MAX];
    size_t n_replies;
    uint64_t barriers; /* the last barrier's id */
    int64_t real_ns;   /* of the event that is being handled */

    uint64_t sink_boot;
    bool sink_known; /* its list of streams was read to the end */
    bool sink_silent, sink_full;
    bool want_list; /* OPEN without rows */
    bool want_ping;
    uint32_t sink_events;
    int64_t sink_heard_ns, sink_pinged_ns, sink_known_ns, full_until_ns, full_heard_ns;
    uint64_t full_free_b;
    crema_id_t store_id;
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
    agg_stats_t stats;
};

static inline bool
agg_sink_takes(const agg_core_t *self)
{
    return self->sink_known && !self->sink_silent && !self->sink_full;
}

/* agg_core.c */
void agg_reply(agg_core_t *self, const agg_reply_t *reply);
crema_id_t agg_peer_key(agg_peer_t peer);

/* agg_core_agents.c */
agg_client_t *agg_client_of(const agg_core_t *self, const crema_id_t *agent_id);
void agg_client_out(agg_core_t *self, agg_client_t *client);
void agg_client_end_session(agg_core_t *self, agg_client_t *client);
void agg_client_free(agg_core_t *self, agg_client_t *client);
void agg_agents_on_message(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg,
                           int64_t now_ns);
void agg_agents_on_tick(agg_core_t *self, int64_t now_ns);

/* agg_core_flows.c */
/* The stream, made if need be; NULL: a limit was met. */
agg_flow_t *agg_flow_get(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                         int64_t now_ns);
void agg_flow_attach(agg_core_t *self, agg_flow_t *flow, agg_client_t *client, int64_t now_ns);
/* After every call that changes its line: credit, acknowledgement, tally, what is due. */
void agg_flow_follow(agg_core_t *self, agg_flow_t *flow, int64_t now_ns);
void agg_flow_free(agg_core_t *self, agg_flow_t *flow);
void agg_flows_on_tick(agg_core_t *self);
/* Forgets streams that are done, sealed and no longer listed. */
void agg_flows_sweep(agg_core_t *self);

/* agg_core_sink.c */
void agg_sink_on_message(agg_core_t *self, const crema_msg_t *msg, int64_t now_ns);
void agg_sink_on_tick(agg_core_t *self, int64_t now_ns);

/* agg_core_runs.c */
/* NULL: a limit was met. */
agg_entry_t *agg_entry_get(agg_core_t *self, const crema_id_t *run_id);
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
void agg_runs_on_tick(agg_core_t *self, int64_t now_ns);
/* Gives every verdict that is ready. */
void agg_runs_decide(agg_core_t *self, int64_t mono_ns, int64_t real_ns);
/* A barrier is out. */
bool agg_runs_is_ending(const agg_core_t *self);
/* The agent serves no run that is still open, and nothing it lists is missing. */
bool agg_client_is_dismissable(const agg_client_t *client);

#endif
