/* /grid: what each worker did in each step of time, and the sums over workers. */
#include "crema_metrics.h"

#define MEAN "mean of the samples in the step"

const crema_grid_variable_t crema_grid_variables[CREMA_GRID_COUNT] = {
    {"cpu_pct", "%", "CPU of the process, of one core", MEAN, "`/worker_samples.cpu_pct`",
     "real CPU % (planned)", true},
    {"rss_b", "B", "resident memory", MEAN, "`/worker_samples.rss_b`", "memory usage per worker",
     true},
    {"memory_pct", "%", "resident memory of the limit", "100 rss / limit, " MEAN,
     "`/worker_samples.rss_b`, `memory_limit_b`", "Memory Utilization % (timeline)", true},
    {"slot_busy_pct", "%", "threads running tasks",
     "100 x thread-seconds running tasks / thread-seconds present", "`/task_events`, `/membership`",
     "CPU Utilization % (timeline; it counts queued tasks too)", true},
    {"busy_threads", "count", "threads running tasks", "thread-seconds running tasks / step",
     "`/task_events`, `/membership`", "", true},
    {"executing", "count", "tasks running, as sampled", MEAN, "`/worker_samples.executing`",
     "active tasks", true},
    {"event_rate", "1/s", "events",
     "events of counted attempts, each spread evenly over its attempt / step", "`/chunks`", "",
     true},
    {"bytes_rate", "B/s", "bytes read",
     "bytes_read_b of counted attempts, each spread evenly over its attempt / step", "`/chunks`",
     "", true},
    {"n_workers", "count", "workers present", "mean of the step function of workers",
     "`/membership`", "worker count timeline", false},
    {"n_threads", "count", "threads present", "mean of n(t)", "`/membership`", "", false},
    {"busy_threads_total", "count", "threads running tasks",
     "mean of busy threads, never more than are there", "`/task_events`, `/membership`",
     "active tasks", false},
    {"event_rate_total", "1/s", "events, all workers", "sum of event_rate over workers",
     "`/chunks`", "throughput timeline", false},
    {"data_rate_total", "B/s", "bytes read, all workers", "sum of bytes_rate over workers",
     "`/chunks`", "throughput timeline", false},
};
