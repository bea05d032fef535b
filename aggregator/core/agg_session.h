/* agg_session - one agent as the aggregator sees it: its connection, whether it is alive, judged
 * by its own heartbeat interval, and whether two processes share its identity. Pure: time is an
 * argument.
 *
 *     NEW --admitted--> LIVE <--valid message-- SUSPECT --max(10 H, 30 s)--> LOST --24 h--> EXPIRED
 *                        | \--3 H + round trip--->                             |
 *                        |  <--------------------HELLO--------------------------+
 *                        +--BYE--> LEFT, or LEAVING if records stayed in its spool
 *
 * The declared interval cannot be trusted, so H = max(declared, half the observed median of the
 * times between heartbeats).
 *
 * A session is open between WELCOME and its end. A closed one stays known until its agent is
 * EXPIRED, or gone and its place is needed. */
#ifndef AGG_SESSION_H
#define AGG_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "agg_access.h"
#include "agg_core.h"
#include "agg_credit.h"
#include "crema_error.h"
#include "crema_list.h"
#include "crema_offset.h"
#include "crema_wire.h"

#define AGG_SESSION_NAME_BYTES 64
#define AGG_SESSION_GAPS 9 /* observed heartbeat intervals kept */
#define AGG_SESSION_CLOCK_RUNS_MAX 8
#define AGG_SESSION_LEFT_NS (60 * 1000000000ll) /* after leaving, an agent is forgotten */
/* Agents by the time at which silence may change their state: a wheel of slots of a twentieth of
 * a second. An agent due later than the wheel reaches is checked earlier and put back. */
#define AGG_LOOK_NS (50 * 1000000ll)
#define AGG_LOOK_SLOTS 1024

typedef enum {
    AGG_SESSION_NEW, /* seen, not admitted yet */
    AGG_SESSION_LIVE,
    AGG_SESSION_SUSPECT, /* silent for 3 H and a round trip */
    AGG_SESSION_LOST,    /* silent for max(10 H, 30 s): windows and verdicts do not wait for it */
    AGG_SESSION_EXPIRED, /* silent for a day: may be forgotten */
    AGG_SESSION_LEAVING, /* sent BYE with records left in its spool */
    AGG_SESSION_LEFT,    /* sent BYE after delivering everything */
} agg_session_state_t;

typedef enum {
    AGG_HELLO_ADMIT,      /* the known process, perhaps on a new connection */
    AGG_HELLO_SUPERSEDES, /* a new process: fence the connection of the old one */
    /* more than 10 a minute from one process, or more than one new process per second */
    AGG_HELLO_TOO_OFTEN,
    AGG_HELLO_CLONE, /* two processes alternate under one identity: fence both */
} agg_hello_verdict_t;

/* A token bucket for HELLOs. */
typedef struct {
    unsigned tokens;
    int64_t refill_ns; /* when the last token was added */
} agg_bucket_t;

struct agg_session {
    /* the process */
    crema_id_t agent_id;
    char name[AGG_SESSION_NAME_BYTES]; /* of its host; the id in hex if it sent no name */
    bool welcomed;
    bool said_bye, drained;
    uint64_t boot;                /* of the process that was welcomed last */
    uint64_t superseded;          /* the boot before it; 0: none */
    unsigned returns;             /* how often in succession the superseded one returned */
    agg_bucket_t repeats, starts; /* HELLOs of known processes, of new ones */

    /* silence */
    int64_t declared_ns;
    int64_t gaps_ns[AGG_SESSION_GAPS]; /* between heartbeats; a ring buffer */
    size_t n_gaps;
    int64_t heartbeat_ns; /* time of the last heartbeat; 0: none */
    int64_t heard_ns;
    int64_t rtt_ns;
    agg_session_state_t reported; /* state of the last event */
    crema_link_t look;            /* in one of agg_core.looks */
    int64_t look_ns;              /* latest time of its next check */
    crema_link_t gone;            /* while it is LOST or has left: in agg_core.gone */
    crema_link_t gone_of_owner;   /* and in owner->gone */

    /* the connection */
    agg_peer_t peer;
    bool is_open; /* welcomed on `peer` */
    bool leaving; /* ends after the next ACK */
    agg_account_t account;
    crema_link_t sender; /* in agg_core.senders */
    int64_t data_ns;     /* time of the last DATA */

    /* its key, and the runs it may serve */
    crema_id_t key;       /* the first one that used its id */
    bool has_key;         /* `key` is set */
    agg_owner_t *owner;   /* it counts for this one; NULL: there are no keys */
    crema_id_t serves;    /* the only run it declared to serve; zero: all */
    crema_id_t bound;     /* the only run that its key admits it to; zero: all */
    crema_link_t serving; /* in the list of that run, or of all, in agg_core.serving */

    /* its table of streams, and what it cannot read */
    crema_link_t streams; /* agg_stream_t.of_session */
    uint64_t table;       /* number of the table being received */
    uint64_t whole_table; /* number of the last complete table */
    unsigned part;        /* next part of it */
    bool table_refused;   /* there was no room for one of its rows */
    int64_t refused_ns;   /* when a stream of its table was last refused and logged; 0: never */
    crema_stream_row_t refused;
    crema_msg_t *faults; /* a BYE with what it could not read at its last table; NULL: nothing */
    bool faults_lost;    /* faults were dropped for lack of room */
    bool is_blind;       /* one of them was that it cannot list its spool */
    uint64_t faults_b;   /* of their copy */
    uint64_t behind;     /* records, as the last census found it */

    /* what is to be sent */
    crema_link_t out; /* in agg_core.sessions_out */
    uint32_t events;  /* pending events, bits of agg_event_t */
    bool want_welcome, want_ack, want_dismiss;
    bool dismissed; /* from dismissed_run_id, until it serves another run */
    crema_id_t dismissed_run_id;
    crema_link_t acks;  /* agg_stream_t.ack */
    bool ack_waits;     /* for a commit that is under way, or for the next tick */
    uint64_t ack_hb_no; /* the heartbeat that the next ACK answers; 0: none */
    int64_t ack_t1_ns, ack_t2_ns;

    /* its clock */
    crema_offset_t *offset;
    int64_t clock_sent_ns; /* when its clock was last sent to the sink */
    Crema__ClockSample clock;
    size_t n_clock_runs; /* runs still to be sent its clock */
    crema_id_t clock_runs[AGG_SESSION_CLOCK_RUNS_MAX];
};

/* ---- the agent alone */

CREMA_MUST_CHECK crema_err_t agg_session_new(const crema_id_t *agent_id, agg_session_t **ret_self);
void agg_session_destroy(agg_session_t **self_p);

/* Decides on a HELLO; after ADMIT and SUPERSEDES the agent is welcomed. *ret_retry_after_ms is
 * set for TOO_OFTEN. */
agg_hello_verdict_t agg_session_on_hello(agg_session_t *self, const Crema__Hello *hello,
                                         int64_t now_ns, uint32_t *ret_retry_after_ms);
void agg_session_on_heartbeat(agg_session_t *self, uint32_t hb_ivl_ms, int64_t now_ns);
void agg_session_on_bye(agg_session_t *self, bool drained);
void agg_session_on_round_trip(agg_session_t *self, int64_t rtt_ns);
/* Keeps a copy of what the agent cannot read. */
void agg_session_take_faults(agg_session_t *self, size_t n, Crema__Reason **faults);

agg_session_state_t agg_session_state(const agg_session_t *self, int64_t now_ns);
const char *agg_session_state_name(agg_session_state_t state);
/* True if neither its key nor what it declared excludes the run. */
bool agg_session_serves(const agg_session_t *self, const crema_id_t *run_id);
/* H, see above. */
int64_t agg_session_interval_ns(const agg_session_t *self);
int64_t agg_session_silent_ns(const agg_session_t *self, int64_t now_ns);

/* ---- agents of the aggregator */

void agg_sessions_init(agg_core_t *core);
/* The agent's session, created if necessary; NULL: no room for it, or for one more of its key. */
agg_session_t *agg_session_get(agg_core_t *core, const crema_id_t *agent_id, int64_t now_ns);
/* Sets the only run that it may have streams of, by its key and by what it declared; zero: all.
 * CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_session_serve(agg_core_t *core, agg_session_t *self,
                                               const crema_id_t *bound, const crema_id_t *serves);
void agg_session_forget(agg_core_t *core, agg_session_t *self);
/* Its connection is not used any more. */
void agg_session_end(agg_core_t *core, agg_session_t *self);
/* There is something to send. */
void agg_session_out(agg_core_t *core, agg_session_t *self);
void agg_session_note(agg_core_t *core, agg_session_t *self, agg_event_t event);
/* Sets the state that was last reported as an event, and the counts per state. */
void agg_session_set_reported(agg_core_t *core, agg_session_t *self, agg_session_state_t state);
/* Call it after anything that may change when the agent counts as silent. */
void agg_session_plan(agg_core_t *core, agg_session_t *self, int64_t now_ns);
/* The next agent due by now; it is to be planned again. NULL: none. */
agg_session_t *agg_session_next_due(agg_core_t *core, int64_t now_ns);
/* The agent sent data. */
void agg_session_sent(agg_core_t *core, agg_session_t *self, int64_t now_ns);
/* Number of agents that sent data within `within_ns`. */
uint64_t agg_session_senders(agg_core_t *core, int64_t now_ns, int64_t within_ns);
/* Estimates the agent's clock, and now and then queues the estimate for its runs. */
void agg_session_follow_clock(agg_core_t *core, agg_session_t *self,
                              const Crema__Heartbeat *heartbeat, int64_t now_ns);

#endif
