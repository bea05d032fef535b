/* Metrics of events, bytes and chunks. */
#include "crema_metrics_list.h"

#define CHUNKS "`/chunks`"
#define REPORT "`/custom` (`coffea.*`)"

static const crema_metric_t c_throughput[] = {
    {"wall_time", "s", "W: end less start of the run",
     "From entering to leaving the collector: waiting for workers and preprocessing are in it. "
     "Other windows: root "
     "attributes, `/summary/efficiency`",
     "root `t_run_start_ns`, `t_run_end_ns`", "Wall Time, `elapsed_time_seconds`"},
    {"data_rate_gbps", "Gbit/s", "8e-9 B/W",
     "What the analysis asked for, not what a link carried; the reference's formula lacks the 1e-9",
     CHUNKS, "Data Rate (Gbps)"},
    {"data_rate_mb_s", "MB/s", "1e-6 B/W", "The same in bytes", CHUNKS, "Data Rate (MB/s)"},
    {"event_rate_wall_clock", "kHz", "E/W/1000", "How fast the answer comes", CHUNKS,
     "Event Rate (Wall Clock), `event_rate_elapsed_khz`"},
    {"event_rate_aggregated", "kHz", "E/P/1000",
     "Per second in `process()`, waiting included: not per CPU second, though the reference says "
     "so",
     CHUNKS, "Event Rate (Aggregated), `event_rate_cpu_total_khz`"},
    {"event_rate_per_cpu_s", "Hz", "E/C", "Per second of thread CPU; native threads are not in C",
     CHUNKS, ""},
    {"event_rate_core_averaged", "Hz", "E/A", "Per second of a thread that was there, busy or not",
     CHUNKS ", `/membership`", "Event Rate (Core-Averaged), `event_rate_core_khz`"},
    {"event_rate_core_averaged_raw", "Hz", "E/(W x total_cores_raw)",
     "As the reference computes it: wrong when workers come and go", CHUNKS ", `/worker_count`",
     "Event Rate (Core-Averaged)"},
    {"total_bytes_read_coffea", "B", "B; coffea's report if no chunk tells",
     "Requested, file headers included, again for each chunk; baskets inside the tree's header add "
     "nothing. Not comparable "
     "with Dask's bytes",
     CHUNKS, "Total Bytes Read (Coffea), `bytesread`"},
    {"total_events", "count", "E; coffea's report if no chunk was recorded",
     "Events whose output is in the result", CHUNKS, "Total Events, `entries`"},
};

static const crema_metric_t c_data[] = {
    {"wire_rate_gbps", "Gbit/s", "8e-9 bytes into the workers' hosts / W",
     "Between the first and last sample of each host, every host once. Other users of the host are "
     "in it",
     "`/worker_samples.net_read_b`", "`host_net_io` (planned)"},
    {"num_columns", "count", "distinct branches touched; coffea's report if none was recorded",
     "coffea leaves preloaded columns out", "`/dict/branch`", "columns"},
    {"total_bytes_uncompressed", "B", "sum of bytes_uncompressed_b of counted attempts",
     "Of the branches touched, not of the whole file", CHUNKS, "Uncompressed Bytes"},
    {"compression_ratio", "1", "uncompressed / compressed bytes of the branches touched",
     "Both sides count the same baskets; bytes of coffea and Dask must not be mixed for this",
     CHUNKS, "Compression Ratio"},
};

static const crema_metric_t c_chunks[] = {
    {"num_chunks", "count", "counted attempts: ok or partial, and not superseded",
     "Chunks whose output is in the result", CHUNKS, "Number of Chunks"},
    {"num_chunks_submitted", "count", "chunks of coffea's report",
     "Submitted, whether done or dropped", REPORT, "Number of Chunks, `num_chunks`"},
    {"num_attempts", "count", "rows of /chunks", "Retries, failures and losses too", CHUNKS, ""},
    {"num_failed_attempts", "count", "attempts with status error or cancelled",
     "coffea drops some of them without a word (`skipbadfiles`)", CHUNKS, "`num_failed_chunks`"},
    {"num_lost_attempts", "count", "attempts whose worker went away", "Ended by the worker's death",
     CHUNKS, ""},
    {"num_superseded_attempts", "count",
     "attempts that returned, whose result was lost and computed again", "Work done twice", CHUNKS,
     ""},
    {"total_cpu_time", "s", "P, as coffea's processtime: wall time of process(), not CPU",
     "The reference's name for the wall time of `process()`: waiting is in it, opening files and "
     "failed attempts are not",
     CHUNKS, "Total CPU Time, `processtime`"},
    {"process_wall_time", "s", "P", "The same under a true name", CHUNKS, ""},
    {"process_cpu_time", "s", "C",
     "CPU of the task's thread, opening included. Native threads: `/chunks.proc_cpu_s`", CHUNKS,
     ""},
    {"open_time", "s", "sum of open_s of counted attempts",
     "Opening files and building events: may be most of the work (NanoAOD v15: 95 %), and is in no "
     "seconds of coffea's report",
     CHUNKS, ""},
    {"gc_time", "s", "sum of gc_s of counted attempts",
     "CPU time of Python's cyclic garbage collector; part of process_cpu_time", CHUNKS, ""},
    {"avg_cpu_time_per_chunk", "s", "P / chunks", "Wall time of `process()`", CHUNKS,
     "Avg CPU Time per Chunk"},
    {"avg_process_cpu_per_chunk", "s", "C / chunks", "CPU time", CHUNKS, ""},
    {"chunk_wall_min", "s", "shortest process() of counted attempts", "", CHUNKS, "min chunk time"},
    {"chunk_wall_mean", "s", "mean process()", "", CHUNKS, "mean chunk time"},
    {"chunk_wall_p50", "s", "median process()", "", CHUNKS, ""},
    {"chunk_wall_p95", "s", "95 % quantile of process(), interpolated", "", CHUNKS, ""},
    {"chunk_wall_max", "s", "longest process()", "No run ends before it", CHUNKS, "max chunk time"},
    {"chunk_s_per_event", "s", "P/E",
     "The fixed cost of a chunk is in it: `/summary/chunk_model` takes them apart", CHUNKS,
     "Time per event"},
    {"chunk_b_per_event", "B", "slope of rss_peak_b on n_events, Theil-Sen",
     "Resident memory is the process', shared by its threads", CHUNKS, ""},
    {"chunk_b_per_event_raw", "B", "mean of (rss_end_b - rss_start_b) / n_events",
     "As the reference computes it: a difference of two looks, not the peak; what other threads "
     "took and what was not yet given back is in it",
     CHUNKS, "Memory per event"},
};

static const crema_metric_t c_closure[] = {
    {"closure_events_chunks_vs_report", "1", "E / entries of coffea's report",
     "1 closes; less: attempts that crema did not see; more: chunks that coffea dropped after "
     "counting",
     CHUNKS ", " REPORT, ""},
    {"closure_bytes_chunks_vs_report", "1", "B / bytesread of coffea's report", "1 closes",
     CHUNKS ", " REPORT, ""},
    {"closure_chunks_chunks_vs_report", "1", "counted attempts / chunks of coffea's report",
     "1 closes; less: chunks were dropped, or run before crema looked", CHUNKS ", " REPORT, ""},
    {"closure_seconds_known_vs_thread_seconds", "1", "seconds that Dask metered in tasks / A",
     "The rest was idle or not metered; Dask's own idle is no check, as it is defined as the rest",
     "`/activities`", "\"grand total should roughly add up\""},
    {"closure_cpu_agent_vs_hook", "1",
     "CPU of the worker processes: the agent's figure / the hook's",
     "Two readers of the same processes, each over its own samples; short runs scatter",
     "`/worker_samples`", ""},
    {"closure_waterfall_residual", "1",
     "residual of the waterfall / Cap; beyond 0.02 the budget does not close",
     "Busy seconds come from Dask's meters, free ones from task intervals: two sources",
     "`/summary/waterfall`", ""},
};

const crema_metric_group_t crema_metrics_of_chunks[4] = {
    CREMA_METRIC_GROUP("Throughput", c_throughput),
    CREMA_METRIC_GROUP("Data", c_data),
    CREMA_METRIC_GROUP("Chunks", c_chunks),
    CREMA_METRIC_GROUP("Cross-checks", c_closure),
};
