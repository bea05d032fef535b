/* crema_metrics - the one table of what the summaries say: name, unit, formula. Pure: constant
 * data.
 *
 * The sink writes a row of /summary/workflow for every metric here and for nothing else; likewise
 * the categories of /summary/waterfall, the names in /summary/bottlenecks and the variables of
 * /grid. What each of them means and cannot tell is in docs/metrics.md, which a test compares with
 * these tables. */
#ifndef CREMA_METRICS_H
#define CREMA_METRICS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;
    const char *units;
    const char *formula; /* /summary/workflow.definition */
} crema_metric_t;

/* All metrics, numbered in their order; NULL behind the last one. */
size_t crema_metric_count(void);
const crema_metric_t *crema_metric(size_t i);

/* Number of the metric of that name; crema_metric_count() if there is none. */
size_t crema_metric_find(const char *name);

/* Rows of /summary/waterfall, in their order; the last one is the residual. X(ID, name) */
#define CREMA_WATERFALL(X)                                                                         \
    X(PROCESSOR_CPU, "processor_cpu")                                                              \
    X(PROCESSOR_NONCPU, "processor_noncpu")                                                        \
    X(USER_METERED, "user_metered")                                                                \
    X(RUNTIME, "runtime")                                                                          \
    X(PREPROCESS, "preprocess")                                                                    \
    X(MERGE, "merge")                                                                              \
    X(OVERHEAD, "overhead")                                                                        \
    X(UNATTRIBUTED, "unattributed")                                                                \
    X(WASTED, "wasted")                                                                            \
    X(OTHER_RUNS, "other_runs")                                                                    \
    X(IDLE_STARTUP, "idle_startup")                                                                \
    X(IDLE_DRAINED, "idle_drained")                                                                \
    X(IDLE_PAUSED, "idle_paused")                                                                  \
    X(IDLE_PREPROCESS, "idle_preprocess")                                                          \
    X(IDLE_MERGE, "idle_merge")                                                                    \
    X(IDLE_TAIL, "idle_tail")                                                                      \
    X(IDLE_JOIN, "idle_join")                                                                      \
    X(IDLE_LATENCY, "idle_latency")                                                                \
    X(IDLE_IMBALANCE, "idle_imbalance")                                                            \
    X(IDLE_STARVED, "idle_starved")                                                                \
    X(ABSENT, "absent")                                                                            \
    X(RESIDUAL, "residual")

/* Names in /summary/bottlenecks, and what to try. X(ID, name, advice) */
#define CREMA_BOTTLENECKS(X)                                                                       \
    X(COMPUTE, "compute", "the cores are busy: more of them help; profile process()")              \
    X(GARBAGE, "garbage_collection",                                                               \
      "gc.freeze() after imports, a higher gc.set_threshold(), fewer Python objects")              \
    X(INPUT, "input", "faster storage or a cache nearby; fewer branches; more threads")            \
    X(SERVICE, "service", "ask less often or for more at once; more instances of the service")     \
    X(FILE, "file",                                                                                \
      "write less, or to a local disk; look at what is at the other end of the pipe")              \
    X(LOCK, "lock", "hold the lock for less, or give each thread data of its own")                 \
    X(SLEEP, "sleep", "take the sleep out, or shorten what is retried")                            \
    X(NATIVE, "native",                                                                            \
      "the task's helper threads compute: one task per as many cores as they use")                 \
    X(CHILDREN, "children", "child processes compute: as many tasks at once as cores for them")    \
    X(PAGE_FAULT, "page_fault",                                                                    \
      "more memory per worker, smaller chunks: pages are read from disk")                          \
    X(WAITING, "waiting", "record with look_interval > 0 to see what is waited for")               \
    X(GIL, "gil", "more workers of one thread each in place of threads")                           \
    X(CORES, "cores", "fewer threads per host, or hosts of your own")                              \
    X(USER, "user_metered", "look at /summary/per_activity")                                       \
    X(CHUNKS, "chunk_overhead",                                                                    \
      "larger chunks, or larger files where each chunk is one; fewer branches in the schema")      \
    X(OPENING, "opening",                                                                          \
      "faster storage or a cache nearby; larger chunks, so that each file is opened less often")   \
    X(SLOW_SERVERS, "slow_servers", "read from another server, or a cache in front of this one")   \
    X(SLOW_FILES, "slow_files", "read these files from another site, or copy them again")          \
    X(SLOW_WORKERS, "slow_workers",                                                                \
      "look at these hosts: other load, slow disks, a throttled CPU; leave them out")              \
    X(SPILL, "spill", "more memory per worker, smaller chunks or outputs")                         \
    X(SERIALIZE, "serialization", "smaller outputs")                                               \
    X(PREPROCESS, "preprocessing", "keep the preprocessed fileset")                                \
    X(MERGE, "merging", "smaller outputs: fewer bins, fewer histograms")                           \
    X(OVERHEAD, "other_tasks", "look at /summary/per_task_prefix")                                 \
    X(WASTED, "wasted", "look at status in /chunks and events in /membership")                     \
    X(STARTUP, "startup",                                                                          \
      "import dask.dataframe, which DaskExecutor needs, before the block; "                        \
      "preprocess earlier; use one pool; start workers later")                                     \
    X(DRAINED, "drained", "close the collector right after the analysis")                          \
    X(TAIL, "tail", "smaller chunks, the largest files first; look at /summary/stragglers")        \
    X(SCALING, "scaling", "wait for the workers before the run, or shorten start-up")              \
    X(STARVED, "starved", "more chunks than threads; submit everything at once")                   \
    X(LATENCY, "latency",                                                                          \
      "larger chunks; a scheduler with a core of its own; look at event_loop_lag_s")               \
    X(IMBALANCE, "imbalance", "smaller chunks; let Dask steal work and queue it at the scheduler") \
    X(MEMORY_GROWTH, "memory_growth",                                                              \
      "look for what process() keeps from chunk to chunk: caches, lists, open files")

#define CREMA_WATERFALL_ID(id, name) CREMA_WATERFALL_##id,
typedef enum { CREMA_WATERFALL(CREMA_WATERFALL_ID) CREMA_WATERFALL_COUNT } crema_waterfall_t;
#undef CREMA_WATERFALL_ID
extern const char *const crema_waterfall_names[CREMA_WATERFALL_COUNT];

#define CREMA_BOTTLENECK_ID(id, name, advice) CREMA_BOTTLENECK_##id,
typedef enum { CREMA_BOTTLENECKS(CREMA_BOTTLENECK_ID) CREMA_BOTTLENECK_COUNT } crema_bottleneck_t;
#undef CREMA_BOTTLENECK_ID
typedef struct {
    const char *name, *advice;
} crema_word_t;
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
    bool per_worker;       /* (worker, time), else (time) */
} crema_grid_variable_t;
extern const crema_grid_variable_t crema_grid_variables[CREMA_GRID_COUNT];

#endif
