/* What nobody told is not known, wherever it would be shown: a run of which one input is absent. */
#include <math.h>
#include <string.h>

#include "crema_metrics.h"
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_summary.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9 + 0.5))

enum { OK, ESTIMATED, INCOMPLETE, UNAVAILABLE };

static const struct {
    const char *name;
    double value;
    bool real;
} s_inputs[] = {
    {"wall_s", 2, true},
    {"open_s", 1, true},
    {"open_cpu_s", 0.5, true},
    {"cpu_s", 1.5, true},
    {"proc_cpu_s", 1.6, true},
    {"gc_s", 0.25, true},
    {"n_events", 100, false},
    {"bytes_read_b", 5000, false},
    {"bytes_accessed_b", 4000, false},
    {"bytes_uncompressed_b", 9000, false},
    {"rss_start_b", 1 << 20, false},
    {"rss_end_b", 2 << 20, false},
    {"rss_peak_b", 3 << 20, false},
};

static bool
s_absent(const char *input, const char *absent)
{
    return absent && (strcmp(absent, "all") == 0 || strcmp(absent, input) == 0);
}

/* One worker of one thread; two chunks that returned, a section in each. Of both, `absent` is not
 * said ("all": nothing is). */
static void
s_run(const char *absent, decoded_t *d)
{
    const char *dir = scratch_dir("unknown");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    int64_t worker = fixture_name(w, CREMA_DICT_WORKER, "tcp://A");
    int64_t dataset = fixture_name(w, CREMA_DICT_DATASET, "data");
    int64_t section = fixture_name(w, CREMA_DICT_SECTION, "jets");
    for (int i = 0; i < 2; i++) {
        fixture_row(w, CREMA_TABLE_CHUNKS);
        fixture_set(w, "t_start_ns", T(1 + 4 * i));
        fixture_set(w, "t_end_ns", T(3 + 4 * i));
        fixture_set(w, "chunk_id", 1 + i);
        fixture_set(w, "attempt_ref", 1 + i);
        fixture_set(w, "worker_id", worker);
        fixture_set(w, "dataset_id", dataset);
        fixture_set(w, "status", CREMA_CHUNK_OK);
        for (size_t k = 0; k < sizeof s_inputs / sizeof *s_inputs; k++) {
            if (s_absent(s_inputs[k].name, absent))
                continue;
            if (absent && strcmp(absent, "process") == 0 &&
                strncmp(s_inputs[k].name, "open_", 5) == 0)
                continue;
            if (s_inputs[k].real)
                fixture_real(w, s_inputs[k].name, s_inputs[k].value);
            else
                fixture_set(w, s_inputs[k].name, (int64_t)s_inputs[k].value);
        }
        if (absent && strcmp(absent, "process") == 0)
            fixture_set(w, "quality", SINK_QUALITY_WITH_OPENING);
        fixture_put(w, 0);
        fixture_row(w, CREMA_TABLE_SECTIONS);
        fixture_set(w, "t_start_ns", T(1 + 4 * i));
        fixture_set(w, "section_id", section);
        fixture_set(w, "worker_id", worker);
        if (!s_absent("bytes_read_b", absent))
            fixture_set(w, "bytes_read_b", 10);
        if (!s_absent("wall_s", absent))
            fixture_real(w, "wall_s", 0.5);
        if (!s_absent("cpu_s", absent))
            fixture_real(w, "cpu_s", 0.5);
        fixture_put(w, 0);
    }
    fixture_end(w, CREMA_END_FINISHED, T(10), 0, 0);
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_open(d, dir);
    decoded_facts(d);
    const sink_summary_t summary = {d->tables, d->run, d->facts, d->budget, d->model, false, NULL};
    must(sink_summary_fill(&summary));
}

static void
must_show_no_metric_whose_input_is_absent(void **state)
{
    (void)state;
    const struct {
        const char *absent, *unavailable[6];
    } cases[] = {
        {"wall_s",
         {"process_wall_time", "total_cpu_time", "chunk_wall_max", "event_rate_aggregated",
          "avg_cpu_time_per_chunk", "core_efficiency"}},
        {"open_s", {"open_time", "core_occupancy"}},
        {"cpu_s",
         {"process_cpu_time", "event_rate_per_cpu_s", "cpu_efficiency",
          "processor_cpu_time_seconds", "processor_noncpu_percentage", "noncpu_fraction_task"}},
        {"gc_s", {"gc_time"}},
        {"n_events",
         {"total_events", "event_rate_wall_clock", "chunk_s_per_event", "event_rate_per_cpu_s"}},
        {"bytes_read_b", {"total_bytes_read_coffea", "data_rate_gbps", "data_rate_mb_s"}},
        {"bytes_accessed_b", {"compression_ratio"}},
        {"bytes_uncompressed_b", {"compression_ratio", "total_bytes_uncompressed"}},
        {"rss_start_b", {"chunk_b_per_event_raw"}},
        {"rss_peak_b", {"peak_memory_per_worker"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int given = 0; given < 2; given++) {
            decoded_t d;
            s_run(given ? NULL : cases[i].absent, &d);
            for (size_t k = 0; k < 6 && cases[i].unavailable[k]; k++) {
                int64_t status;
                double value = decoded_metric(&d, cases[i].unavailable[k], &status);
                if (isnan(value) == given || (status == UNAVAILABLE) == given)
                    fail_msg("%s, %s %s: %g, status %d", cases[i].unavailable[k], cases[i].absent,
                             given ? "given" : "absent", value, (int)status);
            }
            decoded_close(&d);
        }
}

/* Opening is inside the duration, and nothing says when it ended: that duration is not
 * process()'s. */
static void
must_not_call_process_what_has_opening_in_it(void **state)
{
    (void)state;
    static const char *const metrics[] = {"process_wall_time", "total_cpu_time", "chunk_wall_max",
                                          "core_efficiency",   "speedup",        "open_time",
                                          "core_occupancy"};
    for (int whole = 0; whole < 2; whole++) {
        decoded_t d;
        int64_t status;
        s_run(whole ? NULL : "process", &d);
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
            double value = decoded_metric(&d, metrics[i], &status);
            if (isnan(value) == whole || (status == UNAVAILABLE) == whole)
                fail_msg("%s: %g, status %d", metrics[i], value, (int)status);
        }
        assert_int_equal(isnan(decoded_real(&d, CREMA_TABLE_PER_DATASET, 0, "wall_s")), !whole);
        assert_int_equal(isnan(decoded_real(&d, CREMA_TABLE_EFFICIENCY, 0, "process_s")), !whole);
        assert_int_equal(decoded_count(&d, CREMA_TABLE_BOTTLENECKS), CREMA_BOTTLENECK_COUNT);
        for (size_t row = 0; row < CREMA_BOTTLENECK_COUNT; row++) {
            const char *name = decoded_text(&d, CREMA_TABLE_BOTTLENECKS, row, "name");
            if (strcmp(name, "opening") != 0)
                continue;
            double s = decoded_real(&d, CREMA_TABLE_BOTTLENECKS, row, "thread_seconds");
            status = decoded_int(&d, CREMA_TABLE_BOTTLENECKS, row, "status");
            if (isnan(s) == whole || (status == UNAVAILABLE) == whole)
                fail_msg("opening: %g s, status %d", s, (int)status);
        }
        decoded_close(&d);
    }
}

/* What is known of every attempt is no estimate. */
static void
must_not_call_an_estimate_what_is_known(void **state)
{
    (void)state;
    static const char *const metrics[] = {"open_time", "process_cpu_time",
                                          "total_bytes_read_coffea"};
    decoded_t d;
    s_run(NULL, &d);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        int64_t status;
        (void)decoded_metric(&d, metrics[i], &status);
        if (status != CREMA_STATUS_OK)
            fail_msg("%s: status %d", metrics[i], (int)status);
    }
    decoded_close(&d);
}

/* Rows of the summaries with a figure that follows from chunks, of which nothing was told. */
static void
must_know_nothing_where_nothing_was_told(void **state)
{
    (void)state;
    static const struct {
        crema_table_id_t table;
        const char *columns[6];
    } tables[] = {
        {CREMA_TABLE_PER_WORKER,
         {"n_events", "cpu_s", "noncpu_s", "bytes_read_b", "rss_peak_b", "event_rate_hz"}},
        {CREMA_TABLE_PER_DATASET,
         {"n_events", "wall_s", "cpu_s", "bytes_b", "event_rate_hz", "s_per_event"}},
        {CREMA_TABLE_PER_PASS, {"n_events", "wall_s", "open_s", "cpu_s", "bytes_read_b"}},
        {CREMA_TABLE_PER_SECTION,
         {"wall_s", "self_s", "cpu_s", "dur_mean_s", "dur_max_s", "bytes_b"}},
        {CREMA_TABLE_EFFICIENCY, {"events", "process_s", "cpu_s", "x_total_hz", "pe"}},
    };
    decoded_t d;
    s_run("all", &d);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const crema_table_t *t = crema_table(tables[i].table);
        assert_int_equal(decoded_count(&d, t->id), 1);
        for (size_t k = 0; k < 6 && tables[i].columns[k]; k++) {
            int column = crema_table_column(t, tables[i].columns[k]);
            bool real = t->columns[column].type == CREMA_T_F64;
            if (real ? !isnan(decoded_real(&d, t->id, 0, tables[i].columns[k]))
                     : decoded_int(&d, t->id, 0, tables[i].columns[k]) != -1)
                fail_msg("/%s has a %s", t->path, tables[i].columns[k]);
        }
    }
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_SPLIT); i++)
        if (decoded_int(&d, CREMA_TABLE_SPLIT, i, "bytes_b") == 0)
            assert_string_equal(decoded_text(&d, CREMA_TABLE_SPLIT, i, "side"), "idle");
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_BOTTLENECKS); i++)
        assert_null(strstr(decoded_text(&d, CREMA_TABLE_BOTTLENECKS, i, "evidence"), "nan"));
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_WORKFLOW); i++) {
        double value = decoded_real(&d, CREMA_TABLE_WORKFLOW, i, "value");
        int64_t status = decoded_int(&d, CREMA_TABLE_WORKFLOW, i, "status");
        if (isnan(value) != (status == UNAVAILABLE))
            fail_msg("%s", decoded_text(&d, CREMA_TABLE_WORKFLOW, i, "name"));
    }
    decoded_close(&d);
}

/* Some chunks know, some do not: a sum over those that do, which says so. */
static void
must_call_a_sum_with_gaps_an_estimate(void **state)
{
    (void)state;
    sink_sum_t sum = {0};
    assert_true(sink_sum(&sum) == 0);
    sink_sum_add(&sum, NAN);
    assert_true(isnan(sink_sum(&sum)));
    sink_sum_add(&sum, 3);
    assert_true(sink_sum(&sum) == 3);
    assert_true(sum.n_known < sum.n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_show_no_metric_whose_input_is_absent),
        cmocka_unit_test(must_not_call_process_what_has_opening_in_it),
        cmocka_unit_test(must_not_call_an_estimate_what_is_known),
        cmocka_unit_test(must_know_nothing_where_nothing_was_told),
        cmocka_unit_test(must_call_a_sum_with_gaps_an_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
