#include "agent_sampler.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_network.h"
#include "agent_proc.h"
#include "agent_source.h"
#include "agent_stream.h"
#include "crema_clock.h"
#include "crema_log.h"
#include "crema_map.h"
#include "crema_random.h"
#include "crema_time.h"

#define ENDED_MAX 256 /* runs remembered as over */

typedef struct run run_t;

/* A worker's part of a cumulative number of its process. */
typedef struct {
    int64_t whole_b; /* at the last sample; 0 before the first */
    int64_t own_b;
} share_t;

/* A stream of kind WORKER. Skipped ones are kept too, so that they are not examined again. */
typedef struct {
    crema_id_t stream_id;
    run_t *run;             /* NULL: skipped */
    agent_source_t *source; /* NULL: skipped */
    uint32_t dict_id;       /* in the run's stream; UNNAMED until its entry was written */
    uint32_t nthreads;
    int64_t memory_limit_b; /* the limit Dask applies */
    int64_t cpu_ns, at_ns;  /* at the last sample; at_ns 0 before the first */
    uint16_t sharing;       /* workers of the run in this process, with this one */
    share_t read, write;    /* of the process's disk bytes */
    uint32_t seen;          /* the last follow() that found it recording */
    bool cut_reported;      /* the loss of processes in its tree was recorded */
} worker_t;

/* The workers of one user in a run: the owner of a stream determines which runs it may belong
 * to. */
struct run {
    crema_id_t run_id;
    uint32_t owner;
    crema_spool_writer_t *writer;
    uint32_t names; /* dictionary entries written */
    size_t n_workers;
    int64_t cpu_ns; /* of this process, when the run began here */
    uint64_t sent, sent_bytes;
};

#define UNNAMED UINT32_MAX

struct agent_sampler {
    agent_sampler_config_t config;
    char boot_id[AGENT_BOOT_ID_SIZE];
    crema_map_t *workers; /* by stream id */
    run_t **runs; /* by run and user; each has a worker, so never more than streams in a spool */
    size_t n_runs;
    crema_id_t ended[ENDED_MAX]; /* ring buffer */
    size_t n_ended;
    bool stopped;
    uint32_t follows;
    crema_worker_samples_row_t rows[AGENT_STREAM_ROWS_MAX]; /* not written yet */
    uint32_t n_rows;
    agent_network_t *network;
    uint64_t sent, sent_bytes;
    uint64_t streams, rows_written;
    uint64_t dropped; /* rows that the spool did not accept */
    uint64_t hidden;  /* streams of other users, for want of rights */
    bool is_short;    /* this follow() could not take up a worker that it could see */
    bool warned_short;
};

/* ---- creation */

crema_err_t
agent_sampler_new(const agent_sampler_config_t *config, agent_sampler_t **ret_self)
{
    agent_sampler_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->config = *config;
    agent_stream_boot_id(config->proc, self->boot_id);
    crema_err_t err = crema_map_new(CREMA_SPOOL_STREAMS_MAX, &self->workers);
    if (err == CREMA_OK)
        err = agent_network_new(config->proc, config->sys, &self->network);
    if (err == CREMA_OK && !(self->runs = calloc(CREMA_SPOOL_STREAMS_MAX, sizeof(run_t *))))
        err = CREMA_ENOMEM;
    if (err != CREMA_OK) {
        agent_sampler_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_close_run(agent_sampler_t *self, run_t *run)
{
    size_t i = 0;
    while (self->runs[i] != run)
        i++;
    self->runs[i] = self->runs[--self->n_runs];
    crema_spool_writer_close(&run->writer);
    free(run);
}

/* Adds `change` to the others' count of workers in its process; returns its own. */
static uint16_t
s_count_sharing(agent_sampler_t *self, const worker_t *worker, int change)
{
    size_t cursor = 0;
    uint16_t n = 1;
    worker_t *other;
    while ((other = crema_map_next(self->workers, &cursor))) {
        if (other == worker || other->run != worker->run || !other->source || !worker->source ||
            agent_source_pid(other->source) != agent_source_pid(worker->source))
            continue;
        other->sharing = (uint16_t)(other->sharing + change);
        n++;
    }
    return n;
}

/* True if this ended the run's stream. */
static bool
s_remove_worker(agent_sampler_t *self, worker_t *worker)
{
    run_t *run = worker->run;
    if (run)
        (void)s_count_sharing(self, worker, -1);
    (void)crema_map_take(self->workers, &worker->stream_id);
    agent_source_destroy(&worker->source);
    free(worker);
    if (!run || --run->n_workers > 0)
        return false;
    s_close_run(self, run);
    return true;
}

/* A worker for which `is_wanted` holds, or NULL. Removing ends an iteration, so each call starts
 * over. */
static worker_t *
s_find(const agent_sampler_t *self, bool (*is_wanted)(const worker_t *, const void *),
       const void *context)
{
    size_t cursor = 0;
    worker_t *worker;
    while ((worker = crema_map_next(self->workers, &cursor)))
        if (is_wanted(worker, context))
            break;
    return worker;
}

static bool
s_is_any(const worker_t *worker, const void *context)
{
    (void)worker, (void)context;
    return true;
}

static bool
s_is_of_run(const worker_t *worker, const void *run)
{
    return worker->run == run;
}

static bool
s_is_not_seen(const worker_t *worker, const void *follows)
{
    return worker->seen != *(const uint32_t *)follows;
}

void
agent_sampler_stop(agent_sampler_t *self)
{
    worker_t *worker;
    self->stopped = true;
    while ((worker = s_find(self, s_is_any, NULL)))
        (void)s_remove_worker(self, worker);
}

void
agent_sampler_destroy(agent_sampler_t **self_p)
{
    agent_sampler_t *self = *self_p;
    if (!self)
        return;
    if (self->workers)
        agent_sampler_stop(self);
    crema_map_destroy(&self->workers);
    agent_network_destroy(&self->network);
    free(self->runs);
    free(self);
    *self_p = NULL;
}

/* ---- runs */

/* `owner` NULL: any user. */
static run_t *
s_run(const agent_sampler_t *self, const crema_id_t *run_id, const uint32_t *owner)
{
    for (size_t i = 0; i < self->n_runs; i++)
        if (crema_id_equal(&self->runs[i]->run_id, run_id) &&
            (!owner || self->runs[i]->owner == *owner))
            return self->runs[i];
    return NULL;
}

static bool
s_is_over(const agent_sampler_t *self, const crema_id_t *run_id)
{
    for (size_t i = 0; i < self->n_ended && i < ENDED_MAX; i++)
        if (crema_id_equal(&self->ended[i], run_id))
            return true;
    return false;
}

/* The run's stream, begun if necessary; NULL, with errno, on failure. */
static run_t *
s_begin_run(agent_sampler_t *self, crema_spool_t *spool, const crema_id_t *run_id, uint32_t owner)
{
    run_t *run = s_run(self, run_id, &owner);
    if (run)
        return run;
    run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->run_id = *run_id;
    run->owner = owner;
    run->cpu_ns = self->n_runs == 0 && self->streams == 0 ? 0 : crema_clock_cpu_ns();
    run->sent = self->sent;
    run->sent_bytes = self->sent_bytes;
    const crema_id_t stream_id = crema_random_id();
    if (agent_stream_open(&self->config, self->boot_id, &stream_id, run_id, owner, &run->writer) !=
        CREMA_OK) {
        free(run);
        return NULL;
    }
    (void)!crema_spool_expect(spool, &stream_id); /* else it has a place as any other */
    self->runs[self->n_runs++] = run;
    self->streams++;
    return run;
}

static void
s_write_name(run_t *run, worker_t *worker, const Crema__StreamInfo *info)
{
    if (agent_stream_name_worker(run->writer, run->names, info) == CREMA_OK)
        worker->dict_id = run->names++;
}

/* ---- which workers are sampled */

/* It is tried again with the next follow(), since what was missing may come back: a descriptor,
 * memory, room on the disk. */
static void
s_note_short(agent_sampler_t *self, const crema_spool_stream_t *stream, int why)
{
    self->is_short = true;
    if (!self->warned_short)
        crema_log_warn("worker_not_sampled", CREMA_ID("stream", &stream->stream_id),
                       CREMA_TEXT("why", strerror(why)),
                       CREMA_TEXT("remedy", "it is tried again with each look into the spool"));
    self->warned_short = true;
}

/* The worker's process, if it is visible here. *ret_again: that could not be seen now. */
static agent_source_t *
s_open_source(agent_sampler_t *self, const crema_spool_stream_t *stream, bool *ret_again)
{
    *ret_again = false;
    char prefix[3 + CREMA_ID_HEX_CHARS + 1] = "sp-";
    crema_id_hex(&stream->stream_id, prefix + 3);
    const agent_writer_t writer = {
        .prefix = prefix,
        .owner = stream->owner,
        .began_ns = crema_time_add(stream->info.t_mono_ns, crema_clock_suspended_ns())};
    bool here = !*stream->info.boot_id || strcmp(stream->info.boot_id, self->boot_id) == 0;
    agent_source_t *source = NULL;
    if (!here)
        return NULL;
    crema_err_t err = agent_source_new(self->config.proc, stream->info.pid, &source);
    bool is_short = err == CREMA_ENOMEM;
    int why = is_short ? errno : 0;
    if (err == CREMA_OK && !agent_source_is_writer(source, &writer)) {
        why = errno;
        is_short = agent_proc_is_short(why);
        self->hidden += !is_short && stream->owner != geteuid() && agent_source_is_hidden(source);
        agent_source_destroy(&source);
    }
    if (is_short)
        s_note_short(self, stream, why);
    *ret_again = is_short;
    return source;
}

/* Starts sampling a worker. True if a stream of the agent began. */
static bool
s_take_up(agent_sampler_t *self, crema_spool_t *spool, const crema_spool_stream_t *stream)
{
    crema_err_t err;
    worker_t *worker = crema_map_make(self->workers, &stream->stream_id, sizeof *worker, &err);
    if (!worker)
        return false;
    worker->stream_id = stream->stream_id;
    worker->dict_id = UNNAMED;
    worker->nthreads = stream->info.nthreads;
    worker->memory_limit_b = stream->info.memory_limit_b;
    worker->seen = self->follows;
    size_t runs = self->n_runs;
    bool again;
    worker->source = s_open_source(self, stream, &again);
    run_t *run = worker->source ? s_begin_run(self, spool, &stream->run_id, stream->owner) : NULL;
    if (!run) {
        if (worker->source)
            s_note_short(self, stream, errno);
        again |= worker->source != NULL;
        agent_source_destroy(&worker->source);
        if (again)
            (void)s_remove_worker(self, worker);
        return false;
    }
    worker->run = run;
    worker->sharing = s_count_sharing(self, worker, 1);
    run->n_workers++;
    s_write_name(run, worker, &stream->info);
    return self->n_runs > runs;
}

static bool
s_is_wanted(const agent_sampler_t *self, const crema_spool_stream_t *stream)
{
    return stream->info.kind == CREMA_STREAM_WORKER && !stream->closed &&
           !crema_id_is_zero(&stream->run_id) && !s_is_over(self, &stream->run_id) &&
           (crema_id_is_zero(&self->config.run_id) ||
            crema_id_equal(&self->config.run_id, &stream->run_id));
}

bool
agent_sampler_follow(agent_sampler_t *self, crema_spool_t *spool)
{
    bool changed = false;
    self->follows++;
    self->is_short = false;
    for (size_t i = 0; !self->stopped && i < crema_spool_count(spool); i++) {
        const crema_spool_stream_t *stream = crema_spool_stream(spool, i);
        if (!s_is_wanted(self, stream))
            continue;
        worker_t *worker = crema_map_find(self->workers, &stream->stream_id);
        if (!worker)
            changed = s_take_up(self, spool, stream) || changed;
        else if (worker->source && worker->dict_id == UNNAMED)
            s_write_name(worker->run, worker, &stream->info);
        if (worker)
            worker->seen = self->follows;
    }
    worker_t *gone;
    while ((gone = s_find(self, s_is_not_seen, &self->follows)))
        changed = s_remove_worker(self, gone) || changed;
    self->warned_short = self->warned_short && self->is_short;
    return changed;
}

uint64_t
agent_sampler_hidden(const agent_sampler_t *self)
{
    return self->hidden;
}

size_t
agent_sampler_workers(const agent_sampler_t *self)
{
    size_t n = 0;
    for (size_t i = 0; i < self->n_runs; i++)
        n += self->runs[i]->n_workers;
    return n;
}

/* ---- rows */

/* True for a process that records its own stream: it is not part of its ancestor. */
static bool
s_is_sampled_itself(void *context, int32_t pid)
{
    const agent_sampler_t *self = context;
    size_t cursor = 0;
    const worker_t *worker;
    while ((worker = crema_map_next(self->workers, &cursor)))
        if (worker->source && agent_source_pid(worker->source) == pid)
            return true;
    return false;
}

static int64_t
s_tighter(int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0)
        return a > 0 ? a : b > 0 ? b : -1;
    return a < b ? a : b;
}

static int64_t
s_share(share_t *share, int64_t whole_b, uint16_t among)
{
    if (whole_b < 0)
        return -1;
    share->own_b += (whole_b - share->whole_b) / among;
    share->whole_b = whole_b;
    return share->own_b;
}

static void
s_fill_row(crema_worker_samples_row_t *row, worker_t *worker, const agent_sample_t *sample)
{
    int64_t now_ns = crema_clock_mono_ns();
    if (worker->at_ns && now_ns > worker->at_ns)
        row->cpu_pct = 100.0 * (double)(sample->cpu_ns - worker->cpu_ns) /
                       (double)(now_ns - worker->at_ns) / worker->sharing;
    worker->at_ns = now_ns;
    worker->cpu_ns = sample->cpu_ns;
    row->rss_b = sample->rss_b < 0 ? -1 : sample->rss_b / worker->sharing;
    row->memory_limit_b = s_tighter(sample->memory_limit_b, worker->memory_limit_b);
    row->disk_read_b = s_share(&worker->read, sample->disk_read_b, worker->sharing);
    row->disk_write_b = s_share(&worker->write, sample->disk_write_b, worker->sharing);
    row->process_workers = worker->sharing;
    row->processes = sample->processes < UINT16_MAX ? (uint16_t)sample->processes : UINT16_MAX - 1;
    row->memory = sample->memory;
    row->worker_id = worker->dict_id;
    if (worker->nthreads > 0 && worker->nthreads < UINT16_MAX)
        row->nthreads = (uint16_t)worker->nthreads;
}

static void
s_write_rows(agent_sampler_t *self, const run_t *run)
{
    const uint32_t n = self->n_rows;
    self->n_rows = 0;
    if (n == 0)
        return;
    if (agent_stream_write_rows(run->writer, CREMA_TABLE_WORKER_SAMPLES, self->rows, n,
                                crema_clock_mono_ns()) == CREMA_OK)
        self->rows_written += n;
    else
        self->dropped += n;
}

void
agent_sampler_note_sent(agent_sampler_t *self, uint64_t records, uint64_t bytes)
{
    self->sent += records;
    self->sent_bytes += bytes;
}

/* The cost of serving the run; with several runs at a time, of all of them. */
static void
s_write_self(agent_sampler_t *self, const run_t *run, int64_t real_ns)
{
    crema_heartbeats_row_t row;
    crema_row_clear(crema_table(CREMA_TABLE_HEARTBEATS), (uint8_t *)&row);
    row.t_ns = real_ns;
    row.sent = (int64_t)(self->sent - run->sent);
    row.dropped = (int64_t)self->dropped;
    row.interval_s = self->config.heartbeat_interval_s;
    row.cost_s = (double)(crema_clock_cpu_ns() - run->cpu_ns) * 1e-9;
    row.written_b = (int64_t)(self->sent_bytes - run->sent_bytes);
    /* after a failure, the next row repeats this and more */
    (void)!agent_stream_write_rows(run->writer, CREMA_TABLE_HEARTBEATS, &row, 1,
                                   crema_clock_mono_ns());
}

static void
s_sample_run(agent_sampler_t *self, const run_t *run)
{
    int64_t real_ns = crema_clock_real_ns(), net_read_b, net_write_b;
    agent_network_read(self->network, &net_read_b, &net_write_b);
    size_t cursor = 0;
    worker_t *worker;
    while ((worker = crema_map_next(self->workers, &cursor))) {
        agent_sample_t sample;
        if (worker->run != run || worker->dict_id == UNNAMED ||
            agent_source_sample(worker->source, s_is_sampled_itself, self, &sample) != CREMA_OK)
            continue;
        if (sample.cut && !worker->cut_reported)
            worker->cut_reported =
                agent_stream_write_limit(run->writer, CREMA_LIMIT_AGENT_PROCESSES, 1, real_ns,
                                         crema_clock_mono_ns()) == CREMA_OK;
        if (self->n_rows == AGENT_STREAM_ROWS_MAX)
            s_write_rows(self, run);
        crema_worker_samples_row_t *row = &self->rows[self->n_rows++];
        crema_row_clear(crema_table(CREMA_TABLE_WORKER_SAMPLES), (uint8_t *)row);
        row->t_ns = real_ns;
        row->net_read_b = net_read_b;
        row->net_write_b = net_write_b;
        s_fill_row(row, worker, &sample);
    }
    s_write_rows(self, run);
    s_write_self(self, run, real_ns);
}

bool
agent_sampler_sample(agent_sampler_t *self)
{
    uint64_t before = self->rows_written;
    for (size_t i = 0; i < self->n_runs; i++)
        s_sample_run(self, self->runs[i]);
    return self->rows_written > before;
}

bool
agent_sampler_end_run(agent_sampler_t *self, const crema_id_t *run_id)
{
    if (!s_is_over(self, run_id))
        self->ended[self->n_ended++ % ENDED_MAX] = *run_id;
    run_t *run = s_run(self, run_id, NULL);
    bool had_one = run != NULL;
    for (; run; run = s_run(self, run_id, NULL)) {
        s_sample_run(self, run);
        for (bool ended = false; !ended;)
            ended = s_remove_worker(self, s_find(self, s_is_of_run, run));
    }
    return had_one;
}
