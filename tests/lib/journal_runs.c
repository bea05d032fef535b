/* Whole synthetic runs. */
#include <stdio.h>
#include <stdlib.h>

#include "journal_fixture.h"

/* Values of columns of enums. */
enum { STATUS_OK, STATUS_ERROR };
enum { EVENT_JOIN, EVENT_LEAVE, EVENT_LOST };
enum { EVIDENCE_EXPLICIT = 0, EVIDENCE_BOUNDARY = 3 };

static int64_t
s_at(double s)
{
    return FIXTURE_T0 + (int64_t)(s * 1e9 + 0.5);
}

static void
s_member(fixture_stream_t *scheduler, const char *worker, double s, int event, int evidence,
         int nthreads)
{
    int64_t id = fixture_name(scheduler, CREMA_DICT_WORKER, worker);
    fixture_row(scheduler, CREMA_TABLE_MEMBERSHIP);
    fixture_set(scheduler, "t_ns", s_at(s));
    fixture_set(scheduler, "worker_id", id);
    fixture_set(scheduler, "nthreads", nthreads);
    fixture_set(scheduler, "event", event);
    fixture_set(scheduler, "evidence", evidence);
    fixture_set(scheduler, "t_uncertainty_ns", 0);
    fixture_put(scheduler, 0);
}

/* Names of a chunk's row, and the row as it is when the chunk is taken up. */
static void
s_chunk(fixture_stream_t *stream, const char *worker, const char *dataset, int64_t chunk,
        int64_t ref, double start)
{
    char name[64], uuid[64];
    int64_t file_number = chunk / 4;
    snprintf(name, sizeof name, "root://site//store/%s/%lld.root", dataset, (long long)file_number);
    snprintf(uuid, sizeof uuid, "f-%s-%lld", dataset, (long long)file_number);
    int64_t worker_id = fixture_name(stream, CREMA_DICT_WORKER, worker);
    int64_t dataset_id = fixture_name(stream, CREMA_DICT_DATASET, dataset);
    int64_t file_id = fixture_file(stream, name, uuid, dataset_id);
    int64_t prefix_id = fixture_name(stream, CREMA_DICT_TASK_PREFIX, "Dijets");
    fixture_row(stream, CREMA_TABLE_CHUNKS);
    fixture_set(stream, "t_start_ns", s_at(start));
    fixture_set(stream, "chunk_id", 7000 + chunk);
    fixture_set(stream, "task_key", 9000 + chunk);
    fixture_set(stream, "worker_id", worker_id);
    fixture_set(stream, "dataset_id", dataset_id);
    fixture_set(stream, "file_id", file_id);
    fixture_set(stream, "task_prefix_id", prefix_id);
    fixture_set(stream, "thread", 0);
    fixture_set(stream, "status", 3);
    fixture_set(stream, "attempt_ref", ref);
}

static void
s_toy_chunk(fixture_stream_t *stream, const char *worker, int64_t chunk, int64_t ref, double start,
            double end, int64_t events, double cpu_s)
{
    s_chunk(stream, worker, "toy", chunk, ref, start);
    fixture_put(stream, CREMA_BATCH_PROVISIONAL);
    if (events == 0)
        return; /* it is killed before it can say more */
    s_chunk(stream, worker, "toy", chunk, ref, start);
    fixture_set(stream, "t_end_ns", s_at(end));
    fixture_real(stream, "wall_s", end - start);
    fixture_real(stream, "open_s", 0);
    fixture_real(stream, "cpu_s", cpu_s);
    fixture_set(stream, "n_events", events);
    fixture_set(stream, "bytes_read_b", events * 1000);
    fixture_set(stream, "status", STATUS_OK);
    fixture_put(stream, 0);
}

static void
s_toy(const char *dir, uint8_t number, int64_t t_end_ns, Crema__Reason *reasons, size_t n_reasons)
{
    static const char *const keys[] = {"run_label", "chunksize", "coffea.entries", NULL};
    static const char *const values[] = {"toy", "450", "1100", NULL};
    fixture_t *f = fixture_new(dir, number);
    fixture_open(f, s_at(0), keys, values, "Dijets");
    fixture_stream_t *scheduler = fixture_stream(f, 1, 1, CREMA_STREAM_SCHEDULER, "", 0, s_at(0));
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, s_at(0.001));
    s_member(scheduler, "tcp://A", 0.002, EVENT_JOIN, EVIDENCE_BOUNDARY, 1);
    s_toy_chunk(a, "tcp://A", 0, 1, 1, 4, 300, 2.0);
    s_member(scheduler, "tcp://B", 2, EVENT_JOIN, EVIDENCE_EXPLICIT, 1);
    fixture_stream_t *b = fixture_stream(f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 1, s_at(2));
    s_toy_chunk(b, "tcp://B", 1, 1, 2.5, 5.5, 300, 2.5);
    s_toy_chunk(a, "tcp://A", 2, 2, 4.5, 9, 450, 3.0);
    s_toy_chunk(b, "tcp://B", 3, 2, 6, 8, 0, 0);
    s_member(scheduler, "tcp://B", 8, EVENT_LOST, EVIDENCE_EXPLICIT, 1);
    fixture_end(b, CREMA_END_WRITER_GONE, s_at(8.1), 0, 0);
    s_toy_chunk(a, "tcp://A", 3, 3, 9, 9.8, 50, 0.7);
    s_member(scheduler, "tcp://A", 9.999, EVENT_LEAVE, EVIDENCE_BOUNDARY, 1);
    fixture_end(a, CREMA_END_FINISHED, s_at(10), 0, 0);
    fixture_end(scheduler, CREMA_END_FINISHED, s_at(10), 0, 0);
    fixture_seal(f, t_end_ns, reasons, n_reasons);
    fixture_close(&f);
}

void
fixture_toy(const char *dir, uint8_t number)
{
    s_toy(dir, number, s_at(10), NULL, 0);
}

void
fixture_revoked(const char *dir, uint8_t number)
{
    Crema__Reason reasons[] = {CREMA__REASON__INIT, CREMA__REASON__INIT};
    reasons[0].code = "run_not_ended";
    reasons[1].code = "key_revoked";
    s_toy(dir, number, s_at(4), reasons, 2);
}

/* ---- a busy run */

typedef struct {
    fixture_stream_t *stream;
    char name[64];
    double free_s[2]; /* when a slot is free again */
    double cpu_s, noncpu_s, failed_s;
    int64_t ref;
} busy_worker_t;

static void
s_total(fixture_stream_t *stream, const char *worker, double s, const char *activity, double total,
        bool baseline)
{
    int64_t worker_id = fixture_name(stream, CREMA_DICT_WORKER, worker);
    int64_t span_id = fixture_name(stream, CREMA_DICT_SPAN, "measured");
    int64_t prefix_id = fixture_name(stream, CREMA_DICT_TASK_PREFIX, "Dijets");
    int64_t activity_id = fixture_name(stream, CREMA_DICT_ACTIVITY, activity);
    int64_t unit_id = fixture_name(stream, CREMA_DICT_UNIT, "seconds");
    fixture_row(stream, CREMA_TABLE_ACTIVITIES);
    fixture_set(stream, "t1_ns", s_at(s));
    fixture_real(stream, "total", total);
    fixture_set(stream, "worker_id", worker_id);
    fixture_set(stream, "span_id", span_id);
    fixture_set(stream, "task_prefix_id", prefix_id);
    fixture_set(stream, "activity_id", activity_id);
    fixture_set(stream, "unit_id", unit_id);
    fixture_set(stream, "context", 0);
    fixture_set(stream, "side", CREMA_SIDE_PROCESSOR);
    fixture_set(stream, "baseline", baseline);
    fixture_put(stream, 0);
}

static void
s_sample(busy_worker_t *w, double s)
{
    int64_t worker_id = fixture_name(w->stream, CREMA_DICT_WORKER, w->name);
    fixture_row(w->stream, CREMA_TABLE_WORKER_SAMPLES);
    fixture_set(w->stream, "t_ns", s_at(s));
    fixture_real(w->stream, "cpu_pct", 90 + 3 * s);
    fixture_set(w->stream, "rss_b", 1000000000 + (int64_t)(1e6 * s));
    fixture_set(w->stream, "memory_limit_b", 4000000000);
    fixture_set(w->stream, "net_read_b", (int64_t)(1e8 * s));
    fixture_set(w->stream, "worker_id", worker_id);
    fixture_set(w->stream, "nthreads", 2);
    fixture_set(w->stream, "executing", 2);
    fixture_set(w->stream, "source", 2);
    fixture_put(w->stream, 0);
}

static void
s_extras(busy_worker_t *w, int64_t chunk, double s, double end)
{
    int64_t worker_id = fixture_name(w->stream, CREMA_DICT_WORKER, w->name);
    int64_t section_id = fixture_name(w->stream, CREMA_DICT_SECTION, "select jets");
    int64_t unit_id = fixture_name(w->stream, CREMA_DICT_UNIT, "count");
    int64_t metric_id = fixture_name(w->stream, CREMA_DICT_METRIC, "jets");
    int64_t prefix_id = fixture_name(w->stream, CREMA_DICT_TASK_PREFIX, "Dijets");
    fixture_row(w->stream, CREMA_TABLE_SECTIONS);
    fixture_set(w->stream, "t_start_ns", s_at(s));
    fixture_real(w->stream, "wall_s", (end - s) / 2);
    fixture_real(w->stream, "cpu_s", (end - s) / 3);
    fixture_real(w->stream, "self_s", (end - s) / 2);
    fixture_set(w->stream, "rss_start_b", 1000000000);
    fixture_set(w->stream, "rss_end_b", 1000000000 + 1000 * chunk);
    fixture_set(w->stream, "chunk_id", 7000 + chunk);
    fixture_set(w->stream, "section_id", section_id);
    fixture_set(w->stream, "worker_id", worker_id);
    fixture_put(w->stream, 0);
    fixture_row(w->stream, CREMA_TABLE_CUSTOM);
    fixture_set(w->stream, "t_ns", s_at(end));
    fixture_real(w->stream, "value", (double)chunk);
    fixture_set(w->stream, "chunk_id", 7000 + chunk);
    fixture_set(w->stream, "metric_id", metric_id);
    fixture_set(w->stream, "unit_id", unit_id);
    fixture_set(w->stream, "worker_id", worker_id);
    fixture_put(w->stream, 0);
    fixture_row(w->stream, CREMA_TABLE_TASK_EVENTS);
    fixture_set(w->stream, "t_start_ns", s_at(s));
    fixture_set(w->stream, "t_stop_ns", s_at(end));
    fixture_set(w->stream, "t_ready_ns", s_at(s - 0.05));
    fixture_set(w->stream, "task_key", 9000 + chunk);
    fixture_set(w->stream, "worker_id", worker_id);
    fixture_set(w->stream, "task_prefix_id", prefix_id);
    fixture_set(w->stream, "status", chunk % 17 == 16 ? 1 : 0);
    fixture_put(w->stream, 0);
    fixture_row(w->stream, CREMA_TABLE_HEARTBEATS);
    fixture_set(w->stream, "t_ns", s_at(end));
    fixture_set(w->stream, "sent", chunk);
    fixture_set(w->stream, "dropped", 0);
    fixture_real(w->stream, "interval_s", 1);
    fixture_set(w->stream, "worker_id", worker_id);
    fixture_put(w->stream, 0);
}

static void
s_busy_chunk(busy_worker_t *w, int64_t chunk, double *now)
{
    const char *dataset = chunk % 3 == 0 ? "slow" : "fast";
    int64_t events = 1000 + 137 * (chunk % 11);
    double wall = 0.1 + (double)events * (chunk % 3 == 0 ? 4e-4 : 1e-4);
    bool failed = chunk % 17 == 16;
    if (chunk == 40)
        wall *= 8; /* a straggler */
    double start = *now + 0.05, end = start + wall;
    w->ref++;
    s_chunk(w->stream, w->name, dataset, chunk, w->ref, start);
    fixture_put(w->stream, CREMA_BATCH_PROVISIONAL);
    s_chunk(w->stream, w->name, dataset, chunk, w->ref, start);
    fixture_set(w->stream, "t_end_ns", s_at(end));
    fixture_real(w->stream, "wall_s", wall);
    fixture_real(w->stream, "open_s", 0.02);
    fixture_real(w->stream, "cpu_s", 0.7 * wall);
    fixture_real(w->stream, "gc_s", 0.1 * wall);
    fixture_set(w->stream, "n_events", events);
    fixture_set(w->stream, "entry_start", chunk * 2000);
    fixture_set(w->stream, "entry_stop", chunk * 2000 + events);
    fixture_set(w->stream, "bytes_read_b", events * 1500);
    fixture_set(w->stream, "bytes_accessed_b", events * 1400);
    fixture_set(w->stream, "n_branches", 20 + events % 7);
    fixture_set(w->stream, "bytes_uncompressed_b", events * 4200);
    fixture_set(w->stream, "rss_peak_b", 1000000000 + 2000 * events);
    fixture_set(w->stream, "status", failed ? STATUS_ERROR : STATUS_OK);
    fixture_put(w->stream, 0);
    s_extras(w, chunk, start - 0.02, end + 0.01);
    if (!failed) {
        w->cpu_s += 0.7 * wall;
        w->noncpu_s += 0.3 * wall + 0.03;
        s_total(w->stream, w->name, end + 0.02, "thread-cpu", 5 + w->cpu_s, false);
        s_total(w->stream, w->name, end + 0.02, "thread-noncpu", w->noncpu_s, false);
    }
    if (failed) { /* Dask posts all seconds of a failed task as one lump */
        w->failed_s += wall + 0.03;
        s_total(w->stream, w->name, end + 0.02, "failed", w->failed_s, false);
    }
    s_sample(w, end + 0.02);
    *now = end + 0.02;
}

void
fixture_busy(const char *dir, uint8_t number, unsigned workers, unsigned chunks)
{
    static const char *const keys[] = {"run_label",        "chunksize", "n_files",
                                       "cores_per_worker", "facility",  NULL};
    static const char *const values[] = {"busy ü", "100000", "12", "2", "test", NULL};
    fixture_t *f = fixture_new(dir, number);
    busy_worker_t *all = calloc(workers, sizeof *all);
    double last = 0;
    fixture_open(f, s_at(0), keys, values, "Dijets");
    fixture_stream_t *scheduler = fixture_stream(f, 1, 1, CREMA_STREAM_SCHEDULER, "", 0, s_at(0));
    fixture_stream_t *agent = fixture_stream(f, 2, 1, CREMA_STREAM_AGENT, "", 0, s_at(0));
    for (unsigned i = 0; i < workers; i++) {
        busy_worker_t *w = &all[i];
        snprintf(w->name, sizeof w->name, "tcp://10.0.0.%u:4000", i);
        w->stream =
            fixture_stream(f, (uint8_t)(10 + i), 1, CREMA_STREAM_WORKER, w->name, 2, s_at(0.1 * i));
        s_member(scheduler, w->name, 0.1 * i, EVENT_JOIN, EVIDENCE_EXPLICIT, 2);
        s_total(w->stream, w->name, 0.1 * i, "thread-cpu", 5, true);
        w->free_s[0] = w->free_s[1] = 0.1 * i + 0.2;
    }
    for (unsigned c = 0; c < chunks; c++) {
        busy_worker_t *w = &all[c % workers];
        double *slot = w->free_s[0] <= w->free_s[1] ? &w->free_s[0] : &w->free_s[1];
        s_busy_chunk(w, c, slot);
        if (*slot > last)
            last = *slot;
    }
    for (unsigned i = 0; i < workers; i++) {
        bool killed = workers > 1 && i == workers - 1;
        if (killed)
            s_member(scheduler, all[i].name, last, EVENT_LOST, EVIDENCE_EXPLICIT, 2);
        fixture_end(all[i].stream, killed ? CREMA_END_WRITER_GONE : CREMA_END_FINISHED,
                    s_at(last + 0.1), 0, 0);
    }
    for (int i = 0; i < 3; i++)
        fixture_clock(f, 1, s_at(i), 100000, 200000);
    fixture_row(scheduler, CREMA_TABLE_TASK_DEPS);
    fixture_set(scheduler, "t_ns", s_at(last));
    fixture_set(scheduler, "task_key", 9001);
    fixture_set(scheduler, "dep_key", 9000);
    fixture_put(scheduler, 0);
    fixture_end(agent, CREMA_END_FINISHED, s_at(last + 0.2), 0, 0);
    fixture_end(scheduler, CREMA_END_FINISHED, s_at(last + 0.2), 0, 0);
    fixture_seal(f, s_at(last + 0.3), NULL, 0);
    fixture_close(&f);
    free(all);
}

/* ---- sizes */

void
fixture_plain(const char *dir, uint8_t number, unsigned samples)
{
    fixture_t *f = fixture_new(dir, number);
    fixture_open(f, s_at(0), NULL, NULL, "Dijets");
    fixture_stream_t *s = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, s_at(0));
    int64_t worker_id = fixture_name(s, CREMA_DICT_WORKER, "tcp://A");
    int64_t metric_id = fixture_name(s, CREMA_DICT_METRIC, "rate");
    int64_t unit_id = fixture_name(s, CREMA_DICT_UNIT, "Hz");
    unsigned noise = 12345;
    for (unsigned i = 0; i < samples; i++) {
        noise = noise * 1664525 + 1013904223;
        fixture_row(s, CREMA_TABLE_CUSTOM);
        fixture_set(s, "t_ns", s_at(0) + (int64_t)i * 1000000 + noise % 1000);
        fixture_real(s, "value", (double)(noise >> 8) / 1000);
        fixture_set(s, "chunk_id", 7000 + i / 64);
        fixture_set(s, "metric_id", metric_id);
        fixture_set(s, "unit_id", unit_id);
        fixture_set(s, "worker_id", worker_id);
        if (i % 64 == 63 || i + 1 == samples)
            fixture_put(s, 0);
    }
    fixture_end(s, CREMA_END_FINISHED, s_at(samples / 1000.0 + 1), 0, 0);
    fixture_seal(f, s_at(samples / 1000.0 + 1), NULL, 0);
    fixture_close(&f);
}
