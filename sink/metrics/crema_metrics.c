#include "crema_metrics.h"

#include <string.h>

/* Letters of the formulas: docs/metrics.md. */
static const crema_metric_t c_metrics[] = {
    /* Throughput */
    {"wall_time", "s", "W: end minus start of the run"},
    {"data_rate_gbps", "Gbit/s", "8e-9 B/W"},
    {"data_rate_mb_s", "MB/s", "1e-6 B/W"},
    {"event_rate_wall_clock", "kHz", "E/W/1000"},
    {"event_rate_aggregated", "kHz", "E/P/1000"},
    {"event_rate_per_cpu_s", "Hz", "E/C"},
    {"event_rate_core_averaged", "Hz", "E/A"},
    {"event_rate_core_averaged_raw", "Hz", "E/(W x total_cores_raw)"},
    {"total_bytes_read_coffea", "B", "B; coffea's report if no chunk recorded it"},
    {"total_events", "count", "E; coffea's report if no chunk was recorded"},
    /* Data */
    {"wire_rate_gbps", "Gbit/s", "8e-9 bytes into the workers' hosts / W"},
    {"num_columns", "count", "distinct branches touched; coffea's report if none was recorded"},
    {"total_bytes_uncompressed", "B", "sum of bytes_uncompressed_b of counted attempts"},
    {"compression_ratio", "1", "uncompressed / compressed bytes of the branches touched"},
    /* Chunks */
    {"num_chunks", "count", "counted attempts: ok or partial, and not superseded"},
    {"num_chunks_submitted", "count", "chunks of coffea's report"},
    {"num_attempts", "count", "rows of /chunks"},
    {"num_failed_attempts", "count", "attempts with status error or cancelled"},
    {"num_lost_attempts", "count", "attempts whose worker went away"},
    {"num_superseded_attempts", "count",
     "attempts that returned, whose result was lost and computed again"},
    {"total_cpu_time", "s", "P, as coffea's processtime: wall time of process(), not CPU"},
    {"process_wall_time", "s", "P"},
    {"process_cpu_time", "s", "C"},
    {"open_time", "s", "sum of open_s of counted attempts"},
    {"gc_time", "s", "sum of gc_s of counted attempts"},
    {"avg_cpu_time_per_chunk", "s", "P / chunks"},
    {"avg_process_cpu_per_chunk", "s", "C / chunks"},
    {"chunk_wall_min", "s", "shortest process() of counted attempts"},
    {"chunk_wall_mean", "s", "mean process()"},
    {"chunk_wall_p50", "s", "median process()"},
    {"chunk_wall_p95", "s", "95 % quantile of process(), interpolated"},
    {"chunk_wall_max", "s", "longest process()"},
    {"chunk_s_per_event", "s", "P/E"},
    {"chunk_b_per_event", "B", "slope of rss_peak_b on n_events, Theil-Sen"},
    {"chunk_b_per_event_raw", "B", "mean of (rss_end_b - rss_start_b) / n_events"},
    /* Cross-checks */
    {"closure_events_chunks_vs_report", "1", "E / entries of coffea's report"},
    {"closure_bytes_chunks_vs_report", "1", "B / bytesread of coffea's report"},
    {"closure_chunks_chunks_vs_report", "1", "counted attempts / chunks of coffea's report"},
    {"closure_seconds_known_vs_thread_seconds", "1", "seconds that Dask metered in tasks / A"},
    {"closure_cpu_agent_vs_hook", "1",
     "CPU of the worker processes: the agent's figure / the hook's"},
    {"closure_waterfall_residual", "1",
     "residual of the waterfall / Cap; beyond 0.02 the budget does not close"},
    /* Workers and memory */
    {"time_avg_workers", "count", "integral of the step function of workers / W"},
    {"time_avg_workers_raw", "count", "trapezoids through the change points / W"},
    {"avg_workers", "count", "mean of the count at 1000 even instants"},
    {"peak_workers", "count", "most workers at one time"},
    {"total_cores", "count", "A/W: threads, time-averaged"},
    {"total_cores_raw", "count", "time_avg_workers_raw x cores_per_worker"},
    {"peak_cores", "count", "most threads at one time"},
    {"cores_per_worker", "count", "thread-seconds / worker-seconds"},
    {"avg_memory_per_worker", "B", "resident memory, each sample weighted by the time to the next"},
    {"avg_memory_per_worker_raw", "B", "mean of all samples of resident memory"},
    {"peak_memory_per_worker", "B", "highest resident memory in samples and chunks"},
    {"memory_utilization_avg", "%", "resident memory / limit, time-weighted"},
    {"memory_utilization_min", "%", "smallest sample of resident memory / limit"},
    {"memory_utilization_max", "%", "largest sample of resident memory / limit"},
    {"slot_busy_pct", "%", "100 x thread-seconds running tasks / A"},
    {"cpu_utilization_raw", "%", "mean of 100 processing / nthreads over the scheduler's samples"},
    {"cpu_pct_avg", "%",
     "CPU of the worker process, of one core, weighted by the time since the sample before"},
    {"cpu_wait_seconds", "s", "growth of cpu_wait_s in the samples, all workers"},
    /* Dask's fine metrics */
    {"cpu_time_seconds", "s", "Dask's thread-cpu, all tasks"},
    {"io_time_seconds", "s", "Dask's thread-noncpu, all tasks"},
    {"disk_read_bytes", "B", "Dask's disk-read, bytes"},
    {"disk_read_seconds", "s", "Dask's disk-read, seconds"},
    {"disk_write_bytes", "B", "Dask's disk-write, bytes"},
    {"disk_write_seconds", "s", "Dask's disk-write, seconds"},
    {"total_bytes_memory_read_dask", "B", "Dask's memory-read, bytes"},
    {"memory_read_count", "count", "Dask's memory-read, count"},
    {"spill_cache_hit_fraction", "1", "memory-read / (memory-read + disk-read), bytes"},
    {"compression_time_seconds", "s", "Dask's compress"},
    {"decompression_time_seconds", "s", "Dask's decompress"},
    {"serialization_time_seconds", "s", "Dask's serialize"},
    {"deserialization_time_seconds", "s", "Dask's deserialize"},
    {"total_compression_overhead_seconds", "s", "compress + decompress"},
    {"total_serialization_overhead_seconds", "s", "serialize + deserialize"},
    {"processor_cpu_time_seconds", "s", "thread CPU of the processor's tasks"},
    {"processor_noncpu_time_seconds", "s",
     "the rest of the processor's tasks, user-metered seconds included"},
    {"processor_cpu_percentage", "%", "100 cpu / (cpu + noncpu) of the processor's tasks"},
    {"processor_noncpu_percentage", "%", "100 noncpu / (cpu + noncpu) of the processor's tasks"},
    {"overhead_cpu_time_seconds", "s", "thread CPU of all other tasks"},
    {"overhead_noncpu_time_seconds", "s", "the rest of all other tasks"},
    {"transfer_time_seconds", "s", "Dask's gather-dep and get-data, seconds"},
    /* Efficiency */
    {"core_occupancy", "1", "(opening + process() of counted attempts) / A"},
    {"core_efficiency", "1", "P/A"},
    {"cpu_efficiency", "1", "C/A"},
    {"cpu_efficiency_raw", "1", "P/(W x total_cores_raw)"},
    {"speedup", "1", "P/W"},
    {"mean_busy_slots", "count", "P/W"},
    {"speedup_measured", "1", "N_ref T_ref / T_N"},
    {"io_overhead_raw", "1", "noncpu/W"},
    {"noncpu_fraction_task", "1", "noncpu / (cpu + noncpu) of the processor's tasks"},
    {"noncpu_fraction_alloc", "1", "noncpu/A"},
    {"efficiency_ratio_raw", "1", "P/W, which is event_rate_wall_clock / event_rate_aggregated"},
    {"efficiency_ratio", "1", "P/A"},
    {"straggler_excess_fraction", "1", "sum of max(0, chunk time - (a + b n)) / A"},
};

size_t
crema_metric_count(void)
{
    return sizeof c_metrics / sizeof *c_metrics;
}

const crema_metric_t *
crema_metric(size_t i)
{
    return i < crema_metric_count() ? &c_metrics[i] : NULL;
}

size_t
crema_metric_find(const char *name)
{
    size_t i = 0;
    while (i < crema_metric_count() && strcmp(c_metrics[i].name, name) != 0)
        i++;
    return i;
}

#define NAME(id, name) name,
const char *const crema_waterfall_names[] = {CREMA_WATERFALL(NAME)};

#define WORD(id, name, advice) {name, advice},
const crema_word_t crema_bottleneck_words[] = {CREMA_BOTTLENECKS(WORD)};

const crema_grid_variable_t crema_grid_variables[] = {
    {"cpu_pct", "%", "CPU of the process, of one core", true},
    {"rss_b", "B", "resident memory", true},
    {"memory_pct", "%", "resident memory of the limit", true},
    {"slot_busy_pct", "%", "threads running tasks", true},
    {"busy_threads", "count", "threads running tasks", true},
    {"executing", "count", "tasks running, as sampled", true},
    {"event_rate", "1/s", "events", true},
    {"bytes_rate", "B/s", "bytes read", true},
    {"n_workers", "count", "workers present", false},
    {"n_threads", "count", "threads present", false},
    {"busy_threads_total", "count", "threads running tasks", false},
    {"event_rate_total", "1/s", "events, all workers", false},
    {"data_rate_total", "B/s", "bytes read, all workers", false},
};
