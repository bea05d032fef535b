/* agg_rollup - the live split of one run: seconds on each side of the time budget, summed from
 * activity totals in transit. Pure: records in, sums out.
 *
 * Totals are cumulative, so only the last one of each key counts: a lost or repeated one is
 * corrected by the next. Only seconds metered while a task executes are taken, since transfers
 * overlap them. Names travel once per stream, before the rows that use them; names sent before
 * this aggregator started are unknown here, and rows that refer to them are counted and skipped.
 * The sink computes the final file from all records; this is for watching a run.
 *
 * Memory grows with what was received and has a limit: beyond it nothing new is learned, and the
 * sums are unknown from then on. */
#ifndef AGG_ROLLUP_H
#define AGG_ROLLUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_record.h"

typedef struct agg_rollup agg_rollup_t;

typedef struct {
    size_t streams_max;
    size_t names_max;  /* distinct names of the run */
    size_t keys_max;   /* (stream, worker, span, prefix, activity) with a total */
    size_t locals_max; /* names of one kind in one stream: their numbers are below it */
    uint64_t bytes_max;
} agg_rollup_limits_t;

#define AGG_ROLLUP_LIMITS                                                                          \
    ((agg_rollup_limits_t){                                                                        \
        .streams_max = 1u << 16,                                                                   \
        .names_max = 1u << 16,                                                                     \
        .keys_max = 1u << 18,                                                                      \
        .locals_max = 4096,                                                                        \
        .bytes_max = 64u << 20,                                                                    \
    })

CREMA_MUST_CHECK crema_err_t agg_rollup_new(agg_rollup_limits_t limits, agg_rollup_t **ret_self);
void agg_rollup_destroy(agg_rollup_t **self_p);

/* Until the next call it may take at most so many bytes more, and never more than bytes_max
 * together. Without a call only the latter. */
void agg_rollup_allow(agg_rollup_t *self, uint64_t more_b);

/* Sets the collector's list of prefixes; existing sums are reassigned. CREMA_ELIMIT: no room for
 * it; sums are unknown from then on. */
CREMA_MUST_CHECK crema_err_t agg_rollup_set_prefixes(agg_rollup_t *self, size_t n,
                                                     char *const *prefixes);

/* Takes dictionaries and activity batches and ignores everything else. Never fails: at a limit
 * it counts and continues. */
void agg_rollup_take(agg_rollup_t *self, const crema_id_t *stream_id, const crema_record_t *record);

/* Seconds of one side. */
double agg_rollup_side_s(const agg_rollup_t *self, crema_side_t side);
/* Runtime, preprocessing, merging and other tasks: time spent besides the processor. */
double agg_rollup_overhead_s(const agg_rollup_t *self);

typedef struct {
    uint64_t names, keys;
    uint64_t nameless;  /* rows with names that are unknown here */
    uint64_t not_taken; /* names and rows skipped at a limit or for lack of memory */
    uint64_t bytes;     /* of memory, about */
} agg_rollup_stats_t;
agg_rollup_stats_t agg_rollup_stats(const agg_rollup_t *self);

/* False if rows or names were skipped, so that the sums are too small. */
bool agg_rollup_is_whole(const agg_rollup_t *self);

#endif
