/* sink_attempt - attempts at chunks: the open ones, and the numbering of all of them.
 *
 * A worker writes a PROVISIONAL row when it starts a chunk and a final row with the outcome; an
 * attempt without a final row is lost. */
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
#define SINK_QUALITY_WITH_OPENING 128u

/* True if process() returned: its output is in the analysis result, unless it was superseded. */
static inline bool
sink_chunk_returned(int64_t status)
{
    return status == CREMA_CHUNK_OK || status == CREMA_CHUNK_PARTIAL;
}

typedef struct sink_attempts sink_attempts_t;

/* Memory grows with the attempts that are open at the same time, and with gaps in their numbers.
 * Beyond CREMA_LIMIT_OPEN_ATTEMPTS they are counted in `limits`, which the caller owns, and never
 * opened. */
CREMA_MUST_CHECK crema_err_t sink_attempts_new(crema_limits_t *limits, sink_attempts_t **ret_self);
void sink_attempts_destroy(sink_attempts_t **self_p);

/* The provisional row of attempt `ref` of a stream; a later one replaces an earlier one. */
CREMA_MUST_CHECK crema_err_t sink_attempts_open(sink_attempts_t *self, uint32_t stream, int64_t ref,
                                                const uint8_t *row);

/* The attempt's final row has come. */
CREMA_MUST_CHECK crema_err_t sink_attempts_close(sink_attempts_t *self, uint32_t stream,
                                                 int64_t ref);

/* Iterates over the open attempts in the order they were opened: set *cursor to NULL, call until
 * NULL. */
const uint8_t *sink_attempts_next(const sink_attempts_t *self, const void **cursor);

/* Numbers the passes over each chunk and, within each pass, the attempts by start time. Of the
 * attempts of a pass that returned, all but the last to end are marked as superseded: the same
 * task of the same submission was computed again because its result was lost. Another submission
 * is another pass. `rows` are those of /chunks in final order; `streams` those of /dict/stream;
 * `dir` is for arrays that are larger than memory. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number(sink_rows_t *rows, const sink_rows_t *streams,
                                                  const char *dir);

/* Numbers the executions of each Dask task by start time; an event without a start (a lost
 * result) is not an execution. `rows` are those of /task_events in final order. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number_tasks(sink_rows_t *rows, const char *dir);

#endif
