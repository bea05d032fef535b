/* crema_stream - the receiver's half of one stream: which numbers are accepted, what is durable,
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
 * at growing intervals. */
#ifndef CREMA_STREAM_H
#define CREMA_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

#define CREMA_STREAM_STALLED_AFTER 8 /* REPLAYs without an answer */

typedef struct crema_stream crema_stream_t;

typedef enum {
    CREMA_STREAM_UNKNOWN, /* announced; the sink has not been asked */
    CREMA_STREAM_SYNCING, /* the sink was asked for committed; what arrives meanwhile is dropped */
    CREMA_STREAM_LIVE,
    CREMA_STREAM_GAP,     /* records from next on exist and were requested again from the sender */
    CREMA_STREAM_STALLED, /* requested eight times in vain: only occasional probes */
    CREMA_STREAM_CLOSED,  /* committed up to its END */
} crema_stream_state_t;

typedef enum {
    CREMA_STREAM_WAIT,       /* nothing to do */
    CREMA_STREAM_ASK_SINK,   /* OPEN */
    CREMA_STREAM_ASK_SENDER, /* REPLAY from next */
} crema_stream_due_t;

CREMA_MUST_CHECK crema_err_t crema_stream_new(const crema_id_t *stream_id, const crema_id_t *run_id,
                                              crema_stream_t **ret_self);
void crema_stream_destroy(crema_stream_t **self_p);

/* The sender's heartbeat interval H: the window is clamp(max(2 H, 1.5 x p99 of the gaps between
 * arrivals), 0.5 s, 60 s). */
void crema_stream_set_interval(crema_stream_t *self, int64_t interval_ns);

/* From the sender's table, or DATA's header: numbers up to hi exist; `closed`: hi is the END. hi
 * never decreases. */
void crema_stream_announce(crema_stream_t *self, uint64_t hi, bool closed, int64_t now_ns);

/* Numbers first..last in `bytes` have arrived. CREMA_OK: those from *ret_from on are new and
 * must go to the sink. CREMA_EREPEAT: all known, or beyond the END. CREMA_EGAP: they do not
 * continue the stream. CREMA_EAGAIN: the sink has not given the position yet. CREMA_EINVAL:
 * impossible numbers. Only with CREMA_OK anything is accepted. */
CREMA_MUST_CHECK crema_err_t crema_stream_take(crema_stream_t *self, uint64_t first, uint64_t last,
                                               uint64_t bytes, int64_t now_ns, uint64_t *ret_from);

/* COMMITTED: everything up to `committed` is durable; `closed`: that is the END. */
void crema_stream_commit(crema_stream_t *self, uint64_t committed, bool closed, int64_t now_ns);

/* STATE: continue at max(committed + 1, sink_next); sink_next is after what the sink holds
 * unsynced, 0 if not given. A stream that knows its next number treats it as COMMITTED. */
void crema_stream_on_state(crema_stream_t *self, uint64_t committed, uint64_t sink_next,
                           bool closed, int64_t now_ns);

/* After NACK or a restart of the sink: accepted but uncommitted records count as lost; ask the
 * sink. */
void crema_stream_resync(crema_stream_t *self, int64_t now_ns);

/* What to do now. It is considered done; the next answer comes after its own wait. `sink_takes`:
 * false while the sink is silent or full, since then no sender is asked. */
crema_stream_due_t crema_stream_due(crema_stream_t *self, bool sink_takes, int64_t now_ns);

crema_stream_state_t crema_stream_state(const crema_stream_t *self);

/* The state as a wire row; recv_next is 0 while UNKNOWN or SYNCING. */
crema_stream_row_t crema_stream_row(const crema_stream_t *self);

/* Bytes accepted but not committed. */
uint64_t crema_stream_uncommitted_b(const crema_stream_t *self);

/* True if the sender's END is known and committed. */
bool crema_stream_is_done(const crema_stream_t *self);

#endif
