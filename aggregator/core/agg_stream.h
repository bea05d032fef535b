/* agg_stream - the receiver's half of one stream: which numbers are accepted, what is durable,
 * what is missing and which agent to ask. Pure: events in, answers out; time is an argument.
 *
 *     UNKNOWN --ask sink--> SYNCING --STATE--> LIVE <--record taken-- GAP --8 REPLAYs--> STALLED
 *                              ^                | \--none in the window->
 *                              |                +--END committed--> CLOSED
 *                              +--NACK, sink restarted, committed does not move
 *
 * A record is accepted only if it continues the stream, so numbers have no holes. `next` is the
 * next number to accept and promises nothing: accepted records may still be lost with the sink.
 * Only `committed` is a promise. Silence never counts as loss: a stalled stream is asked for again
 * at growing intervals.
 *
 * The position is kept here and nowhere else. A caller that changes it notes where the stream was
 * and then calls agg_stream_follow(), which passes the difference on: to the sums of the run, the
 * credit of the agent, and the lists of what is due. */
#ifndef AGG_STREAM_H
#define AGG_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "agg_core.h"
#include "agg_run.h"
#include "agg_session.h"
#include "crema_error.h"
#include "crema_list.h"
#include "crema_wire.h"

#define AGG_STREAM_STALLED_AFTER 8 /* REPLAYs without an answer */

typedef enum {
    AGG_STREAM_UNKNOWN, /* announced; the sink has not been asked */
    AGG_STREAM_SYNCING, /* the sink was asked for committed; what arrives meanwhile is dropped */
    AGG_STREAM_LIVE,
    AGG_STREAM_GAP,     /* records from next on exist and were requested again from the sender */
    AGG_STREAM_STALLED, /* requested eight times in vain: only occasional probes */
    AGG_STREAM_CLOSED,  /* committed up to its END */
} agg_stream_state_t;

typedef enum {
    AGG_STREAM_WAIT,       /* nothing to do */
    AGG_STREAM_ASK_SINK,   /* OPEN */
    AGG_STREAM_ASK_SENDER, /* REPLAY from next */
} agg_stream_due_t;

typedef struct {
    uint64_t next;          /* next number to accept; 0 until the sink has given it */
    uint64_t committed;     /* durable up to here */
    uint64_t hi;            /* highest number known to exist */
    uint64_t uncommitted_b; /* bytes accepted but not committed */
    bool closed;            /* hi is the END */
} agg_position_t;

/* When to ask whom. */
typedef struct {
    bool sink_closed; /* the END is committed: nothing can follow */
    bool asked;       /* OPEN was sent since the last resync */
    /* more was known to exist at the last take, so the time to the next one counts as a gap
     * between arrivals */
    bool more_was_due;
    uint32_t replays;   /* since the last take */
    int64_t gap_p99_ns; /* of gaps between arrivals while more is due */
    int64_t taken_at_ns;
    int64_t replay_at_ns; /* earliest time of the next REPLAY */
    int64_t open_at_ns;   /* earliest time of the next OPEN */
    int64_t open_wait_ns;
    int64_t pending_at_ns; /* when the oldest uncommitted record was taken */
    int64_t commit_at_ns;  /* deadline for progress of committed */
    int64_t commit_wait_ns;
} agg_stream_times_t;

struct agg_stream {
    crema_id_t stream_id;
    agg_run_t *run;
    agg_position_t at;
    agg_stream_times_t times;
    /* The sender's heartbeat interval H: the window is clamp(max(2 H, 1.5 x p99 of the gaps
     * between arrivals), 0.5 s, 60 s). */
    int64_t interval_ns;

    agg_session_t *session; /* of the agent that listed it last; NULL: known only from the sink */
    agg_member_t *member;   /* that agent in the run */
    uint64_t table;         /* number of the agent's table that listed it */
    uint32_t user;          /* 1 + uid of the owner of its segments, from its agent; 0: unknown */
    crema_id_t key;         /* of the agent that brought it first */
    bool has_key;           /* `key` is set */

    bool is_listed;       /* its writer is in the list of writers */
    bool only_listed;     /* known only from that list so far */
    uint64_t listed_last; /* its last number according to that list; 0: unknown */

    crema_link_t of_session, of_run;
    crema_link_t ack;   /* in session->acks */
    crema_link_t due;   /* in agg_core.due */
    crema_link_t open;  /* in agg_core.opens */
    crema_link_t watch; /* in agg_core.watched: passing time may make something due */
};

/* ---- the stream alone */

CREMA_MUST_CHECK crema_err_t agg_stream_new(const crema_id_t *stream_id, agg_run_t *run,
                                            agg_stream_t **ret_self);
void agg_stream_destroy(agg_stream_t **self_p);

/* From the sender's table, or DATA's header: numbers up to hi exist; `closed`: hi is the END. hi
 * never decreases. */
void agg_stream_announce(agg_stream_t *self, uint64_t hi, bool closed, int64_t now_ns);

/* Numbers first..last in `bytes` have arrived. CREMA_OK: those from *ret_from on are new and
 * must go to the sink. CREMA_EREPEAT: all known, or beyond the END. CREMA_EGAP: they do not
 * continue the stream. CREMA_EAGAIN: the sink has not given the position yet. CREMA_EINVAL:
 * impossible numbers. Only with CREMA_OK anything is accepted. */
CREMA_MUST_CHECK crema_err_t agg_stream_take(agg_stream_t *self, uint64_t first, uint64_t last,
                                             uint64_t bytes, int64_t now_ns, uint64_t *ret_from);

/* COMMITTED: everything up to `committed` is durable; `closed`: that is the END. */
void agg_stream_commit(agg_stream_t *self, uint64_t committed, bool closed, int64_t now_ns);

/* STATE: continue at max(committed + 1, sink_next); sink_next is after what the sink holds
 * unsynced, 0 if not given. A stream that knows its next number treats it as COMMITTED. */
void agg_stream_on_state(agg_stream_t *self, uint64_t committed, uint64_t sink_next, bool closed,
                         int64_t now_ns);

/* After NACK or a restart of the sink: accepted but uncommitted records count as lost; ask the
 * sink. */
void agg_stream_resync(agg_stream_t *self, int64_t now_ns);

/* What to do now. It is considered done; the next answer comes after its own wait. `sink_takes`:
 * false while the sink is silent or full, since then no sender is asked. */
agg_stream_due_t agg_stream_due(agg_stream_t *self, bool sink_takes, int64_t now_ns);

agg_stream_state_t agg_stream_state(const agg_stream_t *self);

/* The state as a wire row; recv_next is 0 while UNKNOWN or SYNCING. */
crema_stream_row_t agg_stream_row(const agg_stream_t *self);

/* True if the sender's END is known and committed. */
bool agg_stream_is_done(const agg_stream_t *self);

/* Records that are known to exist and not committed. */
uint64_t agg_stream_missing(const agg_stream_t *self);

/* Records that its writer reported and that can no longer come. */
uint64_t agg_stream_short(const agg_stream_t *self);

/* ---- streams of the aggregator */

/* The agent lists it or sent a record of it. */
void agg_stream_attach(agg_core_t *core, agg_stream_t *self, agg_session_t *session,
                       int64_t now_ns);
/* After every change of its position, which was `was`. */
void agg_stream_follow(agg_core_t *core, agg_stream_t *self, const agg_position_t *was,
                       int64_t now_ns);
/* It is known not only from a list of writers any more. */
void agg_stream_unmark_listed(agg_core_t *core, agg_stream_t *self);
/* Discards what the list of writers reported of it, and the stream if it is otherwise unknown. */
void agg_stream_unlist(agg_core_t *core, agg_stream_t *self, int64_t now_ns);
void agg_stream_forget(agg_core_t *core, agg_stream_t *self);
bool agg_session_awaits_commit(const agg_session_t *session);
void agg_streams_on_tick(agg_core_t *core, int64_t now_ns);

#endif
