/* sink_facts - the input of all summaries: the rows of a run as plain structs, joined and summed
 * once.
 *
 * Chunks are joined with the tasks they ran in, activities are summed over time, presence comes
 * from /membership or, for a worker missing there, from its stream. Everything about threads is
 * clipped to the run's window. */
#ifndef SINK_FACTS_H
#define SINK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_record.h"
#include "sink_decoder.h"
#include "sink_presence.h"
#include "sink_sweep.h"
#include "sink_tables.h"

typedef struct {
    int64_t t_start_ns, t_end_ns;
    double wall_s, open_s, cpu_s, gc_s, open_gc_s, proc_cpu_s;                /* NaN unknown */
    double cpu_wait_s, open_cpu_s, open_cpu_wait_s, open_gil_s, open_input_s; /* NaN unknown */
    double wait_s[CREMA_LOOK_COUNT]; /* by state, from GIL on and UNKNOWN; NaN: no looks */
    int64_t n_events, bytes_read_b, bytes_accessed_b, bytes_uncompressed_b; /* -1 unknown */
    int64_t n_requests;                                                     /* -1 unknown */
    int64_t rss_start_b, rss_end_b, rss_peak_b;
    int64_t task_key, chunk_id;
    int64_t entry_start, n_entries; /* its entry range; -1 unknown */
    uint32_t worker, dataset, file;
    uint16_t pass; /* over the input, from 1 */
    uint8_t status, quality;
    bool counted; /* ok and not superseded */
    bool in_task; /* its task has a row in /task_events */
    /* and that task succeeded: an error then means the chunk was dropped silently */
    bool task_is_ok;
} sink_chunk_t;

#define SINK_THROTTLED_MATTERS 0.1 /* of the periods of a CPU quota */

/* Seconds in opening and process() together. */
double sink_chunk_s(const sink_chunk_t *chunk);

/* Seconds in process() alone; NaN unknown. */
double sink_chunk_process_s(const sink_chunk_t *chunk);

/* A row of /task_events with action compute and a known start. */
typedef struct {
    int64_t t_start_ns, t_stop_ns, t_ready_ns, t_submit_ns;
    int64_t task_key;
    uint32_t worker, prefix;
    uint8_t status, side;
    bool is_chunk; /* also recorded as a row of /chunks */
} sink_task_t;

/* Sum of the increments of one key of /activities. */
typedef struct {
    uint32_t worker, prefix, activity, unit;
    uint8_t context, side;
    uint8_t kind; /* of the activity; USER if its name is not known */
    uint8_t in;   /* sink_unit_kind_t of the unit */
    double value;
} sink_metered_t;

typedef enum {
    SINK_UNIT_OTHER,
    SINK_UNIT_SECONDS,
    SINK_UNIT_BYTES,
    SINK_UNIT_COUNT
} sink_unit_kind_t;

/* Sum over workers and time of one key of /looks. */
typedef struct {
    uint32_t prefix, dataset, section, place, stack;
    uint8_t phase, state;
    double seconds, gc_s; /* gc: of collections that began there */
    size_t n;             /* looks */
} sink_look_t;

typedef struct {
    int64_t t_ns;
    double cpu_pct, cpu_wait_s, gil_contention; /* NaN unknown */
    int64_t rss_b, memory_limit_b, net_read_b;
    uint32_t worker;
    uint16_t executing, nthreads; /* 0xFFFF unknown */
    uint8_t source;
} sink_sample_t;

/* What is known of a worker besides its rows. */
typedef struct {
    double cpu_wait_s;                  /* waiting of its threads for a core; NaN unknown */
    crema_death_t cause;                /* why it went; of the rest below what /membership says */
    int32_t exit_status, signal;        /* -1 unknown */
    int64_t death_rss_b, death_limit_b; /* -1 unknown */
    bool has_left, was_retired;
    bool killed;
    bool is_member;    /* it is in /membership */
    bool has_stream;   /* it wrote a stream */
    bool outside_dask; /* a process that an executor made */
} sink_worker_t;

/* Arrays with an element per row are sink_scratch() arrays. */
typedef struct {
    const char *dir;      /* for more of them; NULL: none */
    int64_t t0_ns, t1_ns; /* the run's window */
    bool end_is_guessed;  /* its client did not end it; its last work does, if that is later */
    sink_chunk_t *chunks; /* rows of /chunks, in the same order */
    size_t n_chunks;
    int64_t n_cached; /* chunks in results that the user's checkpointer had: no attempt at them */
    int64_t *again;   /* hashes of tasks, once for each time they were submitted again; sorted */
    size_t n_again;
    sink_task_t *tasks;
    size_t n_tasks;
    sink_metered_t *metered;
    size_t n_metered;
    sink_look_t *looks;
    size_t n_looks;
    sink_sample_t *samples; /* sorted by worker and time */
    size_t n_samples;
    sink_presence_t *presence;
    size_t n_presence;
    bool has_membership; /* the cluster was watched; otherwise presence is that of the streams */
    bool outside_dask;   /* all workers are processes that an executor made when it needed them */
    double members_bound_s; /* sum |change of workers| x uncertainty / 2, worker-seconds */
    sink_spell_t *paused;
    size_t n_paused;
    int64_t *last_arrival_ns; /* by worker: arrival of its last chunk; 0 unknown */
    sink_worker_t *workers;   /* by row of /dict/worker */
    size_t n_workers;
    /* Of the worker whose control group was throttled most, if workers that were throttled while
     * tasks ran have half of what threads waited for a core: its quota in cores, and the share of
     * the periods in which it was used up. NaN: no quota explains the waiting. */
    double cpu_quota, cpu_throttled;
    /* mean of 100 processing / nthreads as the scheduler saw it; NaN unknown */
    double assigned_pct;
    /* CPU time of the workers by two observers; NaN unless both are known */
    double cpu_agent_vs_hook;
    sink_sweep_t sweep;
} sink_facts_t;

/* In three steps: after the first one nothing looks again at the rows of /activities, after the
 * second one at those of /chunks and /custom. */
CREMA_MUST_CHECK crema_err_t sink_facts_begin(const sink_tables_t *tables,
                                              const sink_decoder_t *run, sink_facts_t **ret_self);
CREMA_MUST_CHECK crema_err_t sink_facts_take_chunks(sink_facts_t *self, const sink_tables_t *tables,
                                                    const sink_decoder_t *run);
CREMA_MUST_CHECK crema_err_t sink_facts_finish(sink_facts_t *self, const sink_tables_t *tables);
void sink_facts_destroy(sink_facts_t **self_p);

/* What the task, or the chunk behind the tasks, of number `i` below n_tasks + n_chunks occupied;
 * false if it was no slot, or that of another number. */
bool sink_facts_busy(const sink_facts_t *self, size_t i, sink_busy_t *ret_busy);

#endif
