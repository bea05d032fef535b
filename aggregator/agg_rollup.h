/* agg_rollup - the live split of one run: seconds of each side of the time budget, from the activity totals that pass by.
 * Pure: records in, sums out.
 *
 * Totals are cumulative, so only the last one of each key counts: one that is lost or repeated heals with the next. Only seconds metered
 * while a task executes are taken; transfers overlap them. Names travel once a stream, before the rows that use them; what a
 * stream said before this aggregator started is not known here, and rows that refer to it are counted and left out. The final file is
 * computed by the sink from all records: this is what people watch meanwhile. */
#ifndef AGG_ROLLUP_H
#define AGG_ROLLUP_H

#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_record.h"

typedef struct agg_rollup agg_rollup_t;

typedef struct {
    size_t streams_max;
    size_t names_max;  /* different names of the run */
    size_t keys_max;   /* (stream, worker, span, prefix, activity) with a total */
    size_t locals_max; /* names of one kind in one stream */
} agg_rollup_limits_t;

#define AGG_ROLLUP_LIMITS                                                                          \
    ((agg_rollup_limits_t){                                                                        \
        .streams_max = 1u << 16, .names_max = 1u << 16, .keys_max = 1u << 18, .locals_max = 4096})

CREMA_MUST_CHECK crema_err_t agg_rollup_new(agg_rollup_limits_t limits, agg_rollup_t **ret_self);
void agg_rollup_destroy(agg_rollup_t **self_p);

/* The collector's list; what was summed already is assigned anew. */
CREMA_MUST_CHECK crema_err_t agg_rollup_set_prefixes(agg_rollup_t *self, size_t n,
                                                     const char *const *prefixes);

/* Looks at dictionaries and activity batches, passes over everything else. Never refuses: at a limit it counts and goes on. */
void agg_rollup_take(agg_rollup_t *self, const crema_id_t *stream_id, const crema_record_t *record);

/* Seconds of one side. */
double agg_rollup_side_s(const agg_rollup_t *self, crema_side_t side);
/* Runtime, preprocessing, merge and other tasks: what the analysis costs beside the processor. */
double agg_rollup_overhead_s(const agg_rollup_t *self);

typedef struct {
    uint64_t streams, names, keys;
    uint64_t rows;      /* activity rows taken */
    uint64_t nameless;  /* rows whose names are not known here */
    uint64_t not_taken; /* names and rows beyond a limit, or out of memory */
} agg_rollup_stats_t;
agg_rollup_stats_t agg_rollup_stats(const agg_rollup_t *self);

#endif
