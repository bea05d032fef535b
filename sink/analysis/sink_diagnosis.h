/* sink_diagnosis - the rules that turn measured seconds into causes, ordered by cost. Pure:
 * arithmetic on numbers, no rows.
 *
 * All rules and their constants are here and in sink_diagnosis.c; their inputs are measured
 * elsewhere (sink_budget, sink_bottleneck, sink_slow). SINK_DIAGNOSIS_RULES is their version,
 * which each file records: increase it with every change. tests/diagnosis checks the rules on
 * simulated runs with planted causes. */
#ifndef SINK_DIAGNOSIS_H
#define SINK_DIAGNOSIS_H

#include "crema_metrics.h"
#include "sink_budget.h"
#include "sink_growth.h"
#include "sink_queue.h"
#include "sink_slow.h"

#define SINK_DIAGNOSIS_RULES "crema-diagnosis/9"

/* A loss of this share of the time in the processor's tasks ranks before compute, which is not a
 * loss. */
#define SINK_LOSS_MATTERS 0.2

/* Clocks of threads count microseconds. What is less is what rounding leaves of a difference, and
 * no time. */
#define SINK_MEASURABLE_S 1e-6

/* Waiting per task that scheduling may cost a thread; more is latency. */
#define SINK_TASK_PRICE_S 0.02

/* Thresholds for slow files and workers: see sink_slow.h. */
#define SINK_SLOW_SCORE 4.5
#define SINK_SLOW_RATIO 1.25
#define SINK_SLOW_CHUNKS 8

/* Seconds of the run that the budget does not contain. */
typedef struct {
    double chunk_s, chunk_noncpu_s, open_cpu_s; /* of counted attempts with known CPU time */
    size_t n_chunks;                            /* of these */
    double gc_s;                                /* in process() */
    /* By crema_look_state_t, of the same attempts: what they waited for in process(); the GIL and
     * a core in opening too. */
    sink_range_t waits[CREMA_LOOK_COUNT];
    double opening_s;                  /* other waiting in opening */
    double open_gil_s;                 /* of the GIL's */
    double others_s[CREMA_LOOK_COUNT]; /* looks at tasks that are neither chunks nor coffea's */
    bool opening_known; /* of every counted attempt it is known when process() began */
    bool cores_known;   /* the kernel reported how long threads waited for one */
    bool seen;          /* threads of chunks were looked at */
    double wait_pays;   /* how much shorter tasks would be per second of waiting saved */
    sink_slow_t files, servers, workers;
    double missing_s; /* threads of killed workers, after they were killed */
    size_t n_tasks;
    sink_growth_t growth; /* costs no seconds yet: it comes first where memory is soon full */
} sink_measured_t;

typedef struct {
    double s; /* thread-seconds; all causes sum to the capacity minus the residual */
    double saving_s, lo,
        hi;         /* how much shorter the run would be; bounds NaN if no chunk was recorded */
    bool estimated; /* derived by a rule, not metered */
    bool known;
    int also; /* another cause that explains the same seconds equally well; -1: none */
} sink_cause_t;

typedef struct {
    sink_cause_t causes[CREMA_BOTTLENECK_COUNT];
    crema_bottleneck_t order[CREMA_BOTTLENECK_COUNT]; /* most expensive first */
} sink_diagnosis_t;

sink_diagnosis_t sink_diagnosis_make(const sink_measured_t *measured, const sink_budget_t *budget);

#endif
