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

typedef struct {
    int64_t reported, recorded; /* chunks of the analysis; reported > recorded: some are missing */
    int64_t reused;             /* results of `recorded` that a later call used once more */
    sink_dropped_t *dropped;    /* by file; none if the analysis raised an exception, which already
                                   accounts for every failed chunk */
    size_t n_dropped;
} sink_input_t;

/* Chunks are counted per pass. Coffea's report also has those that failed, its results have not:
 * whichever misses more decides. Chunks from the user's checkpointer are recorded, and results
 * that Dask kept and used again: as often as a task was submitted again and not computed again.
 * Chunks that began while a Runner was called that ended without a result are not, since neither
 * counts them; unless no plugin says which of them were submitted again. */
CREMA_MUST_CHECK crema_err_t sink_input_take(sink_input_t *self, const sink_facts_t *facts,
                                             const sink_decoder_t *run);
void sink_input_clear(sink_input_t *self);

#endif
