/* sink_verdict_writers - what was written, by the collector's list of writers, against the streams that are here.
 * No socket, file or clock. */
#ifndef SINK_VERDICT_WRITERS_H
#define SINK_VERDICT_WRITERS_H

#include <stdbool.h>

#include "sink_decoder.h"
#include "sink_facts.h"
#include "sink_reasons.h"

/* Adds what the list says against the run, and the records that are not here to *loss. A run without a list has nothing against it. */
CREMA_MUST_CHECK crema_err_t sink_verdict_take_writers(const sink_decoder_t *run,
                                                       const sink_facts_t *facts,
                                                       sink_reasons_t *reasons, int64_t *loss);
/* There is a list, all of it is here, and it names each writer by its stream: what it has nothing against is here whole. */
bool sink_verdict_names_all_writers(const sink_decoder_t *run);
/* Reasons that follow from the list. The aggregator finds them as well; what has come since makes them void. */
bool sink_verdict_is_by_list(const char *code);

#endif
