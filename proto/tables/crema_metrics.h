/* crema_metrics - the one table of what the summaries say: name, unit, formula, meaning, source, limits.
 * Pure: constant data.
 *
 * The sink writes a row of /summary/workflow for every metric here and for nothing else, and docs/metrics.md is printed from it, so that file and page say
 * the same. Likewise the categories of /summary/waterfall, the names in /summary/bottlenecks and the variables of /grid. */
#ifndef CREMA_METRICS_H
#define CREMA_METRICS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;
    const char *units;
    const char *formula;   /* also /summary/workflow.definition */
    const char *meaning;   /* what it says, and what it cannot say */
    const char *source;    /* where its inputs are in the file */
    const char *reference; /* what roastcoffea and coffea-metrics call it; "" nothing */
} crema_metric_t;

typedef struct {
    const char *title;
    const crema_metric_t *metrics;
    size_t n;
} crema_metric_group_t;

/* Letters of the formulas, in Markdown. */
extern const char crema_metric_notation[];

/* Group i, or NULL behind the last one. */
const crema_metric_group_t *crema_metric_group(size_t i);

/* All metrics of all groups, numbered in their order. */
size_t crema_metric_count(void);
const crema_metric_t *crema_metric(size_t i);

/* Number of the metric of that name; crema_metric_count() if there is none. */
size_t crema_metric_find(const char *name);

/* A word of some column of names, and what it stands for. */
typedef struct {
    const char *name;
    const char *meaning;
    const char *limits; /* what it cannot tell */
    const char *advice; /* what to try; bottlenecks only */
} crema_word_t;

/* Rows of /summary/waterfall, in their order; the last one is the residual. */
typedef enum {
    CREMA_WATERFALL_PROCESSOR_CPU,
    CREMA_WATERFALL_PROCESSOR_NONCPU,
    CREMA_WATERFALL_USER_METERED,
    CREMA_WATERFALL_RUNTIME,
    CREMA_WATERFALL_PREPROCESS,
    CREMA_WATERFALL_MERGE,
    CREMA_WATERFALL_OVERHEAD,
    CREMA_WATERFALL_UNATTRIBUTED,
    CREMA_WATERFALL_WASTED,
    CREMA_WATERFALL_OTHER_RUNS,
    CREMA_WATERFALL_IDLE_STARTUP,
    CREMA_WATERFALL_IDLE_DRAINED,
    CREMA_WATERFALL_IDLE_PAUSED,
    CREMA_WATERFALL_IDLE_PREPROCESS,
    CREMA_WATERFALL_IDLE_MERGE,
    CREMA_WATERFALL_IDLE_TAIL,
    CREMA_WATERFALL_IDLE_JOIN,
    CREMA_WATERFALL_IDLE_LATENCY,
    CREMA_WATERFALL_IDLE_IMBALANCE,
    CREMA_WATERFALL_IDLE_STARVED,
    CREMA_WATERFALL_ABSENT,
    CREMA_WATERFALL_RESIDUAL,
    CREMA_WATERFALL_COUNT,
} crema_waterfall_t;
extern const crema_word_t crema_waterfall_words[CREMA_WATERFALL_COUNT];

/* Names in /summary/bottlenecks. */
typedef enum {
    CREMA_BOTTLENECK_COMPUTE,
    CREMA_BOTTLENECK_GARBAGE,
    CREMA_BOTTLENECK_INPUT,
    CREMA_BOTTLENECK_GIL,
    CREMA_BOTTLENECK_CORES,
    CREMA_BOTTLENECK_USER,
    CREMA_BOTTLENECK_CHUNKS,
    CREMA_BOTTLENECK_OPENING,
    CREMA_BOTTLENECK_SLOW_FILES,
    CREMA_BOTTLENECK_SLOW_WORKERS,
    CREMA_BOTTLENECK_SPILL,
    CREMA_BOTTLENECK_SERIALIZE,
    CREMA_BOTTLENECK_PREPROCESS,
    CREMA_BOTTLENECK_MERGE,
    CREMA_BOTTLENECK_OVERHEAD,
    CREMA_BOTTLENECK_WASTED,
    CREMA_BOTTLENECK_STARTUP,
    CREMA_BOTTLENECK_DRAINED,
    CREMA_BOTTLENECK_TAIL,
    CREMA_BOTTLENECK_SCALING,
    CREMA_BOTTLENECK_STARVED,
    CREMA_BOTTLENECK_LATENCY,
    CREMA_BOTTLENECK_IMBALANCE,
    CREMA_BOTTLENECK_COUNT,
} crema_bottleneck_t;
extern const crema_word_t crema_bottleneck_words[CREMA_BOTTLENECK_COUNT];

/* Variables of /grid: those of each worker, then the sums over workers. */
typedef enum {
    CREMA_GRID_CPU_PCT,
    CREMA_GRID_RSS_B,
    CREMA_GRID_MEMORY_PCT,
    CREMA_GRID_SLOT_BUSY_PCT,
    CREMA_GRID_BUSY_THREADS,
    CREMA_GRID_EXECUTING,
    CREMA_GRID_EVENT_RATE,
    CREMA_GRID_BYTES_RATE,
    CREMA_GRID_PER_WORKER, /* number of variables per worker */
    CREMA_GRID_N_WORKERS = CREMA_GRID_PER_WORKER,
    CREMA_GRID_N_THREADS,
    CREMA_GRID_BUSY_THREADS_TOTAL,
    CREMA_GRID_EVENT_RATE_TOTAL,
    CREMA_GRID_DATA_RATE_TOTAL,
    CREMA_GRID_COUNT,
} crema_grid_t;

typedef struct {
    const char *name, *units;
    const char *long_name; /* its meaning, as the file has it */
    const char *formula;   /* of the value of one step */
    const char *source;
    const char *reference;
    bool per_worker; /* (worker, time), else (time) */
} crema_grid_variable_t;
extern const crema_grid_variable_t crema_grid_variables[CREMA_GRID_COUNT];

#endif
