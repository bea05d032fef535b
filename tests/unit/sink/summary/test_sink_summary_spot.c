/* What the evidence of a cause says of where its seconds were spent. */
#include <math.h>
#include <string.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_summary.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9 + 0.5))

/* Threads of a worker wait for a core. Its CPU quota (NaN: none) is used up while a task runs. */
static void
s_samples(fixture_stream_t *w, int64_t worker, double quota, double waits)
{
    for (int i = 0; i < 4; i++) {
        fixture_row(w, CREMA_TABLE_WORKER_SAMPLES);
        fixture_set(w, "t_ns", T(1 + i));
        fixture_set(w, "worker_id", worker);
        fixture_set(w, "executing", i < 2);
        fixture_real(w, "cpu_wait_s", waits * i);
        fixture_real(w, "cpu_quota", quota);
        fixture_real(w, "cpu_throttled", isnan(quota) ? NAN : i < 2 ? 0.8 + 0.2 * i : 0);
        fixture_put(w, 0);
    }
}

/* Four datasets of two chunks with 100 events each, of which looks found the first one computing
 * for `first_s` of 20 s. Of 4 s of garbage collection 3 s were in long ones,
 * and 2.7 of these in the second dataset. */
static void
s_run(double first_s, double others_wait, decoded_t *d)
{
    const char *dir = scratch_dir("spot");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    const int64_t worker = fixture_name(w, CREMA_DICT_WORKER, "tcp://A");
    const char *const names[] = {"top", "dy", "qcd", "wjets"};
    double t_s = 1;
    s_samples(w, worker, 0.2, 1);
    s_samples(w, fixture_name(w, CREMA_DICT_WORKER, "tcp://B"), NAN, others_wait);
    for (int i = 0; i < 8; i++) {
        const double s = (i % 4 == 0 ? first_s : (20 - first_s) / 3) / 2;
        fixture_row(w, CREMA_TABLE_CHUNKS);
        fixture_set(w, "t_start_ns", T(t_s));
        fixture_set(w, "t_end_ns", T(t_s + s));
        fixture_set(w, "chunk_id", 1 + i);
        fixture_set(w, "attempt_ref", 1 + i);
        fixture_set(w, "worker_id", worker);
        fixture_set(w, "dataset_id", fixture_name(w, CREMA_DICT_DATASET, names[i % 4]));
        fixture_set(w, "status", CREMA_CHUNK_OK);
        fixture_set(w, "n_events", 100);
        fixture_real(w, "wall_s", s);
        fixture_real(w, "cpu_s", s);
        fixture_real(w, "gc_s", 0.5);
        fixture_put(w, 0);
        t_s += s;
    }
    for (int i = 0; i < 4; i++) {
        fixture_row(w, CREMA_TABLE_LOOKS);
        fixture_set(w, "t_ns", T(t_s));
        fixture_set(w, "worker_id", worker);
        fixture_set(w, "dataset_id", fixture_name(w, CREMA_DICT_DATASET, names[i]));
        fixture_set(w, "phase", CREMA_LOOK_PHASE_PROCESS);
        fixture_set(w, "state", CREMA_LOOK_CPU);
        fixture_set(w, "total_looks", 50);
        fixture_real(w, "total_gc_s", i == 1 ? 2.7 : 0.1);
        fixture_real(w, "total_s", i == 0 ? first_s : (20 - first_s) / 3);
        fixture_put(w, 0);
    }
    fixture_end(w, CREMA_END_FINISHED, T(22), 0, 0);
    fixture_seal(f, T(22), NULL, 0);
    fixture_close(&f);
    decoded_open(d, dir);
    decoded_facts(d);
    const sink_summary_t summary = {d->tables, d->run, d->facts, d->budget, d->model, false, NULL};
    must(sink_summary_fill(&summary));
}

static const char *
s_evidence(decoded_t *d, const char *cause)
{
    for (size_t i = 0; i < decoded_count(d, CREMA_TABLE_BOTTLENECKS); i++)
        if (strcmp(decoded_text(d, CREMA_TABLE_BOTTLENECKS, i, "name"), cause) == 0)
            return decoded_text(d, CREMA_TABLE_BOTTLENECKS, i, "evidence");
    fail_msg("no %s", cause);
    return "";
}

static void
must_name_a_dataset_that_takes_more_than_its_events_explain(void **state)
{
    (void)state;
    decoded_t d;
    s_run(14, 0, &d);
    assert_non_null(
        strstr(s_evidence(&d, "compute"), "dataset top has 70 % of it and 25 % of the events"));
    decoded_close(&d);
}

static void
must_not_name_a_dataset_that_is_merely_the_largest(void **state)
{
    (void)state;
    decoded_t d;
    s_run(8, 0, &d); /* 40 % of the seconds with 25 % of the events */
    assert_null(strstr(s_evidence(&d, "compute"), "dataset"));
    decoded_close(&d);
}

static void
must_name_where_garbage_is_collected(void **state)
{
    (void)state;
    decoded_t d;
    s_run(8, 0, &d);
    assert_non_null(strstr(s_evidence(&d, "garbage_collection"),
                           "dataset dy has 68 % of it and 25 % of the events"));
    decoded_close(&d);
}

static void
must_name_the_quota_that_kept_threads_from_a_core(void **state)
{
    (void)state;
    decoded_t d;
    s_run(8, 0, &d);
    assert_string_equal(s_evidence(&d, "cores"),
                        "a CPU quota of 0.2 cores was used up in 90 % of its periods");
    decoded_close(&d);
}

static void
must_not_name_the_quota_of_a_worker_among_others_that_have_none(void **state)
{
    (void)state;
    decoded_t d;
    s_run(8, 10, &d);
    assert_null(strstr(s_evidence(&d, "cores"), "quota"));
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_a_dataset_that_takes_more_than_its_events_explain),
        cmocka_unit_test(must_not_name_a_dataset_that_is_merely_the_largest),
        cmocka_unit_test(must_name_where_garbage_is_collected),
        cmocka_unit_test(must_name_the_quota_that_kept_threads_from_a_core),
        cmocka_unit_test(must_not_name_the_quota_of_a_worker_among_others_that_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
