/* The declarations below are the run file's contract. A new column goes at the end of its wire
 * columns, before seq: older writers then send fewer columns and older readers select by name. */
#include "crema_columns.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_utf8.h"

#define SIDE_LABELS                                                                                \
    "unattributed,processor,runtime,preprocess,merge,overhead,transfer,wasted,foreign"

static const crema_column_t c_chunks[] = {
    {"t_start_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL,
     "process() began; of a lost attempt, when its chunk was taken up"},
    {"t_end_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL,
     "process() ended; of a lost attempt, when its worker left"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "process(), wall time"},
    {"open_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "opening the file and building events, before process()"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "CPU time of the task's thread over opening and process()"},
    {"proc_cpu_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "CPU time of the whole worker process meanwhile; shows native threads"},
    {"gc_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "CPU time of Python's cyclic garbage collector in this attempt; part of cpu_s"},
    {"n_events", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "count", NULL, "events processed"},
    {"entry_start", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "count", NULL, "first entry of the range"},
    {"entry_stop", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "count", NULL, "one past the last entry"},
    {"bytes_read_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "compressed bytes requested, file open included"},
    {"bytes_accessed_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "compressed size of the baskets of the branches touched, in the entry range"},
    {"bytes_uncompressed_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "uncompressed size of the same baskets"},
    {"n_branches", CREMA_T_I32, 4, CREMA_FROM_WIRE, 0, "count", NULL, "branches touched"},
    {"rss_start_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "resident memory of the process when the chunk was taken up"},
    {"rss_end_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "resident memory at the end"},
    {"rss_peak_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "highest resident memory seen in between"},
    {"chunk_id", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL,
     "hash of dataset, file name and uuid, tree and entry range"},
    {"task_key", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the Dask key"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"dataset_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_DATASET, "1", NULL,
     "row of /dict/dataset"},
    {"file_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_FILE, "1", NULL, "row of /dict/file"},
    {"task_prefix_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_TASK_PREFIX, "1", NULL,
     "row of /dict/task_prefix"},
    {"thread", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "1", NULL, "slot of the worker"},
    {"attempt", CREMA_T_U16, 2, CREMA_FROM_SINK, 0, "1", NULL,
     "1 for the first attempt at this chunk in its pass"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "ok,error,cancelled,lost,partial",
     "outcome"},
    {"quality", CREMA_T_U8, 1, CREMA_FROM_WIRE, 0, "bits", NULL,
     "0 clock unsynced, 1 no CPU, 2 no bytes, 3 superseded by another ok attempt, 4 reconstructed, "
     "5 "
     "sizes of the branches unknown, 6 uncompressed size apportioned by the compressed one"},
    {"attempt_ref", CREMA_T_I64, 0, CREMA_WIRE_ONLY, 0, "1", NULL,
     "number of the attempt in its stream; ties a provisional row to its final one"},
    {"submission_key", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL,
     "hash of the submission that the task came with; 0 unknown, or without Dask"},
    {"pass", CREMA_T_U16, 2, CREMA_FROM_SINK, 0, "1", NULL,
     "1 for the first time that this chunk was worked on, 2 where the same input was run again"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_activities[] = {
    {"t0_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "when the previous total of this key was read"},
    {"t1_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when this total was read"},
    {"value", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "unit_id", NULL,
     "increment between the two totals"},
    {"total", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "unit_id", NULL, "cumulative total"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"span_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_SPAN, "1", NULL, "row of /dict/span"},
    {"task_prefix_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_TASK_PREFIX, "1", NULL,
     "row of /dict/task_prefix; only in execute"},
    {"activity_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_ACTIVITY, "1", NULL,
     "row of /dict/activity"},
    {"unit_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_UNIT, "1", NULL, "row of /dict/unit"},
    {"context", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1",
     "execute,gather_dep,get_data,memory_monitor,p2p,other,busy",
     "where Dask metered it; busy: seconds that tasks were executing, as they pass"},
    {"side", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", SIDE_LABELS,
     "part of the time budget; the hook sets processor where the task is a chunk by identity"},
    {"baseline", CREMA_T_U8, 0, CREMA_WIRE_ONLY, 0, "1", NULL,
     "1: total at the start of the run, no increment"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_worker_samples[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when"},
    {"cpu_pct", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "%", NULL,
     "CPU of the process, of one core; may exceed 100"},
    {"rss_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "resident memory"},
    {"memory_limit_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "limit"},
    {"managed_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "held by Dask"},
    {"spilled_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "now on disk"},
    {"net_read_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "whole host, cumulative; add once per host"},
    {"net_write_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "whole host, cumulative"},
    {"disk_read_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "process, cumulative"},
    {"disk_write_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "process, cumulative"},
    {"occupancy_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "Dask's estimate of assigned work"},
    {"event_loop_lag_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "delay of the event loop"},
    {"gil_contention", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "1", NULL,
     "share of time that the GIL is held: of gilknocker if Dask has it, else 1 or 0 of one look"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"nthreads", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "count", NULL, "slots"},
    {"executing", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "count", NULL, "running tasks"},
    {"ready", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "count", NULL, "queued on the worker"},
    {"processing", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "count", NULL,
     "assigned by the scheduler, queued too"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "running,paused,closing,lost",
     "Dask's state of the worker"},
    {"source", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "agent,scheduler,worker", "who sampled"},
    {"cpu_wait_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "threads that run tasks were ready to run and had no core; cumulative"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_membership[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when"},
    {"memory_limit_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "limit"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"nthreads", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "count", NULL, "slots"},
    {"event", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "join,leave,lost,retire,pause,resume",
     "what happened"},
    {"evidence", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1",
     "explicit,heartbeat_timeout,scheduler_diff,run_boundary",
     "how it is known; run_boundary: already, or still, there"},
    {"t_uncertainty_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "bound on t_ns"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_heartbeats[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when"},
    {"sent", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "count", NULL, "records written, cumulative"},
    {"dropped", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "count", NULL,
     "records the writer could not keep, cumulative"},
    {"backlog", CREMA_T_I32, 4, CREMA_FROM_WIRE, 0, "count", NULL, "records not committed"},
    {"interval_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "heartbeat interval"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"cost_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL,
     "CPU time of the writer's own work for crema, cumulative"},
    {"written_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL,
     "bytes written, or sent on, cumulative"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_sections[] = {
    {"t_start_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "entered"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "inside"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "CPU time of the thread"},
    {"self_s", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "s", NULL, "less nested sections"},
    {"rss_start_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "resident memory at entry"},
    {"rss_end_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "resident memory at exit"},
    {"bytes_read_b", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "bytes requested inside"},
    {"chunk_id", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the chunk; 0 none"},
    {"section_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_SECTION, "1", NULL,
     "row of /dict/section"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"parent", CREMA_T_I32, 4, CREMA_FROM_WIRE, 0, "1", NULL,
     "`entry` of the enclosing section; -1 top"},
    {"depth", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "1", NULL, "nesting, 0 top"},
    {"kind", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "time,memory,bytes",
     "what the user asked for"},
    {"entry", CREMA_T_I32, 4, CREMA_FROM_WIRE, 0, "1", NULL,
     "index of this entry in the attempt at the chunk, from 0 in the order of entering"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_custom[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when"},
    {"value", CREMA_T_F64, 8, CREMA_FROM_WIRE, 0, "unit_id", NULL, "value"},
    {"chunk_id", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the chunk; 0 none"},
    {"metric_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_METRIC, "1", NULL,
     "row of /dict/metric"},
    {"unit_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_UNIT, "1", NULL, "row of /dict/unit"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"kind", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "gauge,increment,total",
     "how values combine"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_task_events[] = {
    {"t_start_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "began, worker's clock"},
    {"t_stop_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "ended"},
    {"t_submit_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL,
     "reached the worker; 0 unknown"},
    {"t_ready_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "inputs were there; 0 unknown"},
    {"nbytes", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "B", NULL, "size of the result or transfer"},
    {"task_key", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the Dask key"},
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_WORKER, "1", NULL,
     "row of /dict/worker"},
    {"task_prefix_id", CREMA_T_U32, 4, CREMA_FROM_DICT, CREMA_DICT_TASK_PREFIX, "1", NULL,
     "row of /dict/task_prefix"},
    {"thread", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "1", NULL, "slot of the worker"},
    {"attempt", CREMA_T_U16, 2, CREMA_FROM_WIRE, 0, "1", NULL, "from 1; 0xFFFF unknown"},
    {"action", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1",
     "compute,transfer,disk_read,disk_write,deserialize", "what"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", "ok,error,cancelled,lost", "outcome"},
    {"side", CREMA_T_ENUM, 1, CREMA_FROM_WIRE, 0, "1", SIDE_LABELS, "part of the time budget"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_task_deps[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "ns", NULL, "when"},
    {"task_key", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the dependent's key"},
    {"dep_key", CREMA_T_I64, 8, CREMA_FROM_WIRE, 0, "1", NULL, "hash of the dependency's key"},
    {"seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "record number in its stream"},
    {"t_recv_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "sink clock at commit, as journaled"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
};

static const crema_column_t c_gaps[] = {
    {"t_from_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "last record before"},
    {"t_to_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "first record after"},
    {"t_detected_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "found"},
    {"first_seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "first lost record"},
    {"last_seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "last lost record"},
    {"n_lost", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "records lost"},
    {"n_recovered", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "0: what is given up stays given up"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
    {"cause", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1",
     "unknown,disk_full,spool_limit,torn,corrupt,agent_lost,decode_error,store_regressed", "why"},
    {"closed", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: final"},
};

static const crema_column_t c_clock[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "when"},
    {"offset_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "the agent's clock less the aggregator's"},
    {"uncertainty_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "bound"},
    {"rtt_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "round trip"},
    {"drift_ppb", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "drift in 1e-9"},
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL,
     "the agent's stream; holds for all its streams"},
    {"method", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "none,rtt_min,ntp_state,causality_bound",
     "how"},
};

static const crema_column_t c_dict_stream[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"uuid", CREMA_T_STR, 40, CREMA_FROM_SINK, 0, "1", NULL, "stream id"},
    {"kind", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "worker,agent,scheduler,client",
     "who wrote"},
    {"host", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "host"},
    {"pid", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "1", NULL, "process"},
    {"worker", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "worker name"},
    {"agent_uuid", CREMA_T_STR, 40, CREMA_FROM_SINK, 0, "1", NULL, "agent that shipped it"},
    {"t_first_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "first record"},
    {"t_last_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "last record"},
    {"closed", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: its last record is known"},
    {"last_seq", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "highest committed record"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_worker[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "address"},
    {"uuid", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL,
     "Dask's worker.id, unique per process"},
    {"host", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "host"},
    {"pid", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "1", NULL, "process"},
    {"nthreads", CREMA_T_U16, 2, CREMA_FROM_SINK, 0, "count", NULL, "slots"},
    {"memory_limit_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "limit"},
    {"t_first_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "first seen"},
    {"t_last_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "last seen"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_task_prefix[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "prefix"},
    {"side", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", SIDE_LABELS, "part of the time budget"},
    {"rule", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "rule that chose the side"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_activity[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "label"},
    {"kind", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1",
     "cpu,noncpu,io,serialization,compression,spill,runtime,idle,failed,user", "kind of activity"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_unit[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "unit"},
    {"si_factor", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "factor to the SI unit"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_metric[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"unit_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/unit"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_span[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"uuid", CREMA_T_STR, 40, CREMA_FROM_SINK, 0, "1", NULL, "span id"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_dataset[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_file[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 512, CREMA_FROM_SINK, 0, "1", NULL, "path or URL"},
    {"dataset_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/dataset"},
    {"size_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "size"},
    {"n_entries", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "events in the tree"},
    {"uuid", CREMA_T_STR, 40, CREMA_FROM_SINK, 0, "1", NULL, "file uuid"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_section[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_dict_branch[] = {
    {"id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row number"},
    {"name", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"truncated", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: a string was cut"},
    {"hash", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "hash of the uncut strings"},
};

static const crema_column_t c_workflow[] = {
    {"name", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "metric"},
    {"value", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "value, in units"},
    {"lo", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "lower bound"},
    {"hi", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "upper bound"},
    {"units", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "unit"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "ok,estimated,incomplete,unavailable",
     "how far to trust it"},
    {"n", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "rows it was computed from"},
    {"definition", CREMA_T_STR, 192, CREMA_FROM_SINK, 0, "1", NULL, "formula"},
};

static const crema_column_t c_per_worker[] = {
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/worker"},
    {"worker", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"n_chunks", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "counted attempts"},
    {"n_events", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "events"},
    {"present_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "in the cluster"},
    {"thread_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "threads x present"},
    {"busy_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "threads running tasks"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread CPU of tasks"},
    {"noncpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "wall less CPU of tasks"},
    {"overhead_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "other tasks and runtime"},
    {"idle_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "free threads"},
    {"wasted_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "failed, cancelled, lost, superseded"},
    {"bytes_read_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "compressed bytes requested"},
    {"rss_peak_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "highest memory"},
    {"rss_mean_b", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "B", NULL, "time-weighted memory"},
    {"event_rate_hz", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1/s", NULL, "events per present second"},
    {"straggler_score", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL,
     "median residual of its chunks"},
};

static const crema_column_t c_per_task_prefix[] = {
    {"task_prefix_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/task_prefix"},
    {"task_prefix", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"side", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", SIDE_LABELS, "part of the time budget"},
    {"n_tasks", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "tasks that ran"},
    {"n_failed", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "attempts that failed"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread-cpu"},
    {"noncpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread-noncpu"},
    {"other_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "all other seconds"},
    {"bytes_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "all bytes"},
    {"dur_p50_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "median duration"},
    {"dur_p95_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "95 % quantile"},
    {"dur_max_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "longest"},
};

static const crema_column_t c_per_activity[] = {
    {"context", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1",
     "execute,gather_dep,get_data,memory_monitor,p2p,other,busy", "where metered"},
    {"task_prefix", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "prefix"},
    {"activity", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "label"},
    {"unit", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "unit"},
    {"side", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", SIDE_LABELS, "part of the time budget"},
    {"value", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "unit", NULL, "sum over workers"},
    {"fraction_of_thread_seconds", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL,
     "of the threads present; NaN unless seconds of execute"},
};

static const crema_column_t c_per_dataset[] = {
    {"dataset_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/dataset"},
    {"dataset", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"n_files", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "files"},
    {"n_chunks", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "counted attempts"},
    {"n_events", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "events"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "process()"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread CPU"},
    {"bytes_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "requested"},
    {"event_rate_hz", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1/s", NULL,
     "events per second of process()"},
    {"s_per_event", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "process() per event"},
    {"memory_b_per_event", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "B", NULL, "slope of peak memory"},
};

static const crema_column_t c_per_section[] = {
    {"section_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/section"},
    {"section", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"n", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "entries"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "sum"},
    {"self_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "less nested"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread CPU"},
    {"dur_mean_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "mean"},
    {"dur_p95_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "95 % quantile"},
    {"dur_max_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "longest"},
    {"rss_delta_mean_b", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "B", NULL, "mean growth"},
    {"rss_delta_max_b", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "B", NULL, "largest growth"},
    {"bytes_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "requested"},
};

static const crema_column_t c_wasted[] = {
    {"worker_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/worker"},
    {"worker", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "name"},
    {"what", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "chunk,task",
     "attempts at chunks, or tasks that were none"},
    {"reason", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "error,cancelled,lost,superseded",
     "why; superseded: it returned, its result was lost and had to be computed again"},
    {"n_attempts", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "attempts"},
    {"n_recovered", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "of these, followed by a successful attempt at the same, of a chunk in the same pass"},
    {"n_events", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "events of the chunks' entry ranges; -1 for tasks"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread-seconds"},
};

static const crema_column_t c_per_pass[] = {
    {"pass", CREMA_T_U16, 2, CREMA_FROM_SINK, 0, "1", NULL, "as in /chunks"},
    {"n_attempts", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "attempts"},
    {"n_chunks", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "counted attempts"},
    {"n_events", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "events"},
    {"t_start_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "first attempt"},
    {"t_end_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "end of the last attempt"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "process()"},
    {"open_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "opening"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread CPU"},
    {"bytes_read_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "compressed bytes requested"},
    {"wasted_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "attempts that do not count"},
};

static const crema_column_t c_split[] = {
    {"side", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "side, and idle"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread-cpu"},
    {"noncpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "thread-noncpu and user-metered"},
    {"runtime_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "executor, offload, other, serialization, compression, spill"},
    {"failed_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "failed and cancelled"},
    {"bytes_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "bytes metered"},
    {"in_budget", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL,
     "0: overlaps execution, never added"},
};

static const crema_column_t c_waterfall[] = {
    {"category", CREMA_T_STR, 32, CREMA_FROM_SINK, 0, "1", NULL, "where the seconds went"},
    {"thread_seconds", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "seconds"},
    {"fraction", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "of capacity"},
    {"rank", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "1", NULL, "order from the top"},
};

static const crema_column_t c_bottlenecks[] = {
    {"rank", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "1", NULL, "from 0, what costs most"},
    {"name", CREMA_T_STR, 32, CREMA_FROM_SINK, 0, "1", NULL, "what holds the run back"},
    {"thread_seconds", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "seconds"},
    {"fraction", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "of capacity"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1",
     "ok,estimated,incomplete,unavailable,ambiguous",
     "how far to trust it; ambiguous: another cause explains the same seconds as well"},
    {"evidence", CREMA_T_STR, 192, CREMA_FROM_SINK, 0, "1", NULL, "the figures behind it"},
    {"advice", CREMA_T_STR, 128, CREMA_FROM_SINK, 0, "1", NULL, "what to try"},
    {"saving_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "without it the run would be shorter by this; savings do not add up"},
    {"lo", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "lower bound of saving_s; NaN where the data give none"},
    {"hi", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "upper bound"},
};

static const crema_column_t c_monitor[] = {
    {"part", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL,
     "hook, agent, aggregator, sink, and their sum: all"},
    {"status", CREMA_T_ENUM, 1, CREMA_FROM_SINK, 0, "1", "ok,estimated,incomplete,unavailable",
     "estimated: part of it was spent on other runs"},
    {"n", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "processes that told of themselves"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "CPU time"},
    {"bytes_b", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "B", NULL, "bytes written or sent on"},
    {"records", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "records written or sent on"},
    {"cpu_s_per_chunk", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "CPU time per attempt at a chunk"},
    {"fraction", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL,
     "CPU time of the threads present, A"},
};

static const crema_column_t c_efficiency[] = {
    {"t0_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "window"},
    {"t1_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "window"},
    {"t_steady_start_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL,
     "first instant with 90 % of the threads busy"},
    {"t_steady_end_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "last such instant"},
    {"events", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "E"},
    {"wall_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "W"},
    {"cap_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "peak threads x W"},
    {"alloc_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "A, thread-seconds present"},
    {"process_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "P, process() of counted attempts"},
    {"cpu_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "C, thread CPU of counted attempts"},
    {"n_threads_avg", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "count", NULL, "A/W"},
    {"n_threads_peak", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "count", NULL, "most threads"},
    {"n_threads_steady", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "count", NULL, "in the steady window"},
    {"x_total_hz", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1/s", NULL, "E/W"},
    {"x_steady_hz", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1/s", NULL,
     "events per second in the steady window"},
    {"pe", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "parallel efficiency"},
    {"lb", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "load balance"},
    {"sched_e", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "scheduling efficiency"},
    {"alloc_e", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "A/capacity"},
    {"tail_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL,
     "last chunk end less last chunk start (tasks, without chunks)"},
    {"tail_loss", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "idle share of A in the tail"},
    {"t_inf_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "critical path"},
    {"t_inf_exact", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL,
     "1: from the task graph; 0: a bound"},
};

static const crema_column_t c_chunk_model[] = {
    {"dataset_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/dataset"},
    {"a_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "fixed cost"},
    {"a_lo", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "lower bound"},
    {"a_hi", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "upper bound"},
    {"b_s_per_event", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "cost per event"},
    {"b_lo", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "lower bound"},
    {"b_hi", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "upper bound"},
    {"n", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "chunks"},
    {"method", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "estimator"},
    {"n_opt_events", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "chunk size with the least makespan, all datasets at once"},
};

static const crema_column_t c_stragglers[] = {
    {"chunk_row", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "1", NULL, "row of /chunks"},
    {"score", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL,
     "modified z score of the log residual"},
    {"predicted_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "a + b n"},
    {"excess_s", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "s", NULL, "wall less predicted"},
};

static const crema_column_t c_completeness[] = {
    {"stream_id", CREMA_T_U32, 4, CREMA_FROM_SINK, 0, "1", NULL, "row of /dict/stream"},
    {"expected", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "last record number known"},
    {"received", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "committed"},
    {"lost", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "known lost"},
    {"recovered", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "0: what is given up stays given up; what came after the verdict is late"},
    {"duplicates", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "repeats dropped"},
    {"late", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL, "after the verdict"},
    {"fraction", CREMA_T_F64, 8, CREMA_FROM_SINK, 0, "1", NULL, "received/expected"},
    {"closed", CREMA_T_U8, 1, CREMA_FROM_SINK, 0, "1", NULL, "1: its last record is known"},
};

static const crema_column_t c_limits[] = {
    {"name", CREMA_T_STR, 32, CREMA_FROM_SINK, 0, "1", NULL,
     "the limit; subject of the reason limit_met"},
    {"part", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "who has it: writer, agent, sink"},
    {"unit", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "unit of limit"},
    {"limit", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "unit", NULL,
     "of each process; of the run where part is sink"},
    {"met", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "count", NULL,
     "how often something did not fit; 0 is as it should be"},
    {"lost", CREMA_T_STR, 96, CREMA_FROM_SINK, 0, "1", NULL, "what is missing where it was met"},
};

static const crema_column_t c_worker_count[] = {
    {"t_ns", CREMA_T_I64, 8, CREMA_FROM_SINK, 0, "ns", NULL, "from when"},
    {"n_workers", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "count", NULL, "workers"},
    {"n_threads", CREMA_T_I32, 4, CREMA_FROM_SINK, 0, "count", NULL, "threads"},
};

static const crema_column_t c_schema_columns[] = {
    {"table", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "table"},
    {"column", CREMA_T_STR, 64, CREMA_FROM_SINK, 0, "1", NULL, "column"},
    {"dtype", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "type"},
    {"units", CREMA_T_STR, 16, CREMA_FROM_SINK, 0, "1", NULL, "unit"},
    {"enum", CREMA_T_STR, 256, CREMA_FROM_SINK, 0, "1", NULL, "labels"},
    {"description", CREMA_T_STR, 192, CREMA_FROM_SINK, 0, "1", NULL, "meaning"},
};

#define TABLE(id, path, kind, live, final, description, columns)                                   \
    [CREMA_TABLE_##id] = {CREMA_TABLE_##id,                                                        \
                          path,                                                                    \
                          CREMA_KIND_##kind,                                                       \
                          live,                                                                    \
                          final,                                                                   \
                          description,                                                             \
                          columns,                                                                 \
                          sizeof columns / sizeof columns[0]}

static const crema_table_t s_tables[CREMA_TABLE_COUNT] = {
    TABLE(CHUNKS, "chunks", STREAM, 1024, 2048, "one row per chunk attempt, retries too", c_chunks),
    TABLE(ACTIVITIES, "activities", STREAM, 2048, 4096, "Dask fine metrics, from cumulative totals",
          c_activities),
    TABLE(WORKER_SAMPLES, "worker_samples", STREAM, 1024, 2048, "state of a worker at an instant",
          c_worker_samples),
    TABLE(MEMBERSHIP, "membership", STREAM, 256, 1024, "change points of the set of workers",
          c_membership),
    TABLE(HEARTBEATS, "heartbeats", STREAM, 2048, 4096, "health of the path of a worker's records",
          c_heartbeats),
    TABLE(SECTIONS, "sections", STREAM, 1024, 2048, "one row per entry into a user's section",
          c_sections),
    TABLE(CUSTOM, "custom", STREAM, 2048, 4096,
          "users' own metrics; coffea.* holds the coffea report", c_custom),
    TABLE(TASK_EVENTS, "task_events", STREAM, 1024, 2048,
          "what ran on which slot, from Dask's startstops", c_task_events),
    TABLE(TASK_DEPS, "task_deps", STREAM, 2048, 4096, "edges of the task graph, optional",
          c_task_deps),
    TABLE(GAPS, "gaps", ACCOUNT, 256, 1024, "records known lost", c_gaps),
    TABLE(CLOCK, "clock", ACCOUNT, 256, 1024, "clock offsets, agent less aggregator", c_clock),
    TABLE(DICT_STREAM, "dict/stream", DICT, 64, 256, "streams: one per writer process start",
          c_dict_stream),
    TABLE(DICT_WORKER, "dict/worker", DICT, 64, 256, "workers", c_dict_worker),
    TABLE(DICT_TASK_PREFIX, "dict/task_prefix", DICT, 64, 256, "Dask's task prefixes",
          c_dict_task_prefix),
    TABLE(DICT_ACTIVITY, "dict/activity", DICT, 64, 256, "activities", c_dict_activity),
    TABLE(DICT_UNIT, "dict/unit", DICT, 64, 256, "units", c_dict_unit),
    TABLE(DICT_METRIC, "dict/metric", DICT, 64, 256, "custom metrics", c_dict_metric),
    TABLE(DICT_SPAN, "dict/span", DICT, 64, 256, "Dask spans", c_dict_span),
    TABLE(DICT_DATASET, "dict/dataset", DICT, 64, 256, "datasets", c_dict_dataset),
    TABLE(DICT_FILE, "dict/file", DICT, 64, 256, "input files", c_dict_file),
    TABLE(DICT_SECTION, "dict/section", DICT, 64, 256, "users' sections", c_dict_section),
    TABLE(DICT_BRANCH, "dict/branch", DICT, 64, 256, "branches", c_dict_branch),
    TABLE(WORKFLOW, "summary/workflow", SUMMARY, 0, 0, "one row per metric of the whole run",
          c_workflow),
    TABLE(PER_WORKER, "summary/per_worker", SUMMARY, 0, 0, "one row per worker", c_per_worker),
    TABLE(PER_TASK_PREFIX, "summary/per_task_prefix", SUMMARY, 0, 0, "one row per task prefix",
          c_per_task_prefix),
    TABLE(PER_ACTIVITY, "summary/per_activity", SUMMARY, 0, 0,
          "one row per context, prefix, activity, unit and side", c_per_activity),
    TABLE(PER_DATASET, "summary/per_dataset", SUMMARY, 0, 0, "one row per dataset", c_per_dataset),
    TABLE(PER_SECTION, "summary/per_section", SUMMARY, 0, 0, "one row per section", c_per_section),
    TABLE(WASTED, "summary/wasted", SUMMARY, 0, 0,
          "work that came to nothing: one row per worker, kind and reason", c_wasted),
    TABLE(PER_PASS, "summary/per_pass", SUMMARY, 0, 0,
          "one row per pass: the same input run again is another one", c_per_pass),
    TABLE(SPLIT, "summary/split", SUMMARY, 0, 0, "seconds by side", c_split),
    TABLE(WATERFALL, "summary/waterfall", SUMMARY, 0, 0,
          "thread-seconds of the run; sums to capacity with the residual", c_waterfall),
    TABLE(BOTTLENECKS, "summary/bottlenecks", SUMMARY, 0, 0,
          "what holds the run back, by what it costs", c_bottlenecks),
    TABLE(MONITOR, "summary/monitor", SUMMARY, 0, 0, "what measuring has cost", c_monitor),
    TABLE(EFFICIENCY, "summary/efficiency", SUMMARY, 0, 0, "one row: the run's efficiency factors",
          c_efficiency),
    TABLE(CHUNK_MODEL, "summary/chunk_model", SUMMARY, 0, 0,
          "opening and process() = a + b n per dataset, Theil-Sen", c_chunk_model),
    TABLE(STRAGGLERS, "summary/stragglers", SUMMARY, 0, 0, "chunks far slower than the model",
          c_stragglers),
    TABLE(COMPLETENESS, "summary/completeness", SUMMARY, 0, 0, "records per stream",
          c_completeness),
    TABLE(LIMITS, "summary/limits", SUMMARY, 0, 0, "limits, and how often each was met", c_limits),
    TABLE(WORKER_COUNT, "worker_count", SUMMARY, 0, 0, "change points of workers and threads",
          c_worker_count),
    TABLE(SCHEMA_COLUMNS, "schema/columns", SUMMARY, 0, 0, "this table of columns",
          c_schema_columns),
};

/* Of any table above; the layouts below hold that many. */
#define COLUMNS_MAX 40
#define ROW_BYTES_MAX 640

/* What follows from the declarations: where each column lies in a row and in a Batch. */
typedef struct {
    uint16_t offset[COLUMNS_MAX + 1]; /* of each column, and of the row's end */
    int8_t wire[COLUMNS_MAX]; /* its number among the integer, or the real, wire columns; -1 none */
    uint8_t n_ints, n_reals;  /* wire columns */
    uint8_t blank[ROW_BYTES_MAX]; /* a row of unknowns */
} layout_t;

static layout_t s_layouts[CREMA_TABLE_COUNT];

static bool
s_ends_with(const char *text, const char *end)
{
    size_t text_length = strlen(text);
    size_t end_length = strlen(end);
    return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

/* The "unknown" of an i64 column: instants, their differences and hashes are 0, counts and bytes -1. */
static int64_t
s_unknown_i64(const char *name)
{
    static const char *const zero_ends[] = {"_ns", "_key", "_id", "hash"};
    for (size_t i = 0; i < sizeof zero_ends / sizeof zero_ends[0]; i++)
        if (s_ends_with(name, zero_ends[i]))
            return 0;
    return -1;
}

static void
s_put_f64(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    crema_put_u64(at, bits);
}

static void
s_put_unknown(const crema_column_t *column, uint8_t *at)
{
    switch (column->type) {
    case CREMA_T_F64:
        s_put_f64(at, NAN);
        break;
    case CREMA_T_I64:
        crema_put_u64(at, (uint64_t)s_unknown_i64(column->name));
        break;
    case CREMA_T_I32:
    case CREMA_T_U32:
    case CREMA_T_U16:
        memset(at, 0xff, column->size);
        break;
    case CREMA_T_U8:
    case CREMA_T_ENUM:
    case CREMA_T_STR:
        memset(at, 0, column->size);
    }
}

static void
s_lay_out_table(const crema_table_t *table, layout_t *layout)
{
    assert(table->n_columns <= COLUMNS_MAX);
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        layout->offset[i + 1] = (uint16_t)(layout->offset[i] + column->size);
        assert(layout->offset[i + 1] <= ROW_BYTES_MAX);
        if (column->size)
            s_put_unknown(column, layout->blank + layout->offset[i]);
        if (column->origin == CREMA_FROM_SINK)
            layout->wire[i] = -1;
        else if (column->type == CREMA_T_F64)
            layout->wire[i] = (int8_t)layout->n_reals++;
        else
            layout->wire[i] = (int8_t)layout->n_ints++;
    }
}

/* Runs before main() and never again, so that every reader finds the layouts finished. */
__attribute__((constructor)) static void
s_lay_out(void)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++)
        s_lay_out_table(&s_tables[t], &s_layouts[t]);
}

const crema_table_t *
crema_table(crema_table_id_t id)
{
    return (unsigned)id < CREMA_TABLE_COUNT ? &s_tables[id] : NULL;
}

const crema_table_t *
crema_table_by_path(const char *path)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++)
        if (strcmp(s_tables[t].path, path) == 0)
            return &s_tables[t];
    return NULL;
}

size_t
crema_table_row_bytes(const crema_table_t *table)
{
    return s_layouts[table->id].offset[table->n_columns];
}

size_t
crema_table_offset(const crema_table_t *table, size_t i)
{
    return s_layouts[table->id].offset[i];
}

/* Callers name columns by literals: where one was found the last time it is looked for first. */
int
crema_table_column(const crema_table_t *table, const char *name)
{
    static _Thread_local uint16_t found[256];
    uint16_t *last = &found[((uintptr_t)name ^ table->id) % 256];
    if (*last < table->n_columns && strcmp(table->columns[*last].name, name) == 0)
        return *last;
    for (size_t i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0) {
            *last = (uint16_t)i;
            return (int)i;
        }
    return -1;
}

void
crema_table_wire_columns(const crema_table_t *table, size_t *ret_ints, size_t *ret_reals)
{
    *ret_ints = s_layouts[table->id].n_ints;
    *ret_reals = s_layouts[table->id].n_reals;
}

int
crema_table_wire_index(const crema_table_t *table, size_t column)
{
    return s_layouts[table->id].wire[column];
}

crema_table_id_t
crema_dict_table(crema_dict_t kind)
{
    static const crema_table_id_t tables[CREMA_DICT_COUNT + 1] = {
        [CREMA_DICT_WORKER] = CREMA_TABLE_DICT_WORKER,
        [CREMA_DICT_TASK_PREFIX] = CREMA_TABLE_DICT_TASK_PREFIX,
        [CREMA_DICT_ACTIVITY] = CREMA_TABLE_DICT_ACTIVITY,
        [CREMA_DICT_UNIT] = CREMA_TABLE_DICT_UNIT,
        [CREMA_DICT_METRIC] = CREMA_TABLE_DICT_METRIC,
        [CREMA_DICT_SPAN] = CREMA_TABLE_DICT_SPAN,
        [CREMA_DICT_DATASET] = CREMA_TABLE_DICT_DATASET,
        [CREMA_DICT_FILE] = CREMA_TABLE_DICT_FILE,
        [CREMA_DICT_SECTION] = CREMA_TABLE_DICT_SECTION,
        [CREMA_DICT_BRANCH] = CREMA_TABLE_DICT_BRANCH,
        [CREMA_DICT_STREAM] = CREMA_TABLE_DICT_STREAM,
    };
    return tables[kind];
}

void
crema_row_clear(const crema_table_t *table, uint8_t *row)
{
    memcpy(row, s_layouts[table->id].blank, crema_table_row_bytes(table));
}

void
crema_rows_set_i64(const crema_table_t *table, uint8_t *rows, size_t column, const int64_t *values,
                   size_t n)
{
    const size_t size = crema_table_row_bytes(table);
    uint8_t *at = rows + crema_table_offset(table, column);
    assert(table->columns[column].size != 0);
    switch (table->columns[column].type) {
    case CREMA_T_I64:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u64(at, (uint64_t)values[r]);
        break;
    case CREMA_T_I32:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u32(at, values[r] >= INT32_MIN && values[r] <= INT32_MAX ? (uint32_t)values[r]
                                                                               : UINT32_MAX);
        break;
    case CREMA_T_U32:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u32(at, values[r] >= 0 && values[r] <= UINT32_MAX ? (uint32_t)values[r]
                                                                        : UINT32_MAX);
        break;
    case CREMA_T_U16:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u16(at, values[r] >= 0 && values[r] <= UINT16_MAX ? (uint16_t)values[r]
                                                                        : UINT16_MAX);
        break;
    case CREMA_T_U8:
    case CREMA_T_ENUM:
        for (size_t r = 0; r < n; r++, at += size)
            at[0] = values[r] >= 0 && values[r] <= UINT8_MAX ? (uint8_t)values[r] : UINT8_MAX;
        break;
    case CREMA_T_F64:
    case CREMA_T_STR:
        assert(!"an integer column");
    }
}

void
crema_row_set_i64(const crema_table_t *table, uint8_t *row, size_t column, int64_t value)
{
    crema_rows_set_i64(table, row, column, &value, 1);
}

int64_t
crema_row_get_i64(const crema_table_t *table, const uint8_t *row, size_t column)
{
    const uint8_t *at = row + crema_table_offset(table, column);
    switch (table->columns[column].type) {
    case CREMA_T_I64:
        return (int64_t)crema_get_u64(at);
    case CREMA_T_I32:
        return (int32_t)crema_get_u32(at);
    case CREMA_T_U32:
        return crema_get_u32(at);
    case CREMA_T_U16:
        return crema_get_u16(at);
    case CREMA_T_U8:
    case CREMA_T_ENUM:
        return at[0];
    case CREMA_T_F64:
    case CREMA_T_STR:
        break;
    }
    assert(!"an integer column");
    return 0;
}

void
crema_rows_set_f64(const crema_table_t *table, uint8_t *rows, size_t column, const double *values,
                   size_t n)
{
    const size_t size = crema_table_row_bytes(table);
    uint8_t *at = rows + crema_table_offset(table, column);
    assert(table->columns[column].type == CREMA_T_F64);
    for (size_t r = 0; r < n; r++, at += size)
        s_put_f64(at, values[r]);
}

void
crema_row_set_f64(const crema_table_t *table, uint8_t *row, size_t column, double value)
{
    crema_rows_set_f64(table, row, column, &value, 1);
}

double
crema_row_get_f64(const crema_table_t *table, const uint8_t *row, size_t column)
{
    assert(table->columns[column].type == CREMA_T_F64);
    uint64_t bits = crema_get_u64(row + crema_table_offset(table, column));
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool
crema_row_set_text(const crema_table_t *table, uint8_t *row, size_t column, const char *text)
{
    assert(table->columns[column].type == CREMA_T_STR);
    return crema_utf8_fit(text, (char *)row + crema_table_offset(table, column),
                          table->columns[column].size);
}

void
crema_row_get_text(const crema_table_t *table, const uint8_t *row, size_t column, char *out,
                   size_t out_size)
{
    assert(table->columns[column].type == CREMA_T_STR && out_size > table->columns[column].size);
    (void)out_size;
    memcpy(out, row + crema_table_offset(table, column), table->columns[column].size);
    out[table->columns[column].size] = '\0';
}

const char *
crema_side_name(crema_side_t side)
{
    static const char *const names[CREMA_SIDE_COUNT] = {"unattributed", "processor", "runtime",
                                                        "preprocess",   "merge",     "overhead",
                                                        "transfer",     "wasted",    "foreign"};
    return (unsigned)side < CREMA_SIDE_COUNT ? names[side] : "?";
}
