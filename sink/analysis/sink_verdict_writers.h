/* sink_verdict_writers - compares the collector's list of writers with the streams in the
 * journal. No socket, file or clock. */
#ifndef SINK_VERDICT_WRITERS_H
#define SINK_VERDICT_WRITERS_H

#include <stdbool.h>

#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_reasons.h"

/* Adds reasons for what the list shows to be missing, and the missing records to *loss. Without
 * a list there are no reasons. In a damaged journal a writer without a stream may have recorded. */
CREMA_MUST_CHECK crema_err_t sink_verdict_take_writers(const sink_decoder_t *run,
                                                       const sink_facts_t *facts, bool is_damaged,
                                                       sink_reasons_t *reasons, int64_t *loss);
/* True if there is a complete list that names each writer's stream: without a reason from the
 * list, everything written is present. */
bool sink_verdict_names_all_writers(const sink_decoder_t *run);
/* True for reasons derived from the list. The aggregator derives them too; records that arrived
 * since may invalidate them. */
bool sink_verdict_is_by_list(const char *code);

#endif
