/* sink_summary - computes the tables under /summary and the other tables that only a final file
 * has. Pure: rows from facts, in memory.
 *
 * Every published metric has a row in /summary/workflow. If its inputs are missing it has no
 * value and the status unavailable, never a silent zero; if it depends on records of a partial
 * run its status is incomplete. */
#ifndef SINK_SUMMARY_H
#define SINK_SUMMARY_H

#include "crema_utf8.h"
#include "sink_budget.h"
#include "sink_facts.h"
#include "sink_model.h"
#include "sink_stats.h"
#include "sink_tables.h"

/* Sums over the counted attempts and the window, named as in the formulas. */
typedef struct {
    double W, A, N, cap; /* wall seconds, thread-seconds, mean number of threads, capacity */
    double E, P, C, B;   /* events, seconds of process(), CPU seconds, bytes read; NaN unknown */
    double open, gc;     /* seconds of opening and of garbage collection */
    double noncpu;       /* non-CPU seconds of the processor's tasks; NaN unknown */
    int64_t n;           /* counted attempts */
    bool no_cpu, no_bytes, no_open, no_process, no_gc; /* unknown for some attempt */
} sink_totals_t;

/* Sums over counted attempts, of the run, a worker, a dataset or a pass. */
typedef struct {
    int64_t chunks;
    sink_sum_t events, bytes_b, wall_s, open_s, cpu_s, gc_s;
} sink_tally_t;
/* -1 if there were values but none was known. */
int64_t sink_tally_int(const sink_sum_t *sum);

typedef struct {
    sink_tally_t counted;
    int64_t rss_peak_b;
    size_t n_scores; /* counted attempts that the model predicts */
} sink_worker_sum_t;

typedef struct {
    sink_tally_t counted;
    int64_t files; /* with a counted attempt */
} sink_dataset_sum_t;

typedef struct {
    sink_tally_t counted;
    int64_t attempts, t_start_ns, t_end_ns;
    double wasted_s;
} sink_pass_sum_t;

/* What one pass over the chunks adds up. */
typedef struct {
    sink_totals_t totals;
    int64_t by_status[CREMA_CHUNK_PARTIAL + 1]; /* attempts */
    int64_t superseded;                         /* returned a result, and are not counted */
    int64_t rss_peak_b;                         /* 0: unknown */
    double longest_s;                           /* of a counted attempt; NaN: none */
    sink_sum_t compressed_b, uncompressed_b;    /* of the counted ones with both */
    sink_sum_t requests, requested_b;           /* of the counted ones with both */
    sink_sum_t growth_b_per_event;              /* of the process, by a counted one */
    double steady_events;                       /* in the steady window */
    sink_worker_sum_t *workers;                 /* by row of /dict/worker */
    sink_dataset_sum_t *datasets;               /* by row of /dict/dataset */
    size_t n_datasets;
    sink_pass_sum_t *passes; /* over the input, by number from 1 */
    size_t n_passes;         /* the highest number and one more */
} sink_sums_t;

typedef struct {
    sink_tables_t *tables; /* receives the rows */
    const sink_decoder_t *run;
    const sink_facts_t *facts;
    const sink_budget_t *budget;
    const sink_model_t *model;
    bool partial;            /* the verdict is PARTIAL */
    const sink_sums_t *sums; /* set by sink_summary_fill() */
} sink_summary_t;

CREMA_MUST_CHECK crema_err_t sink_summary_sum(const sink_summary_t *self, sink_sums_t *ret_sums);
void sink_sums_clear(sink_sums_t *self);

/* Computes all of them. */
CREMA_MUST_CHECK crema_err_t sink_summary_fill(const sink_summary_t *self);

/* The tables one by one, of which the sums are known. */
CREMA_MUST_CHECK crema_err_t sink_summary_workflow(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_workers(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_prefixes(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_activities(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_datasets(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_sections(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_wasted(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_passes(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_split(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_waterfall(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_bottlenecks(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_monitor(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_efficiency(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_models(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_completeness(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_limits(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_counts(const sink_summary_t *self);
CREMA_MUST_CHECK crema_err_t sink_summary_columns(sink_tables_t *tables);

/* Copies a text into a column of a row, as much of it as fits. */
#define SINK_TEXT(column, text) ((void)crema_utf8_fit(text, column, sizeof(column)))
#define SINK_NAME(column, name) ((void)crema_utf8_fit_name(name, column, sizeof(column)))

/* a / b, NaN unless b is positive. */
double sink_ratio(double a, double b);

/* The parallel efficiency and its factors (POP, elastic form): scheduling is the largest useful
 * share of a worker, load balance the rest. A worker that was present for less than half of the
 * average says nothing about the scheduling of the run. */
typedef struct {
    double pe, lb, sched_e, alloc_e;
} sink_pop_t;
sink_pop_t sink_summary_pop(const double *useful_s, const double *present_s, size_t n,
                            double alloc_s, double cap_s);

#endif
