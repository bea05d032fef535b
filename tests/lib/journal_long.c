/* Synthetic runs that are long, but have few names: what grows with the rows of a run, apart from
 * what grows with its names. */
#include <stdio.h>
#include <stdlib.h>

#include "journal_fixture.h"

enum { AT_ONCE = 64, DATASETS = 4, SLOTS = 2, PARTS = 3, TOTALS = 4 };

#define CHUNK_NS (2 * FIXTURE_S)

typedef struct {
    fixture_stream_t *stream;
    int64_t id, datasets[DATASETS], files[DATASETS], prefixes[PARTS], activities[TOTALS];
    int64_t seconds, section, metric;
    int64_t n; /* chunks so far */
} long_worker_t;

static void
s_name(fixture_t *f, long_worker_t *w, uint32_t i)
{
    static const char *const prefixes[PARTS] = {"Dijets", "preprocess", "reduce"};
    static const char *const activities[TOTALS] = {"thread-cpu", "thread-noncpu", "serialize",
                                                   "deserialize"};
    char name[64], uuid[64];
    snprintf(name, sizeof name, "tcp://10.0.%u.%u:4000", i / 250, i % 250);
    w->stream = fixture_stream(f, 10 + i, 1, CREMA_STREAM_WORKER, name, SLOTS, FIXTURE_T0);
    w->id = fixture_name(w->stream, CREMA_DICT_WORKER, name);
    w->seconds = fixture_name(w->stream, CREMA_DICT_UNIT, "seconds");
    w->section = fixture_name(w->stream, CREMA_DICT_SECTION, "select jets");
    w->metric = fixture_name(w->stream, CREMA_DICT_METRIC, "jets");
    for (int k = 0; k < PARTS; k++)
        w->prefixes[k] = fixture_name(w->stream, CREMA_DICT_TASK_PREFIX, prefixes[k]);
    for (int k = 0; k < TOTALS; k++)
        w->activities[k] = fixture_name(w->stream, CREMA_DICT_ACTIVITY, activities[k]);
    for (int k = 0; k < DATASETS; k++) {
        snprintf(name, sizeof name, "data-%d", k);
        snprintf(uuid, sizeof uuid, "f-%d", k);
        w->datasets[k] = fixture_name(w->stream, CREMA_DICT_DATASET, name);
        w->files[k] = fixture_file(w->stream, uuid, uuid, w->datasets[k]);
    }
}

/* Deterministic, and different from chunk to chunk. */
static int64_t
s_noise(int64_t chunk, int64_t below)
{
    uint64_t x = ((uint64_t)chunk + 1) * 0x9e3779b97f4a7c15u;
    return (int64_t)((x >> 33) % (uint64_t)below);
}

static int64_t
s_start_ns(const long_worker_t *w, int64_t i)
{
    return FIXTURE_T0 + (w->n + i) / SLOTS * CHUNK_NS + (w->n + i) % SLOTS * 1000 +
           s_noise(w->n + i, 100000000);
}

static int64_t
s_wall_ns(int64_t chunk)
{
    return 1000000000 + s_noise(chunk, 500000000);
}

static void
s_chunk_row(const long_worker_t *w, int64_t i, int64_t chunk, bool final)
{
    int64_t t_ns = s_start_ns(w, i), wall_ns = s_wall_ns(chunk);
    fixture_row(w->stream, CREMA_TABLE_CHUNKS);
    fixture_set(w->stream, "t_start_ns", t_ns);
    fixture_set(w->stream, "chunk_id", chunk + 1);
    fixture_set(w->stream, "task_key", chunk + 1);
    fixture_set(w->stream, "worker_id", w->id);
    fixture_set(w->stream, "dataset_id", w->datasets[chunk % DATASETS]);
    fixture_set(w->stream, "file_id", w->files[chunk % DATASETS]);
    fixture_set(w->stream, "task_prefix_id", w->prefixes[0]);
    fixture_set(w->stream, "attempt_ref", w->n + i + 1);
    fixture_set(w->stream, "status", final ? 0 : 3);
    if (!final)
        return;
    fixture_set(w->stream, "t_end_ns", t_ns + wall_ns);
    fixture_real(w->stream, "wall_s", (double)wall_ns * 1e-9);
    fixture_real(w->stream, "open_s", 0.02);
    fixture_real(w->stream, "cpu_s", (double)wall_ns * 7e-10);
    fixture_set(w->stream, "n_events", wall_ns / 10000);
    fixture_set(w->stream, "bytes_read_b", wall_ns / 10);
    fixture_set(w->stream, "rss_peak_b", 1000000000 + wall_ns / 100);
}

/* The chunk's own task, then one that prepares and one that merges. */
static void
s_task_rows(const long_worker_t *w, int64_t i, int64_t chunk)
{
    int64_t t_ns = s_start_ns(w, i), wall_ns = s_wall_ns(chunk);
    for (int64_t part = 0; part < PARTS; part++) {
        int64_t from = part == 0 ? t_ns - 30000000 : t_ns + wall_ns + 10000000 * part;
        int64_t to = part == 0 ? t_ns + wall_ns + 5000000 : from + 8000000;
        fixture_row(w->stream, CREMA_TABLE_TASK_EVENTS);
        fixture_set(w->stream, "t_start_ns", from);
        fixture_set(w->stream, "t_stop_ns", to);
        fixture_set(w->stream, "t_ready_ns", from - 1000000);
        fixture_set(w->stream, "t_submit_ns", from - 2000000);
        fixture_set(w->stream, "task_key", part == 0 ? chunk + 1 : -(PARTS * chunk + part));
        fixture_set(w->stream, "worker_id", w->id);
        fixture_set(w->stream, "task_prefix_id", w->prefixes[part]);
    }
}

static void
s_total_rows(const long_worker_t *w, int64_t i)
{
    for (int k = 0; k < TOTALS; k++) {
        fixture_row(w->stream, CREMA_TABLE_ACTIVITIES);
        fixture_set(w->stream, "t1_ns", s_start_ns(w, i) + CHUNK_NS);
        fixture_real(w->stream, "total", (double)(w->n + i + 1) * 0.3 * (k + 1));
        fixture_set(w->stream, "worker_id", w->id);
        fixture_set(w->stream, "task_prefix_id", w->prefixes[0]);
        fixture_set(w->stream, "activity_id", w->activities[k]);
        fixture_set(w->stream, "unit_id", w->seconds);
        fixture_set(w->stream, "side", CREMA_SIDE_PROCESSOR);
    }
}

static void
s_section_rows(const long_worker_t *w, int64_t i, int64_t chunk)
{
    for (int k = 0; k < 2; k++) {
        fixture_row(w->stream, CREMA_TABLE_SECTIONS);
        fixture_set(w->stream, "t_start_ns", s_start_ns(w, i) + k * 400000000);
        fixture_real(w->stream, "wall_s", (double)s_wall_ns(chunk) * 4e-10);
        fixture_real(w->stream, "self_s", (double)s_wall_ns(chunk) * 4e-10);
        fixture_set(w->stream, "chunk_id", chunk + 1);
        fixture_set(w->stream, "section_id", w->section);
        fixture_set(w->stream, "worker_id", w->id);
    }
}

static void
s_custom_row(const long_worker_t *w, int64_t i, int64_t chunk)
{
    fixture_row(w->stream, CREMA_TABLE_CUSTOM);
    fixture_set(w->stream, "t_ns", s_start_ns(w, i) + 900000000);
    fixture_real(w->stream, "value", (double)s_noise(chunk, 1000));
    fixture_set(w->stream, "chunk_id", chunk + 1);
    fixture_set(w->stream, "metric_id", w->metric);
    fixture_set(w->stream, "unit_id", w->seconds);
    fixture_set(w->stream, "worker_id", w->id);
}

static void
s_sample_row(const long_worker_t *w, int64_t i)
{
    fixture_row(w->stream, CREMA_TABLE_WORKER_SAMPLES);
    fixture_set(w->stream, "t_ns", s_start_ns(w, i) + 1000000000);
    fixture_real(w->stream, "cpu_pct", 150 + (double)s_noise(w->n + i, 50));
    fixture_set(w->stream, "rss_b", 1000000000 + s_noise(w->n + i, 1000000));
    fixture_set(w->stream, "memory_limit_b", 4000000000);
    fixture_set(w->stream, "worker_id", w->id);
    fixture_set(w->stream, "nthreads", SLOTS);
    fixture_set(w->stream, "executing", SLOTS);
    fixture_set(w->stream, "source", 2);
}

/* `n` chunks of one worker, table by table. */
static void
s_work(long_worker_t *w, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        s_chunk_row(w, i, first + i, false);
    fixture_put(w->stream, CREMA_BATCH_PROVISIONAL);
    for (int64_t i = 0; i < n; i++)
        s_chunk_row(w, i, first + i, true);
    fixture_put(w->stream, 0);
    for (int64_t i = 0; i < n; i++)
        s_task_rows(w, i, first + i);
    fixture_put(w->stream, 0);
    for (int64_t i = 0; i < n; i++)
        s_total_rows(w, i);
    fixture_put(w->stream, 0);
    for (int64_t i = 0; i < n; i++)
        s_section_rows(w, i, first + i);
    fixture_put(w->stream, 0);
    for (int64_t i = 0; i < n; i++)
        s_custom_row(w, i, first + i);
    fixture_put(w->stream, 0);
    for (int64_t i = 0; i < n; i++)
        s_sample_row(w, i);
    fixture_put(w->stream, 0);
    w->n += n;
}

void
fixture_long(const char *dir, uint8_t number, unsigned workers, unsigned chunks)
{
    fixture_t *f = fixture_new(dir, number);
    long_worker_t *all = calloc(workers, sizeof *all);
    fixture_open(f, FIXTURE_T0, NULL, NULL, "Dijets");
    for (uint32_t i = 0; i < workers; i++)
        s_name(f, &all[i], i);
    for (int64_t first = 0; first < chunks; first += AT_ONCE)
        s_work(&all[first / AT_ONCE % workers], first,
               chunks - first < AT_ONCE ? chunks - first : AT_ONCE);
    int64_t end_ns = s_start_ns(&all[0], 0) + 2 * CHUNK_NS;
    for (uint32_t i = 0; i < workers; i++)
        fixture_end(all[i].stream, CREMA_END_FINISHED, end_ns, 0, 0);
    fixture_seal(f, end_ns, NULL, 0);
    fixture_close(&f);
    free(all);
}
