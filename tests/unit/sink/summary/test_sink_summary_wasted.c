/* /summary/wasted of a synthetic run: every reason, of chunks and of tasks, by worker; what was
 * made good, what was not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_summary.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9 + 0.5))
#define EVENTS 100

enum { TASK_OK, TASK_ERROR, TASK_CANCELLED, TASK_LOST };

typedef struct {
    double start, end;
    int64_t chunk; /* its entries are [chunk x EVENTS, (chunk + 1) x EVENTS) */
    int64_t status;
} attempt_t;

static int64_t s_refs;

/* A lost attempt is a provisional row whose last word never came. */
static void
s_chunk(fixture_stream_t *w, const char *worker, const attempt_t *a)
{
    int64_t worker_id = fixture_name(w, CREMA_DICT_WORKER, worker);
    fixture_row(w, CREMA_TABLE_CHUNKS);
    fixture_set(w, "t_start_ns", T(a->start));
    fixture_set(w, "worker_id", worker_id);
    fixture_set(w, "chunk_id", a->chunk);
    fixture_set(w, "task_key", 1000 + a->chunk);
    fixture_set(w, "submission_key", 5);
    fixture_set(w, "attempt_ref", ++s_refs);
    fixture_set(w, "status", a->status);
    fixture_set(w, "entry_start", a->chunk * EVENTS);
    fixture_set(w, "entry_stop", (a->chunk + 1) * EVENTS);
    if (a->status != CREMA_CHUNK_LOST) {
        fixture_set(w, "t_end_ns", T(a->end));
        fixture_real(w, "wall_s", a->end - a->start);
    }
    fixture_put(w, a->status == CREMA_CHUNK_LOST ? CREMA_BATCH_PROVISIONAL : 0);
}

static void
s_task(fixture_stream_t *w, const char *worker, int64_t key, double start, double end,
       int64_t status)
{
    int64_t worker_id = fixture_name(w, CREMA_DICT_WORKER, worker);
    int64_t prefix_id = fixture_name(w, CREMA_DICT_TASK_PREFIX, "reduce");
    fixture_row(w, CREMA_TABLE_TASK_EVENTS);
    fixture_set(w, "t_start_ns", T(start));
    fixture_set(w, "t_stop_ns", T(end));
    fixture_set(w, "task_key", key);
    fixture_set(w, "worker_id", worker_id);
    fixture_set(w, "task_prefix_id", prefix_id);
    fixture_set(w, "action", 0);
    fixture_set(w, "status", status);
    fixture_put(w, 0);
}

static void
s_member(fixture_stream_t *s, const char *worker, double t, int64_t event)
{
    int64_t worker_id = fixture_name(s, CREMA_DICT_WORKER, worker);
    fixture_row(s, CREMA_TABLE_MEMBERSHIP);
    fixture_set(s, "t_ns", T(t));
    fixture_set(s, "worker_id", worker_id);
    fixture_set(s, "nthreads", 1);
    fixture_set(s, "event", event);
    fixture_put(s, 0);
}

/* A does everything again that B, which is killed at 20 s, did in vain; chunk 9 fails for good. */
static void
s_write(const char *dir)
{
    enum { JOIN = 0, LEAVE = 1, LOST = 2 };
    const attempt_t of_a[] = {
        {0, 1, 1, CREMA_CHUNK_OK},        {1, 3, 2, CREMA_CHUNK_ERROR},
        {3, 6, 9, CREMA_CHUNK_ERROR},     {6, 10, 3, CREMA_CHUNK_CANCELLED},
        {21, 22, 2, CREMA_CHUNK_OK},      {22, 23, 3, CREMA_CHUNK_OK},
        {23, 24, 4, CREMA_CHUNK_OK},      {24, 25, 5, CREMA_CHUNK_OK},
        {25, 26, 6, CREMA_CHUNK_PARTIAL},
    };
    const attempt_t of_b[] = {
        {0, 5, 4, CREMA_CHUNK_OK},
        {5, 11, 5, CREMA_CHUNK_OK},
        {11, 13, 6, CREMA_CHUNK_PARTIAL},
        {13, 0, 6, CREMA_CHUNK_LOST},
    };
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *s = fixture_stream(f, 1, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    fixture_stream_t *b = fixture_stream(f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 1, T(0));
    s_member(s, "tcp://A", 0, JOIN);
    s_member(s, "tcp://B", 0, JOIN);
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++)
        s_chunk(a, "tcp://A", &of_a[i]);
    for (size_t i = 0; i < sizeof of_b / sizeof *of_b; i++)
        s_chunk(b, "tcp://B", &of_b[i]);
    s_task(a, "tcp://A", 71, 10, 11, TASK_ERROR);
    s_task(a, "tcp://A", 72, 11, 13, TASK_CANCELLED);
    s_task(a, "tcp://A", 73, 13, 16, TASK_OK);
    s_task(a, "tcp://A", 73, 17, 18, TASK_CANCELLED); /* its result was there before */
    s_task(a, "tcp://A", 71, 26, 27, TASK_OK);
    s_task(s, "tcp://B", 71, 13, 20, TASK_LOST);
    s_member(s, "tcp://B", 20, LOST);
    fixture_end(b, CREMA_END_WRITER_GONE, T(20), 0, 0);
    s_member(s, "tcp://A", 30, LEAVE);
    fixture_end(a, CREMA_END_FINISHED, T(30), 0, 0);
    fixture_end(s, CREMA_END_FINISHED, T(30), 0, 0);
    fixture_seal(f, T(30), NULL, 0);
    fixture_close(&f);
}

static void
must_have_every_reason_by_worker(void **state)
{
    (void)state;
    enum { ERROR, CANCELLED, LOST, SUPERSEDED };
    enum { CHUNK, TASK };
    const struct {
        const char *worker;
        int what, reason, attempts, recovered, events;
        double s;
    } want[] = {
        {"tcp://A", CHUNK, ERROR, 2, 1, 2 * EVENTS, 5},
        {"tcp://A", CHUNK, CANCELLED, 1, 1, EVENTS, 4},
        {"tcp://A", TASK, ERROR, 1, 1, -1, 1},
        {"tcp://A", TASK, CANCELLED, 2, 0, -1, 3},
        {"tcp://B", CHUNK, LOST, 1, 1, EVENTS, 7},
        {"tcp://B", CHUNK, SUPERSEDED, 3, 3, 3 * EVENTS, 5 + 6 + 2},
        {"tcp://B", TASK, LOST, 1, 1, -1, 7},
    };
    const size_t n = sizeof want / sizeof *want;
    const crema_table_id_t t = CREMA_TABLE_WASTED;
    const char *dir = scratch_dir("wasted");
    decoded_t d;
    s_write(dir);
    decoded_open(&d, dir);
    decoded_facts(&d);
    const sink_summary_t summary = {d.tables, d.run, d.facts, d.budget, d.model, false, NULL};
    must(sink_summary_fill(&summary));
    assert_int_equal(decoded_count(&d, t), n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(decoded_text(&d, t, i, "worker"), want[i].worker);
        assert_int_equal(decoded_int(&d, t, i, "what"), want[i].what);
        assert_int_equal(decoded_int(&d, t, i, "reason"), want[i].reason);
        assert_int_equal(decoded_int(&d, t, i, "n_attempts"), want[i].attempts);
        assert_int_equal(decoded_int(&d, t, i, "n_recovered"), want[i].recovered);
        assert_int_equal(decoded_int(&d, t, i, "n_events"), want[i].events);
        assert_true(fabs(decoded_real(&d, t, i, "wall_s") - want[i].s) < 1e-6);
        sum += want[i].s;
    }
    /* The waterfall has the same seconds, and each worker its own. */
    assert_true(fabs(d.budget->all.wasted_s - sum) < 1e-6);
    for (size_t w = 0; w < 2; w++) {
        double of_worker = 0;
        for (size_t i = 0; i < n; i++)
            if (strcmp(want[i].worker, decoded_text(&d, CREMA_TABLE_PER_WORKER, w, "worker")) == 0)
                of_worker += want[i].s;
        assert_true(fabs(decoded_real(&d, CREMA_TABLE_PER_WORKER, w, "wasted_s") - of_worker) <
                    1e-6);
    }
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_have_every_reason_by_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
