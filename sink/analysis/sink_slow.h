/* sink_slow - files and workers whose chunks take longer than their size explains.
 * Pure: arithmetic on facts and model.
 *
 * A chunk's time is compared with a + b n of its dataset. The median of the residuals of a file's (a worker's) chunks is far off if it is so by SINK_SLOW_SCORE of its own
 * standard deviations, and matters if the chunks took SINK_SLOW_RATIO as long as predicted. Workers come first; files are judged by what other workers read of
 * them. Of fewer than SINK_SLOW_CHUNKS chunks nothing is said. */
#ifndef SINK_SLOW_H
#define SINK_SLOW_H

#include "sink_model.h"

typedef struct {
    size_t n;               /* files or workers that are slow */
    uint32_t worst;         /* row of its dictionary, of the one that cost most */
    double ratio;           /* of the worst: median of time / predicted */
    double cpu_s, noncpu_s; /* what their chunks took beyond the prediction */
    double queue_share;     /* of the time that others had nothing and these a queue: due to that */
    double tail_s;          /* free threads at the end that waited for these chunks only */
} sink_slow_t;

CREMA_MUST_CHECK crema_err_t sink_slow_find(const sink_facts_t *facts, const sink_model_t *model,
                                            sink_slow_t *ret_workers, sink_slow_t *ret_files);

#endif
