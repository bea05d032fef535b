/* sink_commit - what is durable of each stream: the only authority on duplicates and gaps. Pure:
 * events in, decisions out; no file, clock or log.
 *
 * A PUT that continues at `next` is appended; leading records that are already there are cut off;
 * a PUT that leaves a gap is refused. The watermark `written` moves when a frame is in the
 * journal, `committed` only when an fdatasync that began after it has succeeded:
 * sink_commit_durable(). A closed stream keeps its final number as long as its run is kept; a
 * freed run accepts no record of any stream. */
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
    SINK_PUT_APPEND, /* write its records from `skip` on */
    SINK_PUT_REPEAT, /* all of it is already there: acknowledge again */
    SINK_PUT_GAP,    /* first_seq > next: NACK(next) */
    SINK_PUT_CLOSED, /* behind the stream's END: refuse and count */
} sink_put_t;

CREMA_MUST_CHECK crema_err_t sink_commit_new(size_t streams_max, sink_commit_t **ret_self);
void sink_commit_destroy(sink_commit_t **self_p);

/* Recovery: a stream as the journal holds it; it once held records up to `hi`, of which those after
 * `committed` may be gone. CREMA_EPROTO, also from the next function: the stream belongs to another
 * run; only the count of strays has changed. */
CREMA_MUST_CHECK crema_err_t sink_commit_restore(sink_commit_t *self, const crema_id_t *stream_id,
                                                 const crema_id_t *run_id, uint64_t committed,
                                                 uint64_t hi, bool closed);

/* Recovery: records first..last as found in the journal. Numbers behind a hole do not count as
 * committed, but are remembered as the highest number seen. */
CREMA_MUST_CHECK crema_err_t sink_commit_restore_put(sink_commit_t *self,
                                                     const crema_id_t *stream_id,
                                                     const crema_id_t *run_id, uint64_t first,
                                                     uint64_t last, bool closed);

/* Records after `committed` can no longer be read, so they are expected again. None of the
 * stream may be pending. */
void sink_commit_lower(sink_commit_t *self, const crema_id_t *stream_id, uint64_t committed);

/* What was restored of the run's streams is in its journal, and committed only when the sync that
 * begins now has succeeded. Nothing of it may be pending. */
void sink_commit_renew(sink_commit_t *self, const crema_id_t *run_id);
/* It has failed: the streams of the run are removed, whatever waits. */
void sink_commit_drop(sink_commit_t *self, const crema_id_t *run_id);

/* Removes the streams of a run from memory. False: some of them are not yet synced or
 * acknowledged, and all stay. */
bool sink_commit_forget(sink_commit_t *self, const crema_id_t *run_id);

/* Decides on records first_seq..first_seq+n-1. *ret_skip: how many leading records to leave out;
 * *ret_next: the number expected before this PUT. CREMA_ELIMIT: too many streams. */
CREMA_MUST_CHECK crema_err_t sink_commit_put(sink_commit_t *self, const crema_id_t *stream_id,
                                             const crema_id_t *run_id, uint64_t first_seq,
                                             uint32_t n, sink_put_t *ret_decision,
                                             uint32_t *ret_skip, uint64_t *ret_next);

/* Records up to last_seq are in the journal, not yet synced. `closed`: last_seq is the END. */
void sink_commit_written(sink_commit_t *self, const crema_id_t *stream_id, uint64_t last_seq,
                         bool closed);

/* An fdatasync of the run's journal begins; the one before it has ended. */
void sink_commit_begin(sink_commit_t *self, const crema_id_t *run_id);
/* That fdatasync has succeeded: what was written before it began is committed. */
void sink_commit_durable(sink_commit_t *self, const crema_id_t *run_id);

/* Rows to acknowledge, at most `max`: streams whose committed number has moved or was asked for
 * since the last call. */
size_t sink_commit_take(sink_commit_t *self, crema_stream_row_t *rows, size_t max);

/* Include the stream in the next sink_commit_take() (after OPEN or a repeated PUT). */
void sink_commit_ask(sink_commit_t *self, const crema_id_t *stream_id);

/* committed, next and closed of one stream; false and a row of zeros if the stream is unknown. */
bool sink_commit_get(const sink_commit_t *self, const crema_id_t *stream_id,
                     crema_stream_row_t *ret_row);

/* Calls `fn` for every stream of the run. `hi` in the row is the highest number that was ever in
 * the journal. */
void sink_commit_each(const sink_commit_t *self, const crema_id_t *run_id,
                      void (*fn)(void *context, const crema_stream_row_t *row), void *context);
/* Number of the run's streams in memory. */
size_t sink_commit_count(const sink_commit_t *self, const crema_id_t *run_id);

typedef struct {
    uint64_t streams, appended, repeats, gaps, uncommitted;
    uint64_t strays; /* times a journal held a stream of another run */
} sink_commit_stats_t;
sink_commit_stats_t sink_commit_stats(const sink_commit_t *self);

#endif
