/* sink_input - input that is missing in the result, as far as attempts at chunks show it. Pure:
 * memory only. */
#ifndef SINK_INPUT_H
#define SINK_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_decoder.h"
#include "sink_facts.h"

/* Chunks of a file that failed while the analysis went on without them. */
typedef struct {
    uint32_t file; /* row of /dict/file */
    int64_t chunks, events;
} sink_dropped_t;

/* Number of chunks in coffea's report, or in its results if that is more; -1: neither is known. */
int64_t sink_input_reported(const sink_decoder_t *run);

/* *ret_seen: chunks with an attempt, counted per pass, plus chunks from the user's checkpointer.
 * *ret_dropped: *ret_n entries by file, which the caller frees; none if the analysis raised an
 * exception, which already accounts for every failed chunk. */
CREMA_MUST_CHECK crema_err_t sink_input_new(const sink_facts_t *facts, const sink_decoder_t *run,
                                            int64_t *ret_seen, sink_dropped_t **ret_dropped,
                                            size_t *ret_n);

#endif
