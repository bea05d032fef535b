/* sink_workflow - /summary/workflow: one row per metric of sink/metrics/crema_metrics.h. Pure:
 * memory only.
 *
 * Its parts set values by name in any order; rows are written in the order of the table of
 * metrics. A metric without a value is unavailable. */
#ifndef SINK_WORKFLOW_H
#define SINK_WORKFLOW_H

#include <stdint.h>

#include "sink_summary.h"

/* Flags of a metric. */
#define FROM_RECORDS 0u /* incomplete when the run is */
#define FROM_WINDOW 1u  /* needs no record */
#define IS_ESTIMATE 2u  /* a stand-in for what was not measured */
#define IS_FRACTION                                                                                \
    4u /* a value above 1 (100 for a percentage) is implausible: it is flagged, never clamped */
#define IS_OPEN 8u /* a sum that does not close */

typedef struct {
    double value, lo, hi;
    int64_t n;
    unsigned flags;
} workflow_value_t;

typedef struct {
    const sink_summary_t *in;
    sink_totals_t sum;        /* that of `in` */
    workflow_value_t *values; /* by number of the metric */
    crema_err_t err;          /* the first error; CREMA_EINVAL: a metric that is not in the table */
} workflow_t;

void workflow_put(workflow_t *self, const char *name, double value, int64_t n, unsigned flags);
void workflow_put_bounds(workflow_t *self, const char *name, double value, double lo, double hi,
                         int64_t n, unsigned flags);

/* A number that coffea or the collector reported as a root attribute; NaN if missing. */
double workflow_reported(const workflow_t *self, const char *name);

void workflow_throughput(workflow_t *self);
void workflow_data(workflow_t *self);
void workflow_chunks(workflow_t *self);
void workflow_workers(workflow_t *self);
void workflow_fine(workflow_t *self);
void workflow_efficiency(workflow_t *self);

#endif
