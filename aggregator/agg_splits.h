/* agg_splits - the live splits of all open runs: assigns records to roll-ups and reports changed
 * sums. Pure: messages in, sums out; time is an argument. */
#ifndef AGG_SPLITS_H
#define AGG_SPLITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_rollup.h"
#include "crema_error.h"
#include "crema_wire.h"

typedef struct agg_splits agg_splits_t;

typedef struct {
    crema_id_t run_id;
    agg_rollup_t *rollup;
    bool news;       /* its sums may have moved since agg_splits_news() gave it */
    uint64_t events; /* see agg_splits_count_events() */
    double shown_processor_s, shown_overhead_s; /* what agg_splits_news() gave so far */
    bool done;                                  /* sealed or failed: forgotten when it is quiet */
    int64_t heard_ns;                           /* monotonic time of the last record or message */
} agg_live_run_t;

CREMA_MUST_CHECK crema_err_t agg_splits_new(size_t runs_max, agg_splits_t **ret_self);
void agg_splits_destroy(agg_splits_t **self_p);

/* RUN_OPEN, RUN_END, RUN_SEAL: takes the list of prefixes if there is one. */
void agg_splits_on_message(agg_splits_t *self, const crema_run_msg_t *msg, int64_t now_ns);

/* From now on the events of chunks that succeeded are counted, as often as they pass by. */
void agg_splits_count_events(agg_splits_t *self);

/* The records of a PUT; `arena` is for decoding them. */
void agg_splits_on_put(agg_splits_t *self, const crema_data_t *put, crema_arena_t *arena,
                       int64_t now_ns);

/* The run has its file. */
void agg_splits_on_done(agg_splits_t *self, const crema_id_t *run_id);

/* Change of a run's sums since the last report; negative if its prefixes were reassigned. */
typedef struct {
    crema_id_t run_id;
    double processor_s, overhead_s;
} agg_split_news_t;

/* The next run whose sums have changed; false: none. */
bool agg_splits_news(agg_splits_t *self, agg_split_news_t *ret_news);
/* NULL: unknown run. */
const agg_live_run_t *agg_splits_find(const agg_splits_t *self, const crema_id_t *run_id);
/* Iterates over all runs: set *cursor to 0, call until NULL. */
const agg_live_run_t *agg_splits_next(const agg_splits_t *self, size_t *cursor);

/* Forgets runs that are done and were quiet for ten minutes, and all that were quiet for a day. */
void agg_splits_sweep(agg_splits_t *self, int64_t now_ns);

/* Runs and records that were skipped: a limit was met, or they were not decodable. */
uint64_t agg_splits_not_taken(const agg_splits_t *self);

#endif
