/* sink_summary against what was worked out by hand or published: the toy run to its last digit,
 * the cases that roastcoffea's formulas are tested with, the POP factors of NAG's example. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_metrics.h"
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_summary.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9 + 0.5))

enum { OK, ESTIMATED, INCOMPLETE, UNAVAILABLE };

static void
s_summarize(decoded_t *d, bool partial)
{
    decoded_facts(d);
    const sink_summary_t summary = {d->tables, d->run,  d->facts, d->budget,
                                    d->model,  partial, NULL};
    must(sink_summary_fill(&summary));
}

/* Equal in as many digits as were printed. */
static void
s_must_print(double value, const char *want, const char *what)
{
    char text[64];
    const char *point = strchr(want, '.');
    snprintf(text, sizeof text, "%.*f", point ? (int)strlen(point + 1) : 0, value);
    if (strcmp(text, want) != 0)
        fail_msg("%s is %s (%.12g), not %s", what, text, value, want);
}

static double
s_waterfall(const decoded_t *d, const char *category)
{
    for (size_t i = 0; i < decoded_count(d, CREMA_TABLE_WATERFALL); i++)
        if (strcmp(decoded_text(d, CREMA_TABLE_WATERFALL, i, "category"), category) == 0)
            return decoded_real(d, CREMA_TABLE_WATERFALL, i, "thread_seconds");
    fail_msg("no %s in the waterfall", category);
    return NAN;
}

/* ---- the toy run */

static void
must_equal_the_toy_run_worked_out_by_hand(void **state)
{
    (void)state;
    const struct {
        const char *name, *want;
    } metrics[] = {
        {"wall_time", "10"},
        {"total_events", "1100"},
        {"total_cpu_time", "11.3"},
        {"process_wall_time", "11.3"},
        {"process_cpu_time", "8.2"},
        {"processor_noncpu_time_seconds", "3.1"},
        {"num_chunks", "4"},
        {"num_attempts", "5"},
        {"num_lost_attempts", "1"},
        {"event_rate_wall_clock", "0.110"},
        {"event_rate_aggregated", "0.0973451"},
        {"event_rate_per_cpu_s", "134.1463"},
        {"event_rate_core_averaged", "68.75"},
        {"time_avg_workers", "1.6"},
        {"time_avg_workers_raw", "1.4"},
        {"total_cores", "1.6"},
        {"total_cores_raw", "1.4"},
        {"cpu_efficiency_raw", "0.807143"},
        {"core_efficiency", "0.70625"},
        {"peak_workers", "2"},
        {"speedup", "1.13"},
        {"mean_busy_slots", "1.13"},
        {"efficiency_ratio_raw", "1.13"},
        {"core_occupancy", "0.70625"},
        {"efficiency_ratio", "0.70625"},
        {"cpu_efficiency", "0.5125"},
        {"io_overhead_raw", "0.31"},
        {"noncpu_fraction_task", "0.274336"},
        {"noncpu_fraction_alloc", "0.19375"},
        {"avg_cpu_time_per_chunk", "2.825"},
        {"chunk_wall_max", "4.5"},
        {"closure_events_chunks_vs_report", "1"},
        {"closure_waterfall_residual", "0"},
    };
    const struct {
        const char *column, *want;
    } efficiency[] = {
        {"wall_s", "10"},         {"alloc_s", "16"},
        {"cap_s", "20"},          {"process_s", "11.3"},
        {"cpu_s", "8.2"},         {"n_threads_avg", "1.6"},
        {"n_threads_peak", "2"},  {"x_total_hz", "110"},
        {"x_steady_hz", "125.0"}, {"n_threads_steady", "1.681818"},
        {"pe", "0.5125"},         {"lb", "0.899123"},
        {"sched_e", "0.57"},      {"alloc_e", "0.8"},
        {"tail_s", "0.8"},        {"tail_loss", "0"},
        {"t_inf_s", "4.5"},
    };
    const struct {
        const char *category, *want;
    } waterfall[] = {
        {"processor_cpu", "8.2"}, {"processor_noncpu", "3.1"}, {"user_metered", "0.0"},
        {"runtime", "0.0"},       {"wasted", "2.0"},           {"idle_startup", "1.0"},
        {"idle_join", "0.5"},     {"idle_starved", "1.0"},     {"idle_drained", "0.2"},
        {"idle_tail", "0.0"},     {"idle_latency", "0.0"},     {"absent", "4.0"},
        {"overhead", "0.0"},      {"unattributed", "0.0"},
    };
    const char *dir = scratch_dir("toy");
    decoded_t d;
    fixture_toy(dir, 1);
    decoded_open(&d, dir);
    s_summarize(&d, false);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        s_must_print(decoded_metric(&d, metrics[i].name, NULL), metrics[i].want, metrics[i].name);
    for (size_t i = 0; i < sizeof efficiency / sizeof *efficiency; i++)
        s_must_print(decoded_real(&d, CREMA_TABLE_EFFICIENCY, 0, efficiency[i].column),
                     efficiency[i].want, efficiency[i].column);
    for (size_t i = 0; i < sizeof waterfall / sizeof *waterfall; i++)
        s_must_print(s_waterfall(&d, waterfall[i].category), waterfall[i].want,
                     waterfall[i].category);
    assert_true(fabs(s_waterfall(&d, "residual")) < 1e-9);
    double sum = 0;
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_WATERFALL); i++)
        sum += decoded_real(&d, CREMA_TABLE_WATERFALL, i, "thread_seconds");
    s_must_print(sum, "20.000000000", "the waterfall");
    assert_int_equal(decoded_int(&d, CREMA_TABLE_EFFICIENCY, 0, "t_steady_start_ns"), T(1));
    assert_int_equal(decoded_int(&d, CREMA_TABLE_EFFICIENCY, 0, "t_steady_end_ns"), T(9.8));
    s_must_print(11.3 / decoded_real(&d, CREMA_TABLE_EFFICIENCY, 0, "t_inf_s"), "2.511111",
                 "P/T_inf");
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 0, "b_s_per_event"), "0.00925", "b");
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 0, "a_s"), "0.28125", "a");
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 0, "n_opt_events"), "144.581", "n*");
    s_must_print(decoded_real(&d, CREMA_TABLE_PER_WORKER, 0, "cpu_s") / 10, "0.57", "u_A");
    s_must_print(decoded_real(&d, CREMA_TABLE_PER_WORKER, 1, "cpu_s") / 6, "0.416667", "u_B");
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, 4, "attempt"), 2);
    const struct {
        double s;
        int64_t threads;
    } counts[] = {{0, 1}, {2, 2}, {8, 1}};
    assert_int_equal(decoded_count(&d, CREMA_TABLE_WORKER_COUNT), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(decoded_int(&d, CREMA_TABLE_WORKER_COUNT, i, "t_ns"), T(counts[i].s));
        assert_int_equal(decoded_int(&d, CREMA_TABLE_WORKER_COUNT, i, "n_threads"),
                         counts[i].threads);
    }
    decoded_close(&d);
}

static void
must_divide_the_toy_run_by_cause(void **state)
{
    (void)state;
    /* Half of its capacity is not there or idle; one attempt was lost, and with it its thread for
     * 2 s; nobody looked at its threads. */
    const struct {
        const char *name, *want;
    } rows[] = {
        {"compute", "8.2"}, {"scaling", "2.5"}, {"waiting", "3.1"}, {"wasted", "4.0"},
        {"startup", "1.0"}, {"starved", "1.0"}, {"drained", "0.2"},
    };
    const char *dir = scratch_dir("toy");
    decoded_t d;
    fixture_toy(dir, 1);
    decoded_open(&d, dir);
    s_summarize(&d, false);
    double sum = 0;
    size_t n = decoded_count(&d, CREMA_TABLE_BOTTLENECKS);
    assert_int_equal(n, CREMA_BOTTLENECK_COUNT);
    for (size_t i = 0; i < n; i++) {
        double s = decoded_real(&d, CREMA_TABLE_BOTTLENECKS, i, "thread_seconds");
        sum += isnan(s) ? 0 : s;
        if (strcmp(decoded_text(&d, CREMA_TABLE_BOTTLENECKS, i, "name"), "cores") == 0)
            assert_true(isnan(s)); /* the kernel was not asked */
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strcmp(decoded_text(&d, CREMA_TABLE_BOTTLENECKS, i, "name"), rows[k].name) == 0) {
                s_must_print(s, rows[k].want, rows[k].name);
                /* Two threads at most: each second of theirs is half a second of the run. */
                double saving_s = decoded_real(&d, CREMA_TABLE_BOTTLENECKS, i, "saving_s");
                if (strcmp(rows[k].name, "waiting") == 0)
                    assert_true(isnan(saving_s)); /* of what nothing is known */
                else
                    s_must_print(2 * saving_s, rows[k].want, rows[k].name);
            }
    }
    s_must_print(sum, "20.000000000", "the bottlenecks");
    decoded_close(&d);
}

static void
must_have_a_row_for_every_metric(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    decoded_t d;
    fixture_busy(dir, 1, 3, 60);
    decoded_open(&d, dir);
    s_summarize(&d, false);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_WORKFLOW), crema_metric_count());
    for (size_t i = 0; i < crema_metric_count(); i++) {
        const crema_metric_t *m = crema_metric(i);
        assert_string_equal(decoded_text(&d, CREMA_TABLE_WORKFLOW, i, "name"), m->name);
        assert_string_equal(decoded_text(&d, CREMA_TABLE_WORKFLOW, i, "units"), m->units);
        assert_string_equal(decoded_text(&d, CREMA_TABLE_WORKFLOW, i, "definition"), m->formula);
        int64_t status;
        double value = decoded_metric(&d, m->name, &status);
        assert_true(isnan(value) == (status == UNAVAILABLE));
    }
    decoded_close(&d);
}

static void
must_never_show_a_silent_zero(void **state)
{
    (void)state;
    static const char *const unknown[] = {"cpu_time_seconds",
                                          "disk_read_bytes",
                                          "overhead_cpu_time_seconds",
                                          "avg_memory_per_worker",
                                          "compression_ratio",
                                          "num_chunks_submitted",
                                          "wire_rate_gbps",
                                          "num_columns",
                                          "speedup_measured",
                                          "closure_bytes_chunks_vs_report"};
    const char *dir = scratch_dir("toy");
    decoded_t d;
    fixture_toy(dir, 1);
    decoded_open(&d, dir);
    s_summarize(&d, true);
    int64_t status;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_true(isnan(decoded_metric(&d, unknown[i], &status)));
        assert_int_equal(status, UNAVAILABLE);
    }
    decoded_metric(&d, "total_events", &status);
    assert_int_equal(status, INCOMPLETE); /* the verdict is partial */
    decoded_metric(&d, "wall_time", &status);
    assert_int_equal(status, OK); /* which the window does not care about */
    decoded_close(&d);
}

static void
must_have_no_numbers_of_an_empty_run(void **state)
{
    (void)state;
    const char *dir = scratch_dir("empty");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_seal(f, T(5), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    s_summarize(&d, false);
    int64_t status;
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_WORKFLOW); i++) {
        char name[80];
        snprintf(name, sizeof name, "%s", decoded_text(&d, CREMA_TABLE_WORKFLOW, i, "name"));
        double value = decoded_metric(&d, name, &status);
        if (strcmp(name, "wall_time") == 0)
            assert_true(value == 5);
        else if (!isnan(value) || status != UNAVAILABLE)
            fail_msg("%s is %g", name, value);
    }
    assert_true(isnan(decoded_real(&d, CREMA_TABLE_EFFICIENCY, 0, "pe")));
    decoded_close(&d);
}

/* ---- roastcoffea's cases */

typedef struct {
    double bytes, events, process_s;
    int chunks;
    double wall_s, cores;
    struct {
        const char *name;
        double want; /* NaN: unavailable, where the original says 0 or None */
    } want[5];
} formula_t;

/* So many threads on `workers` workers for the whole of the run; chunks share everything evenly. */
static void
s_formula_run(const formula_t *c, int workers, decoded_t *d)
{
    const char *dir = scratch_dir("formula");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w =
        fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", (uint32_t)c->cores, T(0));
    fixture_stream_t *s = fixture_stream(f, 3, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    for (int i = 0; i < workers && c->cores > 0; i++) {
        char name[16] = "tcp://A";
        if (i > 0)
            snprintf(name, sizeof name, "tcp://%d", i);
        int64_t worker = fixture_name(s, CREMA_DICT_WORKER, name);
        fixture_row(s, CREMA_TABLE_MEMBERSHIP);
        fixture_set(s, "t_ns", T(0));
        fixture_set(s, "worker_id", worker);
        fixture_set(s, "nthreads", (int64_t)c->cores / workers);
        fixture_set(s, "event", 0);
        fixture_put(s, 0);
    }
    for (int i = 0; i < c->chunks; i++) {
        fixture_row(w, CREMA_TABLE_CHUNKS);
        fixture_set(w, "t_start_ns", T(0));
        fixture_set(w, "t_end_ns", T(c->wall_s));
        fixture_set(w, "chunk_id", i + 1);
        fixture_set(w, "attempt_ref", i + 1);
        fixture_set(w, "status", 0);
        fixture_set(w, "n_events", (int64_t)(c->events / c->chunks));
        fixture_set(w, "bytes_read_b", (int64_t)(c->bytes / c->chunks));
        fixture_real(w, "wall_s", c->process_s / c->chunks);
        fixture_put(w, 0);
    }
    fixture_seal(f, T(c->wall_s), NULL, 0);
    fixture_close(&f);
    decoded_open(d, dir);
    s_summarize(d, false);
}

static void
s_formula(const formula_t *c)
{
    decoded_t d;
    s_formula_run(c, 1, &d);
    for (size_t i = 0; i < 5 && c->want[i].name; i++) {
        double value = decoded_metric(&d, c->want[i].name, NULL), want = c->want[i].want;
        if (isnan(want) ? !isnan(value) : fabs(value - want) > 1e-6 * fabs(want))
            fail_msg("%s is %.9g, not %.9g", c->want[i].name, value, want);
    }
    decoded_close(&d);
}

static void
must_equal_roastcoffeas_cases(void **state)
{
    (void)state;
    const formula_t cases[] = {
        {1e10,
         1e6,
         100,
         50,
         50,
         8,
         {{"data_rate_gbps", 1.6},
          {"event_rate_wall_clock", 20.0},
          {"event_rate_aggregated", 10.0},
          {"avg_cpu_time_per_chunk", 2.0},
          {"data_rate_mb_s", 200}}},
        {1e10, 1e6, 0, 50, 50, 8, {{"event_rate_aggregated", NAN}, {"total_cpu_time", 0}}},
        {0, 0, 0, 0, 50, 8, {{"avg_cpu_time_per_chunk", NAN}, {"total_events", NAN}}},
        {0, 0, 400, 40, 100, 8, {{"core_occupancy", 0.5}, {"speedup", 4}}},
        {0, 0, 200, 20, 50, 8, {{"speedup", 4}}},
        {0, 1e6, 100, 10, 100, 8, {{"event_rate_core_averaged", 1250}}},
        {0,
         5e6,
         450,
         50,
         60,
         8,
         {{"core_occupancy", 0.9375}, {"speedup", 7.5}, {"event_rate_core_averaged", 10416.6667}}},
        {0, 0, 150, 10, 100, 16, {{"core_occupancy", 0.09375}, {"speedup", 1.5}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        s_formula(&cases[i]);
}

/* 200 TB a day: 63,762 files on 922 workers of one thread, figures as its notebook printed them.
 * Its wall time is printed as 1464.08. */
static void
must_equal_the_printed_idap_run(void **state)
{
    (void)state;
    const struct {
        const char *name, *want;
    } rows[] = {
        {"data_rate_gbps", "163.26"},
        {"event_rate_wall_clock", "27509.52"},
        {"speedup", "897.07"},
        {"core_efficiency", "0.973"},
        {"event_rate_aggregated", "30.67"},
        {"time_avg_workers_raw", "922.0"},
    };
    const formula_t run = {29879.18e9, 40276255941, 1313392.16, 1, 1464.0843, 922, {{NULL, 0}}};
    decoded_t d;
    s_formula_run(&run, 922, &d);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        s_must_print(decoded_metric(&d, rows[i].name, NULL), rows[i].want, rows[i].name);
    decoded_close(&d);
}

/* Workers at 0, 1, 2 s as somebody sampled them; the run ends with the last sample. */
static void
must_equal_roastcoffeas_time_averages(void **state)
{
    (void)state;
    const struct {
        int workers[3];
        double raw, step;
    } cases[] = {{{4, 4, 4}, 4.0, 4.0}, {{2, 4, 4}, 3.5, 3.0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *dir = scratch_dir("average");
        fixture_t *f = fixture_new(dir, 1);
        fixture_open(f, T(0), NULL, NULL, NULL);
        fixture_stream_t *s = fixture_stream(f, 3, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
        for (int w = 0; w < 4; w++) {
            char name[16];
            snprintf(name, sizeof name, "tcp://%d", w);
            int64_t worker = fixture_name(s, CREMA_DICT_WORKER, name);
            fixture_row(s, CREMA_TABLE_MEMBERSHIP);
            fixture_set(s, "t_ns", T(w < cases[c].workers[0] ? 0 : 1));
            fixture_set(s, "worker_id", worker);
            fixture_set(s, "nthreads", 1);
            fixture_set(s, "event", 0);
            fixture_put(s, 0);
        }
        fixture_seal(f, T(2), NULL, 0);
        fixture_close(&f);
        decoded_t d;
        decoded_open(&d, dir);
        s_summarize(&d, false);
        assert_true(fabs(decoded_metric(&d, "time_avg_workers_raw", NULL) - cases[c].raw) < 1e-9);
        assert_true(fabs(decoded_metric(&d, "time_avg_workers", NULL) - cases[c].step) < 1e-9);
        decoded_close(&d);
    }
}

static void
s_sample(fixture_stream_t *stream, double t, int64_t source, int64_t rss_b, int64_t processing,
         double cpu_pct)
{
    int64_t worker = fixture_name(stream, CREMA_DICT_WORKER, "tcp://A");
    fixture_row(stream, CREMA_TABLE_WORKER_SAMPLES);
    fixture_set(stream, "t_ns", T(t));
    fixture_set(stream, "worker_id", worker);
    fixture_set(stream, "nthreads", 2);
    fixture_set(stream, "rss_b", rss_b);
    fixture_set(stream, "processing", processing);
    fixture_set(stream, "source", source);
    fixture_real(stream, "cpu_pct", cpu_pct);
    fixture_put(stream, 0);
}

/* What the reference computes stands under the ending _raw, beside the right value. */
static void
must_publish_the_references_values_too(void **state)
{
    (void)state;
    enum { SCHEDULER = 1, WORKER = 2 };
    const struct {
        const char *name;
        double want;
    } want[] = {
        /* 1 GB for 8 s, 4 GB for 2 s; the last sample holds for no time. */
        {"avg_memory_per_worker", 1.6e9},
        {"avg_memory_per_worker_raw", 3e9},
        /* 8 s of 25 %, 2 s of 100 %; what was used before the first sample is not of the run. */
        {"cpu_pct_avg", (8 * 25 + 2 * 100) / 10.0},
        /* Five tasks assigned to two threads, then none: at most two ran. */
        {"cpu_utilization_raw", (250 + 0) / 2.0},
        {"slot_busy_pct", 20},
        {"chunk_b_per_event_raw", (100 - 20) / 2.0},
    };
    const char *dir = scratch_dir("raw");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *s = fixture_stream(f, 3, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 2, T(0));
    s_sample(s, 1, SCHEDULER, 7, 5, NAN);
    s_sample(s, 2, SCHEDULER, 7, 0, NAN);
    s_sample(w, 0, WORKER, 1000000000, UINT16_MAX, 400);
    s_sample(w, 8, WORKER, 4000000000, UINT16_MAX, 25);
    s_sample(w, 10, WORKER, 4000000000, UINT16_MAX, 100);
    for (int64_t i = 0; i < 2; i++) {
        int64_t worker = fixture_name(w, CREMA_DICT_WORKER, "tcp://A");
        fixture_row(w, CREMA_TABLE_CHUNKS);
        fixture_set(w, "t_start_ns", T(2));
        fixture_set(w, "t_end_ns", T(4));
        fixture_real(w, "wall_s", 2);
        fixture_set(w, "worker_id", worker);
        fixture_set(w, "chunk_id", i + 1);
        fixture_set(w, "attempt_ref", i + 1);
        fixture_set(w, "status", 0);
        fixture_set(w, "n_events", 10);
        fixture_set(w, "rss_start_b", 5000);
        fixture_set(w, "rss_end_b", i ? 4800 : 6000);
        fixture_put(w, 0);
    }
    fixture_end(w, CREMA_END_FINISHED, T(10), 0, 0);
    fixture_end(s, CREMA_END_FINISHED, T(10), 0, 0);
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    s_summarize(&d, false);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        double value = decoded_metric(&d, want[i].name, NULL);
        if (!(fabs(value - want[i].want) <= 1e-9 * want[i].want))
            fail_msg("%s is %.12g, not %g", want[i].name, value, want[i].want);
    }
    decoded_close(&d);
}

static void
s_metered_in(fixture_stream_t *w, crema_context_t context, const char *prefix, const char *activity,
             const char *unit, double total)
{
    int64_t worker = fixture_name(w, CREMA_DICT_WORKER, "tcp://A");
    int64_t prefix_id = fixture_name(w, CREMA_DICT_TASK_PREFIX, prefix);
    int64_t activity_id = fixture_name(w, CREMA_DICT_ACTIVITY, activity);
    int64_t unit_id = fixture_name(w, CREMA_DICT_UNIT, unit);
    fixture_row(w, CREMA_TABLE_ACTIVITIES);
    fixture_set(w, "t1_ns", T(50));
    fixture_real(w, "total", total);
    fixture_set(w, "worker_id", worker);
    fixture_set(w, "task_prefix_id", prefix_id);
    fixture_set(w, "activity_id", activity_id);
    fixture_set(w, "unit_id", unit_id);
    fixture_set(w, "context", context);
    fixture_set(w, "side", 0);
    fixture_put(w, 0);
}

static void
s_metered(fixture_stream_t *w, const char *prefix, const char *activity, double total)
{
    s_metered_in(w, CREMA_CONTEXT_EXECUTE, prefix, activity, "seconds", total);
}

static void
must_split_processor_from_overhead(void **state)
{
    (void)state;
    const struct {
        const char *name;
        double want;
    } want[] = {
        {"processor_cpu_time_seconds", 100},
        {"processor_noncpu_time_seconds", 20},
        {"processor_cpu_percentage", 100 * 100 / 120.0},
        {"processor_noncpu_percentage", 100 * 20 / 120.0},
        {"overhead_cpu_time_seconds", 5},
        {"overhead_noncpu_time_seconds", 2},
        {"cpu_time_seconds", 105},
        {"io_time_seconds", 22},
        {"total_compression_overhead_seconds", 6},
        {"total_serialization_overhead_seconds", 5},
        {"disk_write_seconds", 0},
    };
    const char *dir = scratch_dir("split");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, "MyProcessor");
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 4, T(0));
    s_metered(w, "MyProcessor", "thread-cpu", 100);
    s_metered(w, "MyProcessor", "thread-noncpu", 20);
    s_metered(w, "lambda", "thread-cpu", 5);
    s_metered(w, "lambda", "thread-noncpu", 2);
    s_metered(w, "MyProcessor", "compress", 1);
    s_metered(w, "MyProcessor", "decompress", 5);
    s_metered(w, "MyProcessor", "serialize", 2);
    s_metered(w, "MyProcessor", "deserialize", 3);
    fixture_end(w, CREMA_END_FINISHED, T(100), 0, 0);
    fixture_seal(f, T(100), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    s_summarize(&d, false);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (fabs(decoded_metric(&d, want[i].name, NULL) - want[i].want) > 1e-9)
            fail_msg("%s is %g", want[i].name, decoded_metric(&d, want[i].name, NULL));
    assert_true(s_waterfall(&d, "runtime") == 11);
    assert_true(s_waterfall(&d, "overhead") == 7);
    assert_true(s_waterfall(&d, "unattributed") == 0);
    decoded_close(&d);
}

/* Seconds of every side are in one row of the waterfall and in one of the split, whether the
 * processor is known or not. */
static void
must_put_every_second_on_one_side(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        const char *dir = scratch_dir("sides");
        fixture_t *f = fixture_new(dir, 1);
        fixture_open(f, T(0), NULL, NULL, known ? "MyProcessor" : NULL);
        fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 4, T(0));
        s_metered(w, "MyProcessor", "thread-cpu", 100);
        s_metered(w, "MyProcessor", "thread-noncpu", 20);
        s_metered(w, "MyProcessor", "my label", 30);
        s_metered(w, "lambda", "thread-cpu", 5);
        s_metered(w, "reduce", "thread-noncpu", 3);
        s_metered(w, "MyProcessor", "compress", 1);
        s_metered(w, "MyProcessor", "failed", 7);
        fixture_end(w, CREMA_END_FINISHED, T(100), 0, 0);
        fixture_seal(f, T(100), NULL, 0);
        fixture_close(&f);
        const struct {
            const char *category;
            double want[2];
        } rows[] = {
            {"processor_cpu", {0, 100}}, {"processor_noncpu", {0, 20}}, {"user_metered", {0, 30}},
            {"merge", {3, 3}},           {"runtime", {1, 1}},           {"wasted", {7, 7}},
            {"overhead", {5, 5}},        {"unattributed", {150, 0}},
        };
        decoded_t d;
        decoded_open(&d, dir);
        s_summarize(&d, false);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (fabs(s_waterfall(&d, rows[i].category) - rows[i].want[known]) > 1e-9)
                fail_msg("%s is %g", rows[i].category, s_waterfall(&d, rows[i].category));
        double sum = 0;
        for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_SPLIT); i++) {
            if (decoded_int(&d, CREMA_TABLE_SPLIT, i, "in_budget") == 0 ||
                strcmp(decoded_text(&d, CREMA_TABLE_SPLIT, i, "side"), "idle") == 0)
                continue;
            const char *const columns[] = {"cpu_s", "noncpu_s", "runtime_s", "failed_s"};
            for (size_t c = 0; c < 4; c++)
                sum += decoded_real(&d, CREMA_TABLE_SPLIT, i, columns[c]);
        }
        s_must_print(sum, "166.000000000", "the split");
        decoded_close(&d);
    }
}

/* As the seconds of a side: what the memory monitor spills belongs to no task, and covers all
 * runs. */
static void
must_split_the_bytes_of_tasks_and_transfers(void **state)
{
    (void)state;
    const struct {
        const char *side;
        int64_t want_b;
    } rows[] = {{"unattributed", 0}, {"processor", 7}, {"runtime", 40}, {"transfer", 500}};
    const char *dir = scratch_dir("bytes");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, "MyProcessor");
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 4, T(0));
    s_metered_in(w, CREMA_CONTEXT_EXECUTE, "MyProcessor", "my label", "bytes", 7);
    s_metered_in(w, CREMA_CONTEXT_EXECUTE, "MyProcessor", "disk-read", "bytes", 40);
    s_metered_in(w, CREMA_CONTEXT_GET_DATA, "", "memory-read", "bytes", 500);
    s_metered_in(w, CREMA_CONTEXT_MEMORY_MONITOR, "", "disk-write", "bytes", 6000);
    fixture_end(w, CREMA_END_FINISHED, T(100), 0, 0);
    fixture_seal(f, T(100), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    s_summarize(&d, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < decoded_count(&d, CREMA_TABLE_SPLIT); k++)
            if (strcmp(decoded_text(&d, CREMA_TABLE_SPLIT, k, "side"), rows[i].side) == 0)
                assert_int_equal(decoded_int(&d, CREMA_TABLE_SPLIT, k, "bytes_b"), rows[i].want_b);
    decoded_close(&d);
}

/* ---- POP */

/* NAG's example of EPOCH: microseconds; useful time of all processes, the largest, and the run
 * time. */
static void
must_equal_published_pop_factors(void **state)
{
    (void)state;
    const struct {
        int n;
        double runtime, most, total, lb, comm_e, pe;
    } rows[] = {
        {1, 21898659.14, 21882362.82, 21882362.82, 1, .999256, .999256},
        {2, 11528373.56, 11484151.34, 22913392.37, .997609, .996164, .993783},
        {4, 6082352.21, 5999910.80, 23684668.07, .986876, .986446, .973500},
        {8, 3513565.33, 3421581.67, 26902030.73, .982807, .973820, .957077},
        {16, 2339560.72, 2242981.13, 35617915.65, .992483, .958719, .951512},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double useful[16], present[16];
        int n = rows[i].n;
        for (int p = 0; p < n; p++) { /* one has the most, the others share the rest */
            useful[p] = p == 0 ? rows[i].most : (rows[i].total - rows[i].most) / (n - 1);
            present[p] = rows[i].runtime;
        }
        double alloc = n * rows[i].runtime;
        sink_pop_t pop = sink_summary_pop(useful, present, (size_t)n, alloc, alloc);
        assert_true(fabs(pop.lb - rows[i].lb) < 1e-6);
        assert_true(fabs(pop.sched_e - rows[i].comm_e) < 1e-6);
        assert_true(fabs(pop.pe - rows[i].pe) < 1e-6);
        assert_true(fabs(pop.lb * pop.sched_e - pop.pe) < 1e-12);
        assert_true(fabs(pop.alloc_e - 1) < 1e-12);
    }
}

/* Of 1,000 s three workers were busy for 60 %; a fourth lived for 2 s, in one chunk. */
static void
must_not_have_a_short_life_decide_the_factors_of_a_run(void **state)
{
    (void)state;
    const double useful[] = {600, 600, 600, 1.98}, present[] = {1000, 1000, 1000, 2};
    sink_pop_t pop = sink_summary_pop(useful, present, 4, 3002, 4000);
    assert_true(fabs(pop.sched_e - 0.6) < 1e-12);
    assert_true(fabs(pop.lb * pop.sched_e - pop.pe) < 1e-12);
    pop = sink_summary_pop(useful + 3, present + 3, 1, 2, 2); /* unless all were short */
    assert_true(fabs(pop.sched_e - 0.99) < 1e-12);
    const double some[] = {600, 270, 0, 0}, were_there[] = {1000, 300, 0, 0};
    pop = sink_summary_pop(some, were_there, 4, 1300,
                           2000); /* the average of those that were there */
    assert_true(fabs(pop.sched_e - 0.6) < 1e-12);
}

static void
must_choose_chunk_sizes_by_the_formula(void **state)
{
    (void)state;
    s_must_print(sink_model_best_events(1e8 * 2 * 1e-4, 100, 1e-4), "141421", "n*");
    assert_true(isnan(sink_model_best_events(-1, 100, 1e-4)));
    assert_true(isnan(sink_model_best_events(1e4, 0, 1e-4)));
    assert_true(isnan(sink_model_best_events(NAN, 4, 1e-4)));
}

/* ---- a busy run */

static void
must_fill_every_table_of_a_busy_run(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    fixture_busy(dir, 1, 4, 120);
    decoded_t d;
    decoded_open(&d, dir);
    s_summarize(&d, false);
    for (int t = CREMA_TABLE_WORKFLOW; t < CREMA_TABLE_COUNT; t++)
        if (decoded_count(&d, (crema_table_id_t)t) == 0)
            fail_msg("/%s is empty", crema_table((crema_table_id_t)t)->path);
    double sum = 0, cap = decoded_real(&d, CREMA_TABLE_EFFICIENCY, 0, "cap_s");
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_WATERFALL); i++)
        sum += decoded_real(&d, CREMA_TABLE_WATERFALL, i, "thread_seconds");
    assert_true(fabs(sum - cap) < 1e-9 * cap);
    if (fabs(s_waterfall(&d, "residual")) > 0.02 * cap)
        fail_msg("residual %g of %g", s_waterfall(&d, "residual"), cap);
    /* Two datasets of known costs: 0.12 s and 4e-4 or 1e-4 s an event. */
    assert_int_equal(decoded_count(&d, CREMA_TABLE_CHUNK_MODEL), 2);
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 0, "b_s_per_event"), "0.000400",
                 "slow b");
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 1, "b_s_per_event"), "0.000100",
                 "fast b");
    s_must_print(decoded_real(&d, CREMA_TABLE_CHUNK_MODEL, 1, "a_s"), "0.120", "fast a");
    assert_int_equal(decoded_count(&d, CREMA_TABLE_STRAGGLERS), 1);
    int64_t straggler = decoded_int(&d, CREMA_TABLE_STRAGGLERS, 0, "chunk_row");
    assert_int_equal(decoded_int(&d, CREMA_TABLE_CHUNKS, (size_t)straggler, "chunk_id"), 7040);
    s_must_print(decoded_metric(&d, "chunk_b_per_event", NULL), "2000", "memory slope");
    s_must_print(decoded_metric(&d, "compression_ratio", NULL), "3.0", "compression");
    s_must_print(decoded_metric(&d, "num_failed_attempts", NULL), "7", "failed");
    s_must_print(decoded_metric(&d, "cores_per_worker", NULL), "2", "cores");
    int64_t n_chunks = 0;
    for (size_t i = 0; i < decoded_count(&d, CREMA_TABLE_PER_WORKER); i++)
        n_chunks += decoded_int(&d, CREMA_TABLE_PER_WORKER, i, "n_chunks");
    assert_int_equal(n_chunks, 113);
    assert_int_equal(decoded_int(&d, CREMA_TABLE_PER_SECTION, 0, "n"), 120);
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_equal_the_toy_run_worked_out_by_hand),
        cmocka_unit_test(must_divide_the_toy_run_by_cause),
        cmocka_unit_test(must_have_a_row_for_every_metric),
        cmocka_unit_test(must_equal_the_printed_idap_run),
        cmocka_unit_test(must_equal_roastcoffeas_time_averages),
        cmocka_unit_test(must_never_show_a_silent_zero),
        cmocka_unit_test(must_have_no_numbers_of_an_empty_run),
        cmocka_unit_test(must_equal_roastcoffeas_cases),
        cmocka_unit_test(must_publish_the_references_values_too),
        cmocka_unit_test(must_split_processor_from_overhead),
        cmocka_unit_test(must_put_every_second_on_one_side),
        cmocka_unit_test(must_split_the_bytes_of_tasks_and_transfers),
        cmocka_unit_test(must_equal_published_pop_factors),
        cmocka_unit_test(must_not_have_a_short_life_decide_the_factors_of_a_run),
        cmocka_unit_test(must_choose_chunk_sizes_by_the_formula),
        cmocka_unit_test(must_fill_every_table_of_a_busy_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
