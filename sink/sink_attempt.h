/* sink_attempt - attempts at chunks: those that are still open, and the numbering of all of them.
 *
 * A worker says PROVISIONAL when it takes a chunk up and again what came of it; what never got its second word is a lost attempt. */
#ifndef SINK_ATTEMPT_H
#define SINK_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_rows.h"

/* Attempts of one run. */
#define SINK_ATTEMPTS_MAX (1u << 26)

/* Bits of /chunks.quality. */
#define SINK_QUALITY_CLOCK 1u
#define SINK_QUALITY_NO_CPU 2u
#define SINK_QUALITY_NO_BYTES 4u
#define SINK_QUALITY_SUPERSEDED 8u
#define SINK_QUALITY_RECONSTRUCTED 16u

/* Values of /chunks.status. PARTIAL: process() returned, having seen fewer events than the entry range has. */
enum { SINK_CHUNK_OK, SINK_CHUNK_ERROR, SINK_CHUNK_CANCELLED, SINK_CHUNK_LOST, SINK_CHUNK_PARTIAL };

/* process() returned: its output is in the result of the analysis, unless it was superseded. */
static inline bool
sink_chunk_returned(int64_t status)
{
    return status == SINK_CHUNK_OK || status == SINK_CHUNK_PARTIAL;
}

typedef struct sink_attempts sink_attempts_t;

CREMA_MUST_CHECK crema_err_t sink_attempts_new(sink_attempts_t **ret_self);
void sink_attempts_destroy(sink_attempts_t **self_p);

/* The provisional row of attempt `ref` of a stream; a later one replaces an earlier one. CREMA_ELIMIT: too many attempts. */
CREMA_MUST_CHECK crema_err_t sink_attempts_open(sink_attempts_t *self, uint32_t stream, int64_t ref,
                                                const uint8_t *row);

/* Its final row has come. */
CREMA_MUST_CHECK crema_err_t sink_attempts_close(sink_attempts_t *self, uint32_t stream,
                                                 int64_t ref);

/* The open attempts one by one, in the order they were opened: set *cursor to 0, then call until NULL. */
const uint8_t *sink_attempts_next(const sink_attempts_t *self, size_t *cursor);

/* Counts an attempt at a chunk whose final row arrived, and returns how many these are; 0 if that cannot be told. */
uint32_t sink_attempts_arrived(sink_attempts_t *self, int64_t chunk_id);

/* Numbers the attempts at each chunk by their start and marks every attempt that returned, but the last to end, as superseded: what it
 * computed was lost and had to be computed again. `rows` are those of /chunks, in final order. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number(sink_rows_t *rows);

/* Numbers the executions of each Dask task by their start; a result that was lost (no start is known) is none. `rows` are those of
 * /task_events, in final order. */
CREMA_MUST_CHECK crema_err_t sink_attempts_number_tasks(sink_rows_t *rows);

#endif
