/* sink_diagnosis - the rules by which measured seconds become causes, in the order of what they cost.
 * Pure: arithmetic on numbers, no rows.
 *
 * Every rule and every constant of a rule is here and in sink_diagnosis.c; what they are applied to is measured elsewhere (sink_budget, sink_bottleneck, sink_slow).
 * SINK_DIAGNOSIS_RULES is their version and stands in each file: change it with them. tests/diagnosis proves them on simulated runs with planted causes. */
#ifndef SINK_DIAGNOSIS_H
#define SINK_DIAGNOSIS_H

#include "crema_metrics.h"
#include "sink_budget.h"
#include "sink_queue.h"
#include "sink_slow.h"

#define SINK_DIAGNOSIS_RULES "crema-diagnosis/3"

/* A loss of this share of the capacity comes before compute, which is no loss. */
#define SINK_LOSS_MATTERS 0.2

/* Without any look at the GIL, threads are taken to wait for it if their process wants no more cores than this. */
#define SINK_GIL_CORES 1.2

/* What a task may cost its thread in waiting for it: more than that is latency. */
#define SINK_TASK_PRICE_S 0.02

/* When a file or worker is slow: see sink_slow.h. */
#define SINK_SLOW_SCORE 4.5
#define SINK_SLOW_RATIO 1.25
#define SINK_SLOW_CHUNKS 8

/* Seconds of the run that the budget does not have. */
typedef struct {
    double chunk_s, chunk_noncpu_s, open_s; /* of counted attempts whose CPU is known */
    size_t n_chunks;                        /* of these */
    double gc_s;
    sink_range_t gil_s;         /* behind the GIL */
    sink_range_t cores_s;       /* without a core; lo goes with gil_s.hi */
    bool cores_known;           /* the kernel told how long threads waited for one */
    sink_range_t opening_share; /* of the time without CPU: in opening, not in process() */
    double wait_pays; /* by how much tasks would be shorter for each second less of waiting */
    sink_slow_t files, workers;
    double missing_s; /* threads of killed workers, afterwards */
    size_t n_tasks;
} sink_measured_t;

typedef struct {
    double s; /* thread-seconds; all causes sum to the capacity less the residual */
    double saving_s, lo,
        hi;         /* by how much the run would be shorter; bounds NaN if no chunk was recorded */
    bool estimated; /* follows from a rule, not from a meter */
    bool known;
    int also; /* another cause that explains the same seconds as well; -1 none */
} sink_cause_t;

typedef struct {
    sink_cause_t causes[CREMA_BOTTLENECK_COUNT];
    crema_bottleneck_t order[CREMA_BOTTLENECK_COUNT]; /* what costs most first */
} sink_diagnosis_t;

sink_diagnosis_t sink_diagnosis_make(const sink_measured_t *measured, const sink_budget_t *budget);

#endif
