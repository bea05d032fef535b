/* sink_commit - what is durable: the only truth about duplicates and gaps.
 * Pure: events in, decisions out; no file, clock or log.
 *
 * A PUT that continues at next is appended; what was already taken is cut off; a gap is refused. Watermarks move to `written` when the
 * frame is in the journal and to `committed` only when a fdatasync after it succeeded: sink_commit_durable(). A closed stream keeps its
 * final number as long as its run is kept; a freed run takes nothing, whatever the stream. */
#ifndef SINK_COMMIT_H
#define SINK_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

typedef struct sink_commit sink_commit_t;

typedef enum {
    SINK_PUT_APPEND, /* write records skip..n of it */
    SINK_PUT_REPEAT, /* all of it is there already: acknowledge again */
    SINK_PUT_GAP,    /* first_seq > next: NACK(next) */
    SINK_PUT_CLOSED, /* beyond the stream's END: refuse, count */
} sink_put_t;

CREMA_MUST_CHECK crema_err_t sink_commit_new(size_t streams_max, sink_commit_t **ret_self);
void sink_commit_destroy(sink_commit_t **self_p);

/* Recovery: a stream as the journal holds it. CREMA_EPROTO, also from the two below: it is known under another run; nothing changed but the
 * count of strays. */
CREMA_MUST_CHECK crema_err_t sink_commit_restore(sink_commit_t *self, const crema_id_t *stream_id,
                                                 const crema_id_t *run_id, uint64_t committed,
                                                 bool closed);

/* Recovery: records first..last as they lie in the journal. Numbers behind a hole do not count, but are remembered as its highest. */
CREMA_MUST_CHECK crema_err_t sink_commit_restore_put(sink_commit_t *self,
                                                     const crema_id_t *stream_id,
                                                     const crema_id_t *run_id, uint64_t first,
                                                     uint64_t last, bool closed);
/* Recovery: the journal once held records up to `hi`, which may be gone. */
CREMA_MUST_CHECK crema_err_t sink_commit_restore_hi(sink_commit_t *self,
                                                    const crema_id_t *stream_id,
                                                    const crema_id_t *run_id, uint64_t hi);

/* Records behind `committed` of a stream can no longer be read: they are expected once more. Nothing of it may be pending. */
void sink_commit_lower(sink_commit_t *self, const crema_id_t *stream_id, uint64_t committed);

/* The streams of one run leave the memory. False: something of them is not synced or not acknowledged yet, and they stay. */
bool sink_commit_forget(sink_commit_t *self, const crema_id_t *run_id);

/* Decides on records first_seq..first_seq+n-1. *ret_skip: leading records to leave out; *ret_next: next number expected before this PUT.
 * CREMA_ELIMIT: too many streams. */
CREMA_MUST_CHECK crema_err_t sink_commit_put(sink_commit_t *self, const crema_id_t *stream_id,
                                             const crema_id_t *run_id, uint64_t first_seq,
                                             uint32_t n, sink_put_t *ret_decision,
                                             uint32_t *ret_skip, uint64_t *ret_next);

/* Records up to last_seq are in the journal, not yet synced. `closed`: last_seq is the END. */
void sink_commit_written(sink_commit_t *self, const crema_id_t *stream_id, uint64_t last_seq,
                         bool closed);

/* A fdatasync that began after the last sink_commit_written() succeeded. */
void sink_commit_durable(sink_commit_t *self);

/* Streams whose committed moved, or was asked for again, since the last call: rows to acknowledge, at most `max`. */
size_t sink_commit_take(sink_commit_t *self, crema_stream_row_t *rows, size_t max);

/* Mark for the next take (OPEN, repeated PUT). */
void sink_commit_ask(sink_commit_t *self, const crema_id_t *stream_id);

/* committed, next, closed of one stream; false and a row with zeros if unknown. */
bool sink_commit_get(const sink_commit_t *self, const crema_id_t *stream_id,
                     crema_stream_row_t *ret_row);

/* Calls `fn` for every stream of the run, or for every one if run_id is NULL. In its row `hi` is the highest number that was ever in the
 * journal. */
void sink_commit_each(const sink_commit_t *self, const crema_id_t *run_id,
                      void (*fn)(void *context, const crema_stream_row_t *row), void *context);
/* How many streams of the run are in memory. */
size_t sink_commit_count(const sink_commit_t *self, const crema_id_t *run_id);

typedef struct {
    uint64_t streams, tombstones, appended, repeats, gaps, beyond_end, uncommitted;
    uint64_t strays; /* times that a journal brought a stream of another run */
} sink_commit_stats_t;
sink_commit_stats_t sink_commit_stats(const sink_commit_t *self);

#endif
