/* sink_slow - files and workers whose chunks take longer than their size explains. Pure:
 * arithmetic on facts and model.
 *
 * A chunk's time is compared with a + b n of its dataset. A file (or worker) is slow if the median
 * residual of its chunks deviates by SINK_SLOW_SCORE of its standard deviations and the chunks
 * took at least SINK_SLOW_RATIO of the prediction; or if that holds of process() alone, whose
 * excess must be as large a part of the whole. Workers are judged first, then servers
 * (sink_server); files only by what other workers read of them, from other servers. With fewer
 * than SINK_SLOW_CHUNKS chunks there is no judgement. */
#ifndef SINK_SLOW_H
#define SINK_SLOW_H

#include "sink_model.h"

typedef struct {
    size_t n;               /* number of slow files or workers */
    uint32_t worst;         /* row in its dictionary of the one that cost most */
    double ratio;           /* of the worst one: median of time / predicted */
    double cpu_s, noncpu_s; /* time of their chunks beyond the prediction */
    double preprocess_s;    /* of a server: what preprocessing waited for it beyond others */
    /* share of the time in which others had no task that their queues explain */
    double queue_share;
    double tail_s; /* idle threads at the end that waited only for these chunks */
} sink_slow_t;

CREMA_MUST_CHECK crema_err_t sink_slow_find(const sink_facts_t *facts, const sink_model_t *model,
                                            const sink_tables_t *tables, sink_slow_t *ret_workers,
                                            sink_slow_t *ret_servers, sink_slow_t *ret_files);

#endif
