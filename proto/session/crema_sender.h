/* crema_sender - the streams of one spool as their sender sees them: where each stands, which one sends next, what may be freed.
 * Pure: crema_session owns the connection, this owns the numbers. Go-back-N, a window for each stream.
 *
 *     row:  1 ... committed ... recv_next ... next ... hi
 *                 may be freed  taken there   to send  in the spool
 *
 * A stream sends only while it is *placed*: the receiver has said, in this session, at which number to go on. */
#ifndef CREMA_SENDER_H
#define CREMA_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

typedef struct crema_sender crema_sender_t;

CREMA_MUST_CHECK crema_err_t crema_sender_new(size_t streams_max, crema_sender_t **ret_self);
void crema_sender_destroy(crema_sender_t **self_p);

/* A stream as the spool holds it; *ret_new if it was not known. CREMA_ELIMIT: streams_max are held already. */
CREMA_MUST_CHECK crema_err_t crema_sender_hold(crema_sender_t *self, const crema_stream_row_t *row,
                                               bool *ret_new);
void crema_sender_forget(crema_sender_t *self, const crema_id_t *stream_id);

/* A new session begins: no stream is placed until the receiver says so. */
void crema_sender_begin_session(crema_sender_t *self);
/* WELCOME's word on a stream: committed as it is there now, even if it is less than before (another store), and go on behind it. */
void crema_sender_welcome(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns);
/* ACK's word: committed grows; recv_next 0 unplaces (the receiver asks its sink), else places or confirms. */
void crema_sender_confirm(crema_sender_t *self, const crema_stream_row_t *row, int64_t now_ns);
/* REPLAY: go on at from_seq. False if there is no such stream. */
bool crema_sender_rewind(crema_sender_t *self, const crema_id_t *stream_id, uint64_t from_seq,
                         int64_t now_ns);
/* Streams whose recv_next did not move for `patience_ns` while more was sent go back to it; returns how many. */
size_t crema_sender_rewind_stale(crema_sender_t *self, int64_t patience_ns, int64_t now_ns);

/* The stream whose turn it is, or false. It is set aside until crema_sender_sent() or crema_sender_retry() brings it back. */
bool crema_sender_turn(crema_sender_t *self, crema_stream_row_t *ret_row, uint64_t *ret_next);
/* n numbers went out from first_seq on; n = 0 sets the stream aside until the next retry. */
void crema_sender_sent(crema_sender_t *self, const crema_id_t *stream_id, uint64_t first_seq,
                       uint64_t n, int64_t now_ns);
void crema_sender_retry(crema_sender_t *self);

/* A stream whose committed part may be freed: *ret_committed = min(committed, hi), told once each time it grows. */
bool crema_sender_trim(crema_sender_t *self, crema_id_t *ret_stream_id, uint64_t *ret_committed);

size_t crema_sender_count(const crema_sender_t *self);
/* Rows from..from+n-1 of the table, n <= max, in an order that stands while no stream is added or forgotten. */
size_t crema_sender_rows(const crema_sender_t *self, size_t from, crema_stream_row_t *rows,
                         size_t max);

/* Streams with records that are not committed. */
size_t crema_sender_undelivered(const crema_sender_t *self);
/* Any stream without its END. */
bool crema_sender_has_open(const crema_sender_t *self);
uint64_t crema_sender_uncommitted_records(const crema_sender_t *self);
/* Records that were committed since this object was made. */
uint64_t crema_sender_committed_records(const crema_sender_t *self);

#endif
