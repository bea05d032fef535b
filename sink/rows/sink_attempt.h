/* sink_attempt - attempts at chunks: those that are still open, and the numbering of all of them.
 *
 * A worker says PROVISIONAL when it takes a chunk up and again what came of it; what never got its second word is a lost attempt. */
#ifndef SINK_ATTEMPT_H
#define SINK_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_limit.h"
#include "sink_rows.h"

/* Bits of /chunks.quality. */
#define SINK_QUALITY_CLOCK 1u
#define SINK_QUALITY_NO_CPU 2u
#define SINK_QUALITY_NO_BYTES 4u
#define SINK_QUALITY_SUPERSEDED 8u
#define SINK_QUALITY_RECONSTRUCTED 16u

/* process() returned: its output is in the result of the analysis, unless it was superseded. */
static inline bool
sink_chunk_returned(int64_t status)
{
    return status == CREMA_CHUNK_OK || status == CREMA_CHUNK_PARTIAL;
}

typedef struct sink_attempts sink_attempts_t;

/* Attempts beyond CREMA_LIMIT_OPEN_ATTEMPTS are counted in `limits`, which the caller keeps, and never open. */
CREMA_MUST_CHECK crema_err_t sink_attempts_new(crema_limits_t *limits, sink_attempts_t **ret_self);
void sink_attempts_destroy(sink_attempts_t **self_p);

/* The provisional row of attempt `ref` of a stream; a later one replaces an earlier one. */
CREMA_MUST_CHECK crema_err_t sink_attempts_open(sink_attempts_t *self, uint32_t stream, int64_t ref,
                                                const uint8_t *row);

/* Its final row has come. */
CREMA_MUST_CHECK crema_err_t sink_attempts_close(sink_attempts_t *self, uint32_t stream,
                                                 int64_t ref);

/* The open attempts one by one, in the order they were opened: set *cursor to 0, then call until NULL. */
const uint8_t *sink_attempts_next(const sink_attempts_t *self, size_t *cursor);

/* Counts an attempt whose final row arrived, and returns how many these are at its chunk in its submission; 0 if that cannot be told. */
uint32_t sink_attempts_arrived(sink_attempts_t *self, const crema_chunks_row_t *row);

/* Numbers the passes over each chunk, and in each pass the attempts by their start. Every attempt of a pass that returned, but the last to
 * end, is marked as superseded: it is the same task of the same submission, computed again because its result was lost. Another
 * submission is another pass. `rows` are those of /chunks, in final order; `streams` those of /dict/stream. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number(sink_rows_t *rows, const sink_rows_t *streams);

/* Numbers the executions of each Dask task by their start; a result that was lost (no start is known) is none. `rows` are those of
 * /task_events, in final order. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number_tasks(sink_rows_t *rows);

#endif
