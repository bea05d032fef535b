/* crema_sender - moves the cursors of a spool's streams: which one sends next, from where, and
 * what may be freed. Pure: crema_session manages the connection, this module the numbers.
 * Go-back-N with one window per stream.
 *
 * A stream belongs to its spool, which reports when it has grown (crema_sender_follow) and before
 * it is gone (crema_sender_forget). It sends only after the receiver has given its position in
 * this session. */
#ifndef CREMA_SENDER_H
#define CREMA_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_spool_stream.h"
#include "crema_wire.h"

typedef struct crema_sender crema_sender_t;

CREMA_MUST_CHECK crema_err_t crema_sender_new(size_t streams_max, crema_sender_t **ret_self);
void crema_sender_destroy(crema_sender_t **self_p);

/* A stream is there, or has grown; *ret_new if it was unknown. It is borrowed until it is
 * forgotten. CREMA_ELIMIT: streams_max are followed already. */
CREMA_MUST_CHECK crema_err_t crema_sender_follow(crema_sender_t *self, crema_spool_stream_t *stream,
                                                 bool *ret_new);
/* Clears its cursor; does nothing for a stream that is not followed. */
void crema_sender_forget(crema_sender_t *self, crema_spool_stream_t *stream);

/* A new session begins: the receiver's positions of all streams are unknown. */
void crema_sender_begin_session(crema_sender_t *self);
/* The row of a WELCOME: `committed` as the receiver has it now, even if lower than before
 * (another store); sending continues after it. */
void crema_sender_welcome(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns);
/* The row of an ACK: committed grows; recv_next 0 makes the position unknown (the receiver asks
 * its sink), otherwise it is set or confirmed. */
void crema_sender_confirm(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns);
/* REPLAY: continue at from_seq. False if the stream is unknown. */
bool crema_sender_rewind(crema_sender_t *self, const crema_id_t *stream_id, uint64_t from_seq,
                         int64_t now_ns);
/* Rewinds streams whose recv_next did not move for `patience_ns` although more was sent; returns
 * how many. */
size_t crema_sender_rewind_stale(crema_sender_t *self, int64_t patience_ns, int64_t now_ns);

/* The stream that sends next, from cursor.next on; NULL: none. It is set aside until
 * crema_sender_sent() or crema_sender_retry(). */
const crema_spool_stream_t *crema_sender_turn(crema_sender_t *self);
/* n numbers from first_seq on were sent; n = 0 sets the stream aside until the next retry. */
void crema_sender_sent(crema_sender_t *self, const crema_id_t *stream_id, uint64_t first_seq,
                       uint64_t n, int64_t now_ns);
void crema_sender_retry(crema_sender_t *self);

/* A stream of which more may be freed than its spool was asked to; NULL: none. *ret_committed: up
 * to this number. */
const crema_spool_stream_t *crema_sender_trim(crema_sender_t *self, uint64_t *ret_committed);

size_t crema_sender_count(const crema_sender_t *self);
/* Adds rows from..from+n-1 to the table, n <= max, in an order that is stable while no stream is
 * added or forgotten. `owners`: with the users that own the streams' files. */
size_t crema_sender_rows(const crema_sender_t *self, size_t from, size_t max, bool owners,
                         Crema__StreamTable *table);

/* Number of streams with uncommitted records. */
size_t crema_sender_undelivered(const crema_sender_t *self);
/* True if any stream has no END. */
bool crema_sender_has_open(const crema_sender_t *self);
uint64_t crema_sender_uncommitted_records(const crema_sender_t *self);
/* Records committed since this object was created. */
uint64_t crema_sender_committed_records(const crema_sender_t *self);

#endif
