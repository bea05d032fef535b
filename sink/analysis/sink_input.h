/* sink_input - what of the input is not in the result, as far as attempts at chunks show it.
 * Pure: memory only. */
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

/* Chunks in coffea's report; -1: nobody gave it. */
int64_t sink_input_reported(const sink_decoder_t *run);

/* *ret_seen: chunks with an attempt, each pass on its own, and chunks that the user's checkpointer had. *ret_dropped: as many as *ret_n,
 * which the caller frees, by file; none where the analysis raised: then every chunk that failed is told of by that. */
CREMA_MUST_CHECK crema_err_t sink_input_new(const sink_facts_t *facts, const sink_decoder_t *run,
                                            int64_t *ret_seen, sink_dropped_t **ret_dropped,
                                            size_t *ret_n);

#endif
