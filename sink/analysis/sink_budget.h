/* sink_budget - where the thread-seconds of a run went. Pure: arithmetic on the facts.
 *
 * Busy seconds come from Dask's own metering of each task, idle ones from the times tasks began
 * and ended. These are two sources, so the difference, the residual, is a real check. A worker
 * without Dask metering (no fine metrics, or killed before its last totals were written) is
 * accounted from its chunks and task events. Seconds of the runtime (waiting for the executor,
 * serializing, spilling) pass while a slot looks idle: they are subtracted from the idle
 * classes, first from those in which tasks were waiting. Of a task that fails Dask meters the
 * whole, so its runtime is what exceeds the times of the task. */
#ifndef SINK_BUDGET_H
#define SINK_BUDGET_H

#include "sink_facts.h"

typedef struct {
    double cpu_s, noncpu_s, user_s; /* processor: thread CPU, the rest, what the user metered */
    double side_cpu_s[CREMA_SIDE_COUNT], side_noncpu_s[CREMA_SIDE_COUNT]; /* other tasks, by side */
    double runtime_s;                                                     /* of which: */
    double spill_s, serialize_s;
    double wasted_s;
    /* of which: the runtime of tasks that failed, beyond their times on slots */
    double failed_runtime_s;
    bool metered;   /* Dask's totals are present */
    bool knows_cpu; /* the CPU time of the processor's tasks is known, or there were none */
} sink_spent_t;

typedef struct {
    double wall_s, cap_s, alloc_s, absent_s;
    bool outside_dask;                      /* an executor made its processes when it needed them */
    double absent_before_s, absent_after_s; /* of absent_s, the run's first and last task */
    sink_spent_t all;
    sink_spent_t *workers; /* by row of /dict/worker */
    double idle_s[SINK_IDLE_COUNT];
    double punctual_s[SINK_IDLE_COUNT]; /* of JOIN, by class, as in sink_sweep_t */
    double residual_s;
    double transfer_s;  /* not part of the budget */
    bool cpu_unknown;   /* an attempt had no CPU time */
    bool any_processor; /* tasks of the processor ran */
} sink_budget_t;

CREMA_MUST_CHECK crema_err_t sink_budget_new(const sink_facts_t *facts, sink_budget_t **ret_self);
void sink_budget_destroy(sink_budget_t **self_p);

/* Both columns of a side: preprocessing, merging or other tasks. */
double sink_spent_side_s(const sink_spent_t *spent, crema_side_t side);

/* False: CPU time is unknown; processor_cpu is 0 and its seconds count as non-CPU. */
bool sink_budget_knows_cpu(const sink_budget_t *self);

/* Idle seconds of a class. Workers that were there when the first task began did not come late:
 * theirs before their own first task are in the class that would apply after it, not in JOIN. */
double sink_budget_class_s(const sink_budget_t *self, sink_idle_t idle);

/* True if the residual is more of the capacity than measuring explains. */
bool sink_budget_is_open(double residual_s, double cap_s);

/* Sum of all idle classes. */
double sink_budget_idle_s(const sink_budget_t *self);

#endif
