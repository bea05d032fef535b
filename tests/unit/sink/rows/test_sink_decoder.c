/* sink_decoder: what becomes of the records of a run. */
#include <math.h>
#include <string.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_decoder_impl.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

typedef struct {
    fixture_t *f;
    fixture_stream_t *w; /* a worker's stream, number 2 */
} run_t;

static run_t
s_begin(const char **ret_dir)
{
    *ret_dir = scratch_dir("journal");
    run_t run = {.f = fixture_new(*ret_dir, 1)};
    fixture_open(run.f, T(0), NULL, NULL, "Dijets");
    run.w = fixture_stream(run.f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 2, T(0));
    return run;
}

static void
s_custom(fixture_stream_t *stream, double s, double value)
{
    fixture_row(stream, CREMA_TABLE_CUSTOM);
    fixture_set(stream, "t_ns", T(s));
    fixture_real(stream, "value", value);
    fixture_put(stream, 0);
}

static void
must_number_rows_by_record_and_stream(void **state)
{
    (void)state;
    const char *dir;
    run_t run = s_begin(&dir);
    fixture_row(run.w, CREMA_TABLE_CUSTOM);
    fixture_set(run.w, "t_ns", T(1));
    fixture_row(run.w, CREMA_TABLE_CUSTOM);
    fixture_set(run.w, "t_ns", T(2));
    fixture_put(run.w, 0);
    fixture_stream_t *other = fixture_stream(run.f, 3, 1, CREMA_STREAM_CLIENT, "", 0, T(0));
    s_custom(other, 3, 7.5);
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_CUSTOM), 3);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CUSTOM, 1, "seq"), 2);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CUSTOM, 2, "stream_id"), 1);
    assert_true(decoded_real(&d, CREMA_TABLE_CUSTOM, 2, "value") == 7.5);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CUSTOM, 2, "worker_id"), UINT32_MAX);
    assert_true(decoded_int(&d, CREMA_TABLE_CUSTOM, 2, "t_recv_ns") > FIXTURE_T0);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_DICT_STREAM), 2);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_STREAM, 1, "kind"), CREMA_STREAM_CLIENT);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_STREAM, 0, "t_first_ns"), T(0));
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_STREAM, 0, "t_last_ns"), T(2));
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_STREAM, 0, "last_seq"), 2);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_STREAM, 0, "closed"), 0);
    decoded_close(&d);
}

/* More rows than are taken out of a batch at a time. */
static void
must_keep_the_order_of_a_long_batch(void **state)
{
    (void)state;
    enum { ROWS = 2 * CREMA_BATCH_BLOCK + 3 };
    const char *dir;
    run_t run = s_begin(&dir);
    for (int i = 0; i < ROWS; i++) {
        fixture_row(run.w, CREMA_TABLE_CUSTOM);
        fixture_set(run.w, "t_ns", T(1) + i);
        fixture_real(run.w, "value", i);
    }
    fixture_put(run.w, 0);
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_CUSTOM), ROWS);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CUSTOM, i, "t_ns"), T(1) + i);
        assert_true(decoded_real(&d, CREMA_TABLE_CUSTOM, i, "value") == i);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CUSTOM, i, "seq"), 2);
    }
    decoded_close(&d);
}

/* Each stream numbers names for itself; the run has them once. */
static void
must_give_names_one_number_in_the_run(void **state)
{
    (void)state;
    const char *dir;
    run_t run = s_begin(&dir);
    fixture_stream_t *b = fixture_stream(run.f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 2, T(0));
    fixture_name(run.w, CREMA_DICT_DATASET, "tt");
    fixture_name(run.w, CREMA_DICT_DATASET, "dy");
    fixture_file(run.w, "a.root", "f1", 1);
    fixture_name(b, CREMA_DICT_DATASET, "dy");
    fixture_name(b, CREMA_DICT_DATASET, "tt");
    fixture_file(b, "b.root", "f2", 0);
    fixture_stream_t *streams[] = {run.w, b};
    for (int i = 0; i < 2; i++) {
        fixture_row(streams[i], CREMA_TABLE_CHUNKS);
        fixture_set(streams[i], "t_start_ns", T(1));
        fixture_set(streams[i], "dataset_id", 1);
        fixture_set(streams[i], "file_id", 0);
        fixture_set(streams[i], "task_prefix_id", 5); /* never named */
        fixture_put(streams[i], 0);
    }
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_DICT_DATASET), 2);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 0, "dataset_id"), 1); /* dy */
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "dataset_id"), 0); /* tt */
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "file_id"), 1);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "task_prefix_id"), UINT32_MAX);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_FILE, 0, "dataset_id"), 1);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_FILE, 1, "dataset_id"), 1); /* dy too */
    assert_int_equal(decoded_count(&d, CREMA_TABLE_DICT_WORKER), 2);
    assert_string_equal(decoded_text(&d, CREMA_TABLE_DICT_WORKER, 1, "uuid"), "uuid-tcp://B");
    decoded_close(&d);
}

static void
s_attempt(fixture_stream_t *w, int64_t ref, double start, double end, int status, uint32_t flags)
{
    int64_t worker = fixture_name(w, CREMA_DICT_WORKER, "tcp://A");
    fixture_row(w, CREMA_TABLE_CHUNKS);
    fixture_set(w, "t_start_ns", T(start));
    if (end > 0)
        fixture_set(w, "t_end_ns", T(end));
    fixture_set(w, "worker_id", worker);
    fixture_set(w, "chunk_id", 100 + ref);
    fixture_set(w, "status", status);
    fixture_set(w, "attempt_ref", ref);
    fixture_put(w, flags);
}

/* 1: finished. 2: provisional only, then the worker is seen to leave. */
static void
must_call_what_never_ended_lost(void **state)
{
    (void)state;
    const struct {
        double leaves, ends;
        double want_end;
    } cases[] = {
        {7, 9, 7}, /* as the scheduler saw it leave */
        {0, 9, 9}, /* as its stream ended */
        {0, 0, 6}, /* its last record */
        {4, 9, 9}, /* it left before this chunk: another life */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir;
        run_t run = s_begin(&dir);
        s_attempt(run.w, 1, 1, 0, CREMA_CHUNK_LOST, CREMA_BATCH_PROVISIONAL);
        s_attempt(run.w, 1, 1, 3, CREMA_CHUNK_OK, 0);
        s_attempt(run.w, 2, 5, 0, CREMA_CHUNK_LOST, CREMA_BATCH_PROVISIONAL);
        s_custom(run.w, 6, 1);
        if (cases[i].leaves > 0) {
            fixture_stream_t *s = fixture_stream(run.f, 3, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
            int64_t worker = fixture_name(s, CREMA_DICT_WORKER, "tcp://A");
            fixture_row(s, CREMA_TABLE_MEMBERSHIP);
            fixture_set(s, "t_ns", T(cases[i].leaves));
            fixture_set(s, "worker_id", worker);
            fixture_set(s, "event", 2);
            fixture_put(s, 0);
        }
        if (cases[i].ends > 0)
            fixture_end(run.w, CREMA_END_WRITER_GONE, T(cases[i].ends), 0, 0);
        fixture_close(&run.f);
        decoded_t d;
        decoded_open(&d, dir);
        assert_int_equal(decoded_count(&d, CREMA_TABLE_CHUNKS), 2);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 0, "status"), CREMA_CHUNK_OK);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 0, "quality"), 0);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "status"), CREMA_CHUNK_LOST);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "quality"),
                         SINK_QUALITY_RECONSTRUCTED);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 1, "t_end_ns"), T(cases[i].want_end));
        double wall_s = decoded_real(&d, CREMA_TABLE_CHUNKS, 1, "wall_s");
        assert_true(fabs(wall_s - (cases[i].want_end - 5)) < 1e-6);
        decoded_close(&d);
    }
}

static void
s_total(fixture_stream_t *w, double s, const char *prefix, const char *activity, int context,
        int mark, double total, bool baseline)
{
    int64_t prefix_id = fixture_name(w, CREMA_DICT_TASK_PREFIX, prefix);
    int64_t activity_id = fixture_name(w, CREMA_DICT_ACTIVITY, activity);
    int64_t unit_id = fixture_name(w, CREMA_DICT_UNIT, "seconds");
    fixture_row(w, CREMA_TABLE_ACTIVITIES);
    fixture_set(w, "t1_ns", T(s));
    fixture_real(w, "total", total);
    fixture_set(w, "task_prefix_id", prefix_id);
    fixture_set(w, "activity_id", activity_id);
    fixture_set(w, "unit_id", unit_id);
    fixture_set(w, "context", context);
    fixture_set(w, "side", mark);
    fixture_set(w, "baseline", baseline);
    fixture_put(w, 0);
}

static void
must_make_increments_and_sides_of_totals(void **state)
{
    (void)state;
    const struct {
        double s;
        const char *prefix, *activity;
        int context, mark;
        double total;
        bool baseline;
        double want_t0, want;
        crema_side_t want_side;
    } steps[] = {
        {1, "Dijets", "thread-cpu", 0, 0, 10, true, 1, 0, CREMA_SIDE_PROCESSOR},
        {2, "Dijets", "thread-cpu", 0, 0, 12, false, 1, 2, CREMA_SIDE_PROCESSOR},
        {3, "reduce", "thread-cpu", 0, 0, 4, false, 2, 4, CREMA_SIDE_MERGE},
        {4, "automatic_retries", "thread-cpu", 0, 0, 1, false, 3, 1, CREMA_SIDE_PREPROCESS},
        {4, "automatic_retries", "thread-cpu", 0, CREMA_SIDE_PROCESSOR, 6, false, 4, 6,
         CREMA_SIDE_PROCESSOR},
        {5, "Dijets", "deserialize", 0, 0, 1, false, 4, 1, CREMA_SIDE_RUNTIME},
        {5, "Dijets", "failed", 0, 0, 1, false, 5, 1, CREMA_SIDE_WASTED},
        {6, "", "network", 1, 0, 2, false, 5, 2, CREMA_SIDE_TRANSFER},
        {7, "Dijets", "thread-cpu", 0, 0, 20, false, 2, 8, CREMA_SIDE_PROCESSOR},
    };
    size_t n = sizeof steps / sizeof *steps;
    const char *dir;
    run_t run = s_begin(&dir);
    for (size_t i = 0; i < n; i++)
        s_total(run.w, steps[i].s, steps[i].prefix, steps[i].activity, steps[i].context,
                steps[i].mark, steps[i].total, steps[i].baseline);
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_ACTIVITIES), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(decoded_int(&d, CREMA_TABLE_ACTIVITIES, i, "t0_ns"), T(steps[i].want_t0));
        assert_true(decoded_real(&d, CREMA_TABLE_ACTIVITIES, i, "value") == steps[i].want);
        assert_int_equal(decoded_int(&d, CREMA_TABLE_ACTIVITIES, i, "side"), steps[i].want_side);
    }
    assert_string_equal(decoded_text(&d, CREMA_TABLE_DICT_TASK_PREFIX, 1, "rule"), "coffea:reduce");
    decoded_close(&d);
}

/* A prefix that chunks ran under is the processor's, whatever its name; so is a task event of that
 * very task. */
static void
must_go_by_the_identity_of_tasks(void **state)
{
    (void)state;
    const char *dir;
    run_t run = s_begin(&dir);
    int64_t prefix = fixture_name(run.w, CREMA_DICT_TASK_PREFIX, "automatic_retries");
    fixture_row(run.w, CREMA_TABLE_CHUNKS);
    fixture_set(run.w, "t_start_ns", T(1));
    fixture_set(run.w, "task_key", 77);
    fixture_set(run.w, "task_prefix_id", prefix);
    fixture_put(run.w, 0);
    const struct {
        int64_t key, action, status, side;
        crema_side_t want;
    } events[] = {
        {77, 0, 0, 0, CREMA_SIDE_PROCESSOR}, {78, 0, 0, 0, CREMA_SIDE_PREPROCESS},
        {77, 0, 1, 0, CREMA_SIDE_WASTED},    {78, 1, 0, 0, CREMA_SIDE_TRANSFER},
        {78, 2, 0, 0, CREMA_SIDE_RUNTIME},   {78, 0, 0, CREMA_SIDE_MERGE, CREMA_SIDE_MERGE},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        fixture_row(run.w, CREMA_TABLE_TASK_EVENTS);
        fixture_set(run.w, "t_start_ns", T(2));
        fixture_set(run.w, "task_key", events[i].key);
        fixture_set(run.w, "task_prefix_id", prefix);
        fixture_set(run.w, "action", events[i].action);
        fixture_set(run.w, "status", events[i].status);
        fixture_set(run.w, "side", events[i].side);
        fixture_put(run.w, 0);
    }
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_int_equal(decoded_int(&d, CREMA_TABLE_TASK_EVENTS, i, "side"), events[i].want);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_DICT_TASK_PREFIX, 0, "side"),
                     CREMA_SIDE_PROCESSOR);
    assert_string_equal(decoded_text(&d, CREMA_TABLE_DICT_TASK_PREFIX, 0, "rule"), "chunk");
    decoded_close(&d);
}

static void
s_must_be_gap(const decoded_t *d, size_t row, int cause, int64_t first, int64_t last, int64_t n,
              double from, double to)
{
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "cause"), cause);
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "first_seq"), first);
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "last_seq"), last);
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "n_lost"), n);
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "t_from_ns"), T(from));
    assert_int_equal(decoded_int(d, CREMA_TABLE_GAPS, row, "t_to_ns"), to == 0 ? 0 : T(to));
}

static void
must_show_every_loss_as_a_gap(void **state)
{
    (void)state;
    const char *dir;
    run_t run = s_begin(&dir);                           /* 1 */
    s_custom(run.w, 1, 1);                               /* 2 */
    fixture_lose(run.w, 10, CREMA_LOSS_EVICTED, T(1.5)); /* 3-12 */
    fixture_lose(run.w, 5, CREMA_LOSS_EVICTED, T(1.6));  /* 13-17: the same gap */
    s_custom(run.w, 2, 1);                               /* 18 */
    fixture_nonsense(run.w);                             /* 19 */
    s_custom(run.w, 3, 1);                               /* 20 */
    fixture_repeat(run.w);                               /* 20 again */
    fixture_skip(run.w, 3);                              /* 21-23 */
    s_custom(run.w, 4, 1);                               /* 24 */
    fixture_late(run.f);
    fixture_lose(run.w, 1, CREMA_LOSS_CORRUPT, T(4.5)); /* 25: nothing comes after it */
    fixture_stream_t *b = fixture_stream(run.f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 2, T(5));
    fixture_end(b, CREMA_END_WRITER_GONE, T(6), 17, 4); /* torn and with records dropped */
    fixture_stream_t *c = fixture_stream(run.f, 4, 1, CREMA_STREAM_WORKER, "tcp://C", 2, T(5));
    /* of nine records one for another cause */
    fixture_write_end(
        c, &(Crema__End){.dropped = 9, .dropped_disk_full = 5, .dropped_spool_limit = 3}, T(7));
    fixture_stream_t *e = fixture_stream(run.f, 5, 1, CREMA_STREAM_WORKER, "tcp://E", 2, T(5));
    /* a part that is larger than the whole */
    fixture_write_end(e, &(Crema__End){.dropped = 2, .dropped_spool_limit = UINT64_MAX}, T(7));
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_GAPS), 10);
    s_must_be_gap(&d, 0, CREMA_GAP_SPOOL_LIMIT, 3, 17, 15, 1, 2);
    s_must_be_gap(&d, 1, CREMA_GAP_DECODE_ERROR, 19, 19, 1, 2, 3);
    s_must_be_gap(&d, 2, CREMA_GAP_TORN, -1, -1, 1, 5, 5);
    s_must_be_gap(&d, 3, CREMA_GAP_CORRUPT, 21, 23, 3, 3, 4); /* what is behind it waited for it */
    s_must_be_gap(&d, 4, CREMA_GAP_CORRUPT, 25, 25, 1, 4, 0);
    s_must_be_gap(&d, 5, CREMA_GAP_UNKNOWN, -1, -1, 4, 6, 6);
    s_must_be_gap(&d, 6, CREMA_GAP_DISK_FULL, -1, -1, 5, 7, 7);
    s_must_be_gap(&d, 7, CREMA_GAP_SPOOL_LIMIT, -1, -1, 3, 7, 7);
    s_must_be_gap(&d, 8, CREMA_GAP_UNKNOWN, -1, -1, 1, 7, 7);
    s_must_be_gap(&d, 9, CREMA_GAP_SPOOL_LIMIT, -1, -1, 2, 7, 7);
    const sink_stream_t *a = sink_decoder_stream(d.run, 0);
    assert_int_equal(a->lost, 15 + 1 + 3 + 1);
    assert_int_equal(a->received, 5);
    assert_int_equal(a->repeats, 1);
    assert_int_equal(a->late, 1);
    assert_false(a->closed);
    const sink_stream_t *killed = sink_decoder_stream(d.run, 1);
    assert_true(killed->closed && killed->torn);
    assert_int_equal(killed->dropped, 4);
    assert_int_equal(killed->end, CREMA_END_WRITER_GONE);
    decoded_close(&d);
}

static void
must_name_the_stream_of_a_clocks_agent(void **state)
{
    (void)state;
    const char *dir;
    run_t run = s_begin(&dir);
    fixture_clock(run.f, 7, T(1), 5000, 100); /* before its stream is known */
    fixture_clock(run.f, 9, T(1), 6000, 100); /* never known */
    fixture_stream(run.f, 3, 7, CREMA_STREAM_AGENT, "", 0, T(0));
    fixture_clock(run.f, 7, T(2), 5000, 100);
    fixture_close(&run.f);
    decoded_t d;
    decoded_open(&d, dir);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_CLOCK), 3);
    int64_t named = 0, unnamed = 0;
    for (size_t i = 0; i < 3; i++) {
        int64_t stream = decoded_int(&d, CREMA_TABLE_CLOCK, i, "stream_id");
        named += stream == 1;
        unnamed += stream == UINT32_MAX;
    }
    assert_int_equal(named, 2);
    assert_int_equal(unnamed, 1);
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_number_rows_by_record_and_stream),
        cmocka_unit_test(must_keep_the_order_of_a_long_batch),
        cmocka_unit_test(must_give_names_one_number_in_the_run),
        cmocka_unit_test(must_call_what_never_ended_lost),
        cmocka_unit_test(must_make_increments_and_sides_of_totals),
        cmocka_unit_test(must_go_by_the_identity_of_tasks),
        cmocka_unit_test(must_show_every_loss_as_a_gap),
        cmocka_unit_test(must_name_the_stream_of_a_clocks_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
