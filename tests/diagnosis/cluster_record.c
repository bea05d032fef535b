#include "diagnosis/cluster_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "journal_fixture.h"

#define EVENTS_PER_CHUNK 100000.0
#define LOOKS_PER_S 20

/* Labels of the run file's columns, by their numbers. */
enum { JOIN = 0, LEAVE = 1, LOST = 2, PAUSE = 4, RESUME = 5 };
enum { EXPLICIT = 0 };
enum { STATUS_OK = 0, STATUS_ERROR = 1 };
enum { SOURCE_WORKER = 2 };

static const char *const c_prefixes[] = {
    [CLUSTER_CHUNK] = "Simulated",
    [CLUSTER_MERGE] = "reduce",
    [CLUSTER_PREPROCESS] = "automatic_retries",
};

/* What looks found of blocked threads. */
typedef struct {
    double lock, wait;     /* looks */
    double lock_s, wait_s; /* seconds that were assigned by them */
} seen_t;

typedef struct {
    fixture_stream_t *stream;
    char name[32];
    double cpu_s[3], noncpu_s[3]; /* by kind of task */
    double failed_s, executor_s, spill_s;
    int64_t ref;
    seen_t opening, process;
} writer_t;

typedef struct {
    const cluster_plan_t *plan;
    fixture_t *fixture;
    fixture_stream_t *scheduler;
    writer_t writers[CLUSTER_WORKERS_MAX];
} recorder_t;

static int64_t
s_at(double s)
{
    return FIXTURE_T0 + (int64_t)(s * 1e9 + 0.5);
}

static void
s_member(fixture_stream_t *stream, const writer_t *w, double t_s, int event, unsigned threads)
{
    int64_t worker = fixture_name(stream, CREMA_DICT_WORKER, w->name);
    fixture_row(stream, CREMA_TABLE_MEMBERSHIP);
    fixture_set(stream, "t_ns", s_at(t_s));
    fixture_set(stream, "worker_id", worker);
    fixture_set(stream, "nthreads", threads);
    fixture_set(stream, "event", event);
    fixture_set(stream, "evidence", EXPLICIT);
    fixture_put(stream, 0);
}

static void
s_joined(void *context, unsigned worker, double t_s)
{
    recorder_t *self = context;
    writer_t *w = &self->writers[worker];
    snprintf(w->name, sizeof w->name, "tcp://10.0.0.%u:4000", worker);
    w->stream = fixture_stream(self->fixture, 10 + worker, 1, CREMA_STREAM_WORKER, w->name,
                               self->plan->threads, s_at(t_s));
    s_member(self->scheduler, w, t_s, JOIN, self->plan->threads);
}

static void
s_total(writer_t *w, double t_s, cluster_kind_t kind, const char *activity, double total)
{
    fixture_stream_t *s = w->stream;
    int64_t worker = fixture_name(s, CREMA_DICT_WORKER, w->name);
    int64_t span = fixture_name(s, CREMA_DICT_SPAN, "measured");
    int64_t prefix = fixture_name(s, CREMA_DICT_TASK_PREFIX, c_prefixes[kind]);
    int64_t label = fixture_name(s, CREMA_DICT_ACTIVITY, activity);
    int64_t unit = fixture_name(s, CREMA_DICT_UNIT, "seconds");
    for (int baseline = 1; baseline >= 0 && total > 0; baseline--) {
        fixture_row(s, CREMA_TABLE_ACTIVITIES);
        fixture_set(s, "t1_ns", s_at(t_s - baseline * 0.001));
        fixture_real(s, "total", baseline ? 0 : total);
        fixture_set(s, "worker_id", worker);
        fixture_set(s, "span_id", span);
        fixture_set(s, "task_prefix_id", prefix);
        fixture_set(s, "activity_id", label);
        fixture_set(s, "unit_id", unit);
        fixture_set(s, "context", 0);
        fixture_set(s, "side",
                    kind == CLUSTER_CHUNK ? CREMA_SIDE_PROCESSOR : CREMA_SIDE_UNATTRIBUTED);
        fixture_set(s, "baseline", baseline);
        fixture_put(s, 0);
    }
}

static void
s_looks(writer_t *w, double t_s, const seen_t *seen, int phase)
{
    fixture_stream_t *s = w->stream;
    for (int state = CREMA_LOOK_GIL; state <= CREMA_LOOK_INPUT; state++) {
        fixture_row(s, CREMA_TABLE_LOOKS);
        fixture_set(s, "t_ns", s_at(t_s));
        fixture_set(s, "worker_id", fixture_name(s, CREMA_DICT_WORKER, w->name));
        fixture_set(s, "phase", phase);
        fixture_set(s, "state", state);
        fixture_set(s, "total_looks", (int64_t)(state == CREMA_LOOK_GIL ? seen->lock : seen->wait));
        fixture_real(s, "total_s", state == CREMA_LOOK_GIL ? seen->lock_s : seen->wait_s);
        fixture_put(s, 0);
    }
}

static void
s_left(void *context, unsigned worker, double t_s, bool killed)
{
    recorder_t *self = context;
    writer_t *w = &self->writers[worker];
    for (cluster_kind_t kind = CLUSTER_CHUNK; kind <= CLUSTER_PREPROCESS; kind++) {
        s_total(w, t_s, kind, "thread-cpu", w->cpu_s[kind]);
        s_total(w, t_s, kind, "thread-noncpu", w->noncpu_s[kind]);
    }
    s_looks(w, t_s, &w->opening, CREMA_LOOK_PHASE_OPENING);
    s_looks(w, t_s, &w->process, CREMA_LOOK_PHASE_PROCESS);
    s_total(w, t_s, CLUSTER_CHUNK, "failed", w->failed_s);
    s_total(w, t_s, CLUSTER_CHUNK, "executor", w->executor_s);
    s_total(w, t_s, CLUSTER_CHUNK, "disk-write", w->spill_s);
    s_member(self->scheduler, w, t_s, killed ? LOST : LEAVE, self->plan->threads);
    fixture_end(w->stream, killed ? CREMA_END_WRITER_GONE : CREMA_END_FINISHED, s_at(t_s), 0, 0);
}

/* Divides what a thread was blocked by looks at it; where none fell into it, as looks did before.
 * Returns the seconds that it waited for the lock. */
static double
s_look_at(seen_t *seen, uint64_t seed, const cluster_task_t *task, double lock_s, double wait_s)
{
    double blocked_s = lock_s + wait_s, lock = 0;
    uint64_t key = 60000 + 64 * (uint64_t)task->number + task->worker;
    unsigned n = (unsigned)(blocked_s * LOOKS_PER_S + cluster_uniform(seed, key, seen->lock_s > 0));
    for (unsigned i = 0; i < n; i++)
        lock += cluster_uniform(seed, key, 10 + i) * blocked_s < lock_s;
    seen->lock += lock;
    seen->wait += n - lock;
    double whole = n > 0 ? n : seen->lock + seen->wait;
    double share = whole > 0 ? (n > 0 ? lock : seen->lock) / whole : 0;
    seen->lock_s += share * blocked_s;
    seen->wait_s += (1 - share) * blocked_s;
    return share * blocked_s;
}

static void
s_waits(writer_t *w, uint64_t seed, const cluster_task_t *task)
{
    static const char *const others[] = {"service_s", "file_s",  "lock_s",       "sleep_s",
                                         "native_s",  "child_s", "page_fault_s", "unknown_s"};
    fixture_stream_t *s = w->stream;
    double blocked_s = task->lock_s + task->wait_s,
           open_blocked_s = task->open_lock_s + task->open_wait_s;
    double open_gil_s = s_look_at(&w->opening, seed, task, task->open_lock_s, task->open_wait_s);
    double gil_s = s_look_at(&w->process, seed, task, task->lock_s - task->open_lock_s,
                             task->wait_s - task->open_wait_s);
    fixture_real(s, "cpu_wait_s", task->no_core_s);
    fixture_real(s, "open_cpu_s", task->open_cpu_s);
    fixture_real(s, "open_cpu_wait_s", task->open_no_core_s);
    fixture_real(s, "gil_s", gil_s + open_gil_s);
    fixture_real(s, "open_gil_s", open_gil_s);
    fixture_real(s, "input_s", blocked_s - gil_s - open_gil_s);
    fixture_real(s, "open_input_s", open_blocked_s - open_gil_s);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        fixture_real(s, others[i], 0);
}

static void
s_chunk(writer_t *w, uint64_t seed, const cluster_task_t *task)
{
    fixture_stream_t *s = w->stream;
    char file[64], uuid[32];
    snprintf(file, sizeof file, "root://store//data/file-%u.root", task->file);
    snprintf(uuid, sizeof uuid, "%u", task->file);
    int64_t worker = fixture_name(s, CREMA_DICT_WORKER, w->name);
    int64_t dataset = fixture_name(s, CREMA_DICT_DATASET, "simulated");
    int64_t prefix = fixture_name(s, CREMA_DICT_TASK_PREFIX, c_prefixes[CLUSTER_CHUNK]);
    int64_t file_id = fixture_file(s, file, uuid, dataset);
    w->ref++;
    for (int final = 0; final <= (task->lost ? 0 : 1); final++) {
        fixture_row(s, CREMA_TABLE_CHUNKS);
        fixture_set(s, "t_start_ns", s_at(final ? task->process_s : task->started_s));
        fixture_set(s, "chunk_id", 7000 + task->number);
        fixture_set(s, "task_key", 9000 + task->number);
        fixture_set(s, "attempt_ref", w->ref);
        fixture_set(s, "worker_id", worker);
        fixture_set(s, "dataset_id", dataset);
        fixture_set(s, "file_id", file_id);
        fixture_set(s, "task_prefix_id", prefix);
        fixture_set(s, "thread", task->slot);
        if (final) {
            fixture_set(s, "t_end_ns", s_at(task->ended_s));
            fixture_real(s, "wall_s", task->ended_s - task->process_s);
            fixture_real(s, "open_s", task->process_s - task->started_s);
            fixture_real(s, "cpu_s", task->cpu_s);
            fixture_real(s, "proc_cpu_s", task->process_cpu_s);
            fixture_real(s, "gc_s", task->gc_s);
            s_waits(w, seed, task);
            fixture_set(s, "n_events", (int64_t)(EVENTS_PER_CHUNK * task->events));
            fixture_set(s, "bytes_read_b", (int64_t)(1e7 * task->events));
            fixture_set(s, "status", task->failed ? STATUS_ERROR : STATUS_OK);
        }
        fixture_put(s, final ? 0 : CREMA_BATCH_PROVISIONAL);
    }
}

static void
s_task(void *context, const cluster_task_t *task)
{
    recorder_t *self = context;
    writer_t *w = &self->writers[task->worker];
    fixture_stream_t *s = w->stream;
    if (task->kind == CLUSTER_CHUNK)
        s_chunk(w, self->plan->seed, task);
    if (task->lost)
        return;
    int64_t worker = fixture_name(s, CREMA_DICT_WORKER, w->name);
    int64_t prefix = fixture_name(s, CREMA_DICT_TASK_PREFIX, c_prefixes[task->kind]);
    fixture_row(s, CREMA_TABLE_TASK_EVENTS);
    fixture_set(s, "t_start_ns", s_at(task->started_s));
    fixture_set(s, "t_stop_ns", s_at(task->ended_s));
    fixture_set(s, "t_submit_ns", s_at(task->submitted_s));
    fixture_set(s, "t_ready_ns", s_at(task->ready_s));
    fixture_set(s, "task_key", 9000 + task->number);
    fixture_set(s, "worker_id", worker);
    fixture_set(s, "task_prefix_id", prefix);
    fixture_set(s, "thread", task->slot);
    fixture_set(s, "action", 0);
    fixture_set(s, "status", task->failed ? STATUS_ERROR : STATUS_OK);
    fixture_set(s, "side",
                task->kind == CLUSTER_CHUNK ? CREMA_SIDE_PROCESSOR : CREMA_SIDE_UNATTRIBUTED);
    fixture_put(s, 0);
    double s_all = task->ended_s - task->started_s;
    if (task->failed) { /* Dask posts all seconds of a failed task as one lump */
        w->failed_s += s_all;
    } else {
        w->cpu_s[task->kind] += task->cpu_s;
        w->noncpu_s[task->kind] += fmax(0, s_all - task->cpu_s);
    }
    w->executor_s += self->plan->executor_s;
    if (task->kind == CLUSTER_CHUNK)
        w->spill_s += self->plan->spill_s;
}

static void
s_sample(void *context, const cluster_sample_t *sample)
{
    recorder_t *self = context;
    writer_t *w = &self->writers[sample->worker];
    fixture_stream_t *s = w->stream;
    int64_t worker = fixture_name(s, CREMA_DICT_WORKER, w->name);
    fixture_row(s, CREMA_TABLE_WORKER_SAMPLES);
    fixture_set(s, "t_ns", s_at(sample->t_s));
    fixture_set(s, "rss_b", 1000000000);
    fixture_set(s, "memory_limit_b", 4000000000);
    fixture_set(s, "worker_id", worker);
    fixture_set(s, "nthreads", self->plan->threads);
    fixture_set(s, "executing", sample->executing);
    fixture_set(s, "ready", sample->ready);
    fixture_real(s, "gil_contention", sample->lock_held ? 1 : 0);
    fixture_real(s, "cpu_wait_s", sample->no_core_s);
    fixture_set(s, "source", SOURCE_WORKER);
    fixture_put(s, 0);
}

static void
s_paused(void *context, unsigned worker, double t_s, bool paused)
{
    recorder_t *self = context;
    writer_t *w = &self->writers[worker];
    s_member(w->stream, w, t_s, paused ? PAUSE : RESUME, self->plan->threads);
}

double
cluster_record(const cluster_plan_t *plan, const char *dir)
{
    recorder_t *self = calloc(1, sizeof *self);
    if (!self)
        abort();
    self->plan = plan;
    self->fixture = fixture_new(dir, 1);
    fixture_open(self->fixture, s_at(0), NULL, NULL, c_prefixes[CLUSTER_CHUNK]);
    self->scheduler = fixture_stream(self->fixture, 1, 1, CREMA_STREAM_SCHEDULER, "", 0, s_at(0));
    const cluster_watch_t watch = {self, s_joined, s_left, s_task, s_sample, s_paused};
    double end_s = cluster_run(plan, &watch);
    fixture_end(self->scheduler, CREMA_END_FINISHED, s_at(end_s), 0, 0);
    fixture_seal(self->fixture, s_at(end_s), NULL, 0);
    fixture_close(&self->fixture);
    free(self);
    return end_s;
}
