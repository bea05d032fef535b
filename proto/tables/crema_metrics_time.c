/* Metrics of workers, activities and efficiency. */
#include "crema_metrics_list.h"

#define MEMBERS "`/membership`"
#define SAMPLES "`/worker_samples`"
#define ACTIVITIES "`/activities`"
#define TASKS "`/task_events`, " MEMBERS

static const crema_metric_t c_workers[] = {
    {"time_avg_workers", "count", "integral of the step function of workers / W",
     "Exact on change points; bounds from the uncertainty of their times", MEMBERS, ""},
    {"time_avg_workers_raw", "count", "trapezoids through the change points / W",
     "As the reference computes it: a count that jumps is a step, no slope (2, 4, 4 at 0, 1, 2 s "
     "gives 3.5 for 3.0)",
     "`/worker_count`", "Time-Averaged Workers"},
    {"avg_workers", "count", "mean of the count at 1000 even instants",
     "A cross-check of time_avg_workers", "`/worker_count`", "Average Workers"},
    {"peak_workers", "count", "most workers at one time",
     "Short-lived ones too, which sampling misses", MEMBERS, "Peak Workers"},
    {"total_cores", "count", "A/W: threads, time-averaged", "", MEMBERS, ""},
    {"total_cores_raw", "count", "time_avg_workers_raw x cores_per_worker",
     "As the reference computes it; wrong for unequal workers", "`/worker_count`", "Total Cores"},
    {"peak_cores", "count", "most threads at one time", "", MEMBERS, ""},
    {"cores_per_worker", "count", "thread-seconds / worker-seconds",
     "A mean where workers differ: `/dict/worker.nthreads`", MEMBERS, "Cores per Worker"},
    {"avg_memory_per_worker", "B", "resident memory, each sample weighted by the time to the next",
     "The interpreter and libraries are in it", SAMPLES, ""},
    {"avg_memory_per_worker_raw", "B", "mean of all samples of resident memory",
     "As the reference computes it: a worker that was sampled more often counts more", SAMPLES,
     "Avg Memory per Worker"},
    {"peak_memory_per_worker", "B", "highest resident memory in samples and chunks",
     "What rose and fell between two looks is unseen", SAMPLES ", `/chunks.rss_peak_b`",
     "Peak Memory per Worker"},
    {"memory_utilization_avg", "%", "resident memory / limit, time-weighted",
     "Unavailable where workers have no limit", SAMPLES, "Memory Utilization %"},
    {"memory_utilization_min", "%", "smallest sample of resident memory / limit", "", SAMPLES,
     "Memory Utilization %"},
    {"memory_utilization_max", "%", "largest sample of resident memory / limit",
     "Over 80 %: spilling or a kill is near", SAMPLES, "Memory Utilization %"},
    {"slot_busy_pct", "%", "100 x thread-seconds running tasks / A",
     "Busy slots, also when the task waits", TASKS, ""},
    {"cpu_utilization_raw", "%", "mean of 100 processing / nthreads over the scheduler's samples",
     "As the reference computes it: no CPU is in it, and a task counts from when it is assigned, "
     "queued or not, so it exceeds 100",
     SAMPLES, "CPU Utilization %, CPU occupancy"},
    {"cpu_pct_avg", "%", "CPU of the worker process, of one core, time-weighted",
     "All threads, native ones too; over 100 with several", SAMPLES, "real CPU % (planned)"},
    {"cpu_wait_seconds", "s", "growth of cpu_wait_s in the samples, all workers",
     "Threads that run tasks were ready to run and found no core: the machine is "
     "oversubscribed, or a container's quota "
     "is used up. Unavailable where the kernel does not say",
     SAMPLES, ""},
};

static const crema_metric_t c_fine[] = {
    {"cpu_time_seconds", "s", "Dask's thread-cpu, all tasks", "Native threads are not in it",
     ACTIVITIES, "`cpu_time_seconds`, thread-cpu"},
    {"io_time_seconds", "s", "Dask's thread-noncpu, all tasks",
     "Wall less CPU less what users metered: input, but also waiting, the GIL, page faults and "
     "native threads",
     ACTIVITIES, "`io_time_seconds`, thread-noncpu"},
    {"disk_read_bytes", "B", "Dask's disk-read, bytes",
     "Spilled data read back; nothing of the input files", ACTIVITIES, "Disk Read"},
    {"disk_read_seconds", "s", "Dask's disk-read, seconds", "", ACTIVITIES, ""},
    {"disk_write_bytes", "B", "Dask's disk-write, bytes", "Data spilled", ACTIVITIES, "Disk Write"},
    {"disk_write_seconds", "s", "Dask's disk-write, seconds", "", ACTIVITIES, ""},
    {"total_bytes_memory_read_dask", "B", "Dask's memory-read, bytes",
     "Dependency values found in memory; nothing of the input files", ACTIVITIES,
     "Memory Read (Dask Spans)"},
    {"memory_read_count", "count", "Dask's memory-read, count", "", ACTIVITIES, ""},
    {"spill_cache_hit_fraction", "1", "memory-read / (memory-read + disk-read), bytes",
     "1: more memory would gain nothing", ACTIVITIES, "cache hits"},
    {"compression_time_seconds", "s", "Dask's compress", "", ACTIVITIES, "compress"},
    {"decompression_time_seconds", "s", "Dask's decompress",
     "Of spilled and sent data, not of baskets", ACTIVITIES, "decompress"},
    {"serialization_time_seconds", "s", "Dask's serialize", "", ACTIVITIES, "serialize"},
    {"deserialization_time_seconds", "s", "Dask's deserialize", "", ACTIVITIES, "deserialize"},
    {"total_compression_overhead_seconds", "s", "compress + decompress",
     "coffea's own lz4 of outputs runs in the task: thread-cpu", ACTIVITIES,
     "Total Compression Overhead"},
    {"total_serialization_overhead_seconds", "s", "serialize + deserialize",
     "coffea's own pickling runs in the task: thread-cpu", ACTIVITIES,
     "Total Serialization Overhead"},
    {"processor_cpu_time_seconds", "s", "thread CPU of the processor's tasks",
     "Whole tasks, opening included; by task identity, not by class name. From chunks where Dask "
     "metered nothing",
     ACTIVITIES, "Processor CPU Time"},
    {"processor_noncpu_time_seconds", "s",
     "the rest of the processor's tasks, user-metered seconds included",
     "See io_time_seconds for what is in it", ACTIVITIES, "Processor Non-CPU Time"},
    {"processor_cpu_percentage", "%", "100 cpu / (cpu + noncpu) of the processor's tasks", "",
     ACTIVITIES, "Processor CPU Percentage"},
    {"processor_noncpu_percentage", "%", "100 noncpu / (cpu + noncpu) of the processor's tasks", "",
     ACTIVITIES, "Processor Non-CPU Percentage"},
    {"overhead_cpu_time_seconds", "s", "thread CPU of all other tasks",
     "Preprocessing, merging, the rest. Failures are not in it: waterfall `wasted`", ACTIVITIES,
     "Overhead CPU Time"},
    {"overhead_noncpu_time_seconds", "s", "the rest of all other tasks", "", ACTIVITIES,
     "Overhead Non-CPU Time"},
    {"transfer_time_seconds", "s", "Dask's gather-dep and get-data, seconds",
     "Runs beside tasks, so it is never added to the budget: read it against idle_latency and "
     "idle_starved",
     ACTIVITIES, "gather-dep, get-data"},
};

static const crema_metric_t c_efficiency[] = {
    {"core_occupancy", "1", "(opening + process() of counted attempts) / A",
     "Share of the threads that worked on chunks. 1 also when all of it waits. The reference "
     "counts process() alone and "
     "prints 5 % for a NanoAOD v15 run with every core busy",
     "`/chunks`, " MEMBERS, ""},
    {"core_efficiency", "1", "P/A",
     "As the reference has it, with the right number of threads: process() alone",
     "`/chunks`, " MEMBERS, "CPU Efficiency, `core_efficiency`"},
    {"cpu_efficiency", "1", "C/A", "Share of the threads' time that was thread CPU of chunks",
     "`/chunks`, " MEMBERS, "CPU Efficiency, with fine metrics"},
    {"cpu_efficiency_raw", "1", "P/(W x total_cores_raw)",
     "As the reference computes it: the occupancy of process() by another count of cores, 1 when "
     "everything waits",
     "`/chunks`, `/worker_count`", "CPU Efficiency"},
    {"speedup", "1", "P/W", "Mean slots in process(): contention raises it. Not a speed-up",
     "`/chunks`", "Speedup Factor, `speedup_factor`"},
    {"mean_busy_slots", "count", "P/W", "The same under a true name", "`/chunks`", ""},
    {"speedup_measured", "1", "N_ref T_ref / T_N",
     "Needs a reference run, so it is never in one file", "two runs", ""},
    {"io_overhead_raw", "1", "noncpu/W", "Up to the number of threads, so no share of anything",
     ACTIVITIES, "I/O Overhead"},
    {"noncpu_fraction_task", "1", "noncpu / (cpu + noncpu) of the processor's tasks", "",
     ACTIVITIES, ""},
    {"noncpu_fraction_alloc", "1", "noncpu/A", "", ACTIVITIES ", " MEMBERS, ""},
    {"efficiency_ratio_raw", "1", "P/W, which is event_rate_wall_clock / event_rate_aggregated",
     "As the reference computes it: 1 is one busy slot, not perfect scaling", "`/chunks`",
     "Efficiency Ratio"},
    {"efficiency_ratio", "1", "P/A", "1: every thread in process() all the time",
     "`/chunks`, " MEMBERS, ""},
    {"straggler_excess_fraction", "1", "sum of max(0, chunk time - (a + b n)) / A",
     "What chunks slower than their size explains have cost",
     "`/summary/stragglers`, `/summary/chunk_model`", ""},
};

const crema_metric_group_t crema_metrics_of_time[3] = {
    CREMA_METRIC_GROUP("Workers and memory", c_workers),
    CREMA_METRIC_GROUP("Dask's fine metrics", c_fine),
    CREMA_METRIC_GROUP("Efficiency", c_efficiency),
};
