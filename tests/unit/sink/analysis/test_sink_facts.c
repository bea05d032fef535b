/* sink_facts: chunks and the tasks they ran in, who was there, which samples count. */
#include <math.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_budget.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9 + 0.5))

static void
s_chunk(fixture_stream_t *w, const char *worker, int64_t id, double start, double end, int status)
{
    int64_t worker_id = fixture_name(w, CREMA_DICT_WORKER, worker);
    fixture_row(w, CREMA_TABLE_CHUNKS);
    fixture_set(w, "t_start_ns", T(start));
    fixture_set(w, "t_end_ns", T(end));
    fixture_real(w, "wall_s", end - start);
    fixture_set(w, "worker_id", worker_id);
    fixture_set(w, "chunk_id", id);
    fixture_set(w, "task_key", id);
    fixture_set(w, "attempt_ref", id + (int64_t)(10 * start));
    fixture_set(w, "status", status);
    fixture_put(w, 0);
}

static void
s_task(fixture_stream_t *s, const char *worker, int64_t key, double start, double stop, int status,
       double ready)
{
    int64_t worker_id = fixture_name(s, CREMA_DICT_WORKER, worker);
    fixture_row(s, CREMA_TABLE_TASK_EVENTS);
    fixture_set(s, "t_start_ns", start > 0 ? T(start) : 0);
    fixture_set(s, "t_stop_ns", T(stop));
    fixture_set(s, "t_ready_ns", ready > 0 ? T(ready) : 0);
    fixture_set(s, "task_key", key);
    fixture_set(s, "worker_id", worker_id);
    fixture_set(s, "action", 0);
    fixture_set(s, "status", status);
    fixture_put(s, 0);
}

/* Slots that were occupied; *ret_ready of them by tasks that had waited. */
static size_t
s_count_busy(const sink_facts_t *facts, size_t *ret_ready)
{
    sink_busy_t busy;
    size_t n = 0;
    *ret_ready = 0;
    for (size_t i = 0; i < facts->n_tasks + facts->n_chunks; i++) {
        if (!sink_facts_busy(facts, i, &busy))
            continue;
        n++;
        *ret_ready += busy.t_ready_ns != 0;
    }
    return n;
}

static void
must_join_chunks_with_their_tasks(void **state)
{
    (void)state;
    const char *dir = scratch_dir("facts");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    fixture_stream_t *b = fixture_stream(f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 1, T(0));
    fixture_stream_t *s = fixture_stream(f, 4, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    s_chunk(a, "tcp://A", 1, 1, 2, CREMA_CHUNK_ERROR); /* failed, retried here ... */
    s_task(a, "tcp://A", 1, 0.9, 2.1, 1, 0.5);
    s_chunk(a, "tcp://A", 1, 3, 4, CREMA_CHUNK_OK); /* ... with success */
    s_task(a, "tcp://A", 1, 2.9, 4.1, 0, 0);
    s_chunk(a, "tcp://A", 2, 5, 6, CREMA_CHUNK_ERROR); /* dropped quietly: its task is a success */
    s_task(a, "tcp://A", 2, 4.9, 6.1, 0, 0);
    s_chunk(b, "tcp://B", 3, 1, 8, CREMA_CHUNK_LOST); /* killed: the scheduler saw it run */
    s_task(s, "tcp://B", 3, 1.5, 8.2, 3, 0);
    s_task(s, "tcp://B", 9, 0, 8.2, 3, 0);              /* a result that was lost: nothing ran */
    s_task(s, "tcp://B", 8, 7, 8.2, 3, 0);              /* no chunk, lost while running */
    s_chunk(b, "tcp://B", 4, 0.2, 0.8, CREMA_CHUNK_OK); /* no task of it was told */
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    const struct { /* in the order of /chunks */
        bool in_task, task_is_ok, counted;
    } want[] = {
        {false, false, true}, {true, false, false}, {false, false, false},
        {true, true, true},   {true, true, false},
    };
    assert_int_equal(d.facts->n_chunks, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(d.facts->chunks[i].in_task, want[i].in_task);
        assert_int_equal(d.facts->chunks[i].task_is_ok, want[i].task_is_ok);
        assert_int_equal(d.facts->chunks[i].counted, want[i].counted);
    }
    assert_int_equal(d.facts->n_tasks, 5);
    /* Three tasks that ended, the lost one that was no chunk, two chunks without a task of their
     * own. */
    size_t n_ready, n_busy = s_count_busy(d.facts, &n_ready);
    assert_int_equal(n_busy, 6);
    assert_int_equal(n_ready, 1);
    /* B was last seen at 7 s; two tasks at a time are one busy thread. */
    assert_true(fabs(d.facts->sweep.workers[1].busy_s - (0.6 + 6)) < 1e-6);
    decoded_close(&d);
}

/* What ran at the last heartbeat of a killed worker counts as lost, although the worker had
 * recorded its end since. */
static void
must_count_an_execution_once_that_two_saw(void **state)
{
    (void)state;
    const char *dir = scratch_dir("twice");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    fixture_stream_t *s = fixture_stream(f, 4, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    s_chunk(a, "tcp://A", 1, 1, 2, CREMA_CHUNK_ERROR);
    s_task(a, "tcp://A", 1, 0.9, 2.1, 1, 0);
    s_task(s, "tcp://A", 1, 0.95, 8, 3, 0); /* it waits to be tried again */
    s_task(a, "tcp://A", 5, 3, 4, 1, 0);
    s_task(s, "tcp://A", 5, 2.9, 8, 3, 0); /* clocks differ a little */
    s_task(a, "tcp://A", 6, 5, 6, 1, 0);
    s_task(s, "tcp://A", 6, 6.5, 8, 3, 0); /* this one was tried again */
    s_task(s, "tcp://B", 6, 5.5, 8, 3, 0); /* elsewhere */
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    assert_int_equal(decoded_count(&d, CREMA_TABLE_TASK_EVENTS), 7); /* the table has all */
    assert_int_equal(d.facts->n_tasks, 5);
    /* A was last seen at 6 s. */
    assert_true(fabs(d.facts->sweep.workers[0].busy_s - (1.2 + 1 + 1)) < 1e-6);
    decoded_close(&d);
}

static void
s_member(fixture_stream_t *s, const char *worker, double t, int event, int evidence)
{
    int64_t worker_id = fixture_name(s, CREMA_DICT_WORKER, worker);
    fixture_row(s, CREMA_TABLE_MEMBERSHIP);
    fixture_set(s, "t_ns", T(t));
    fixture_set(s, "worker_id", worker_id);
    fixture_set(s, "nthreads", 2);
    fixture_set(s, "event", event);
    fixture_set(s, "evidence", evidence);
    fixture_set(s, "t_uncertainty_ns", 500000000);
    fixture_put(s, 0);
}

static void
s_sample(fixture_stream_t *s, const char *worker, double t, int source, int64_t rss)
{
    int64_t worker_id = fixture_name(s, CREMA_DICT_WORKER, worker);
    fixture_row(s, CREMA_TABLE_WORKER_SAMPLES);
    fixture_set(s, "t_ns", T(t));
    fixture_set(s, "worker_id", worker_id);
    fixture_set(s, "rss_b", rss);
    fixture_set(s, "source", source);
    fixture_put(s, 0);
}

static void
must_know_who_was_there_and_who_knows_best(void **state)
{
    (void)state;
    const char *dir = scratch_dir("facts");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *s = fixture_stream(f, 4, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    s_member(s, "tcp://A", 0.5, 0, 3); /* was there before */
    s_member(s, "tcp://B", 2, 0, 0);
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(1));
    fixture_stream_t *c = fixture_stream(f, 3, 1, CREMA_STREAM_WORKER, "tcp://C", 3, T(4));
    s_sample(s, "tcp://A", 1, 1, 100); /* the scheduler's is the worst there is */
    s_sample(a, "tcp://A", 2, 2, 200);
    s_sample(s, "tcp://B", 3, 1, 300);
    s_sample(c, "tcp://C", 7, 2, 400); /* C: nobody told of it, it was seen from 4 to 7 */
    s_member(s, "tcp://B", 6, 2, 0);
    fixture_end(a, CREMA_END_FINISHED, T(10), 0, 0);
    fixture_end(c, CREMA_END_WRITER_GONE, T(10), 0, 0);
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    const sink_facts_t *facts = d.facts;
    assert_int_equal(facts->n_workers, 3);
    assert_int_equal(facts->n_presence, 3);
    assert_true(fabs(facts->sweep.alloc_s - (2 * 10 + 2 * 4 + 3 * 3)) < 1e-6);
    assert_true(facts->has_membership);
    assert_true(fabs(facts->members_bound_s - 2 * 0.25) < 1e-9);
    assert_true(facts->workers[0].is_member && facts->workers[1].is_member &&
                !facts->workers[2].is_member);
    assert_true(facts->workers[0].has_stream && !facts->workers[1].has_stream &&
                facts->workers[2].has_stream);
    assert_true(!facts->workers[0].killed && facts->workers[2].killed);
    assert_int_equal(facts->n_samples, 3);
    assert_int_equal(facts->samples[0].rss_b, 200);
    assert_int_equal(facts->samples[1].rss_b, 300);
    decoded_close(&d);
}

/* Two pools of one process, which began at 2 and 7 s; a Dask worker beside them that nobody
 * watched. */
static void
must_count_a_process_from_its_start(void **state)
{
    (void)state;
    for (int dask = 0; dask <= 1; dask++) {
        const char *dir = scratch_dir("facts");
        fixture_t *f = fixture_new(dir, 1);
        fixture_open(f, T(0), NULL, NULL, NULL);
        fixture_stream_t *a =
            fixture_process(f, 2, 1, CREMA_STREAM_WORKER, "host:1", 1, T(3), T(2));
        fixture_stream_t *b =
            fixture_process(f, 3, 1, CREMA_STREAM_WORKER, "host:2", 1, T(8), T(7));
        s_chunk(a, "host:1", 1, 3, 4, CREMA_CHUNK_OK);
        s_chunk(b, "host:2", 2, 8, 9, CREMA_CHUNK_OK);
        fixture_end(a, CREMA_END_FINISHED, T(5), 0, 0);
        fixture_end(b, CREMA_END_FINISHED, T(9), 0, 0);
        if (dask)
            fixture_stream(f, 4, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
        fixture_seal(f, T(10), NULL, 0);
        fixture_close(&f);
        decoded_t d;
        decoded_open(&d, dir);
        decoded_facts(&d);
        assert_int_equal(d.facts->outside_dask, !dask);
        assert_true(fabs(d.facts->sweep.alloc_s - (3 + 2)) < 1e-6);
        assert_true(fabs(d.facts->sweep.idle_s[SINK_IDLE_STARTUP] - 1) < 1e-6);
        sink_budget_t *budget = NULL;
        assert_int_equal(sink_budget_new(d.facts, &budget), CREMA_OK);
        assert_true(fabs(budget->absent_s - 5) < 1e-6);
        assert_true(fabs(budget->absent_before_s - 2) < 1e-6);
        assert_true(fabs(budget->absent_after_s - 1) < 1e-6);
        sink_budget_destroy(&budget);
        decoded_close(&d);
    }
}

static void
must_find_the_window_where_nobody_told_it(void **state)
{
    (void)state;
    const char *dir = scratch_dir("facts");
    fixture_t *f = fixture_new(dir, 1);
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(1));
    fixture_end(a, CREMA_END_FINISHED, T(4), 0, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    assert_int_equal(d.facts->t0_ns, T(1));
    assert_int_equal(d.facts->t1_ns, T(4));
    decoded_close(&d);
}

/* What tells latency from imbalance and pauses, and how many looks there were at the GIL while
 * tasks had to share it. */
static void
must_know_pauses_arrivals_and_looks(void **state)
{
    (void)state;
    const char *dir = scratch_dir("facts");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *s = fixture_stream(f, 4, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    fixture_stream_t *a = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 2, T(0));
    fixture_stream_t *b = fixture_stream(f, 3, 1, CREMA_STREAM_WORKER, "tcp://B", 2, T(0));
    s_member(s, "tcp://A", 0, 0, 0);
    s_member(s, "tcp://B", 0, 0, 0);
    s_member(a, "tcp://A", 2, 4, 0); /* paused, and on again */
    s_member(a, "tcp://A", 3, 5, 0);
    s_member(a, "tcp://A", 6, 4, 0); /* paused until it leaves */
    s_member(b, "tcp://B", 7, 4, 0); /* paused to the end of the run */
    s_member(s, "tcp://A", 8, 1, 0);
    const double submitted[] = {0.5, 1.5, 1.2};
    for (int i = 0; i < 3; i++) {
        s_chunk(a, "tcp://A", 10 + i, 2 + i, 2.5 + i, CREMA_CHUNK_OK);
        int64_t worker = fixture_name(a, CREMA_DICT_WORKER, "tcp://A");
        fixture_row(a, CREMA_TABLE_TASK_EVENTS);
        fixture_set(a, "t_start_ns", T(2 + i));
        fixture_set(a, "t_stop_ns", T(2.5 + i));
        fixture_set(a, "t_submit_ns", T(submitted[i]));
        fixture_set(a, "t_ready_ns", T(submitted[i]));
        fixture_set(a, "task_key", 10 + i);
        fixture_set(a, "worker_id", worker);
        fixture_set(a, "action", 0);
        fixture_set(a, "status", 0);
        fixture_put(a, 0);
        fixture_row(a, CREMA_TABLE_WORKER_SAMPLES);
        fixture_set(a, "t_ns", T(2 + i));
        fixture_set(a, "worker_id", worker);
        fixture_set(a, "executing", 1 + i); /* the first of them shares it with none */
        fixture_real(a, "gil_contention", i == 1 ? 0 : 1);
        fixture_set(a, "source", 2);
        fixture_put(a, 0);
    }
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    const sink_facts_t *facts = d.facts;
    const sink_spell_t want[] = {{T(2), T(3), 0}, {T(6), T(8), 0}, {T(7), T(10), 1}};
    assert_int_equal(facts->n_paused, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(facts->paused[i].t0_ns, want[i].t0_ns);
        assert_int_equal(facts->paused[i].t1_ns, want[i].t1_ns);
        assert_int_equal(facts->paused[i].worker, want[i].worker);
    }
    assert_int_equal(facts->last_arrival_ns[0], T(1.5));
    assert_int_equal(facts->last_arrival_ns[1], 0);
    size_t n_ready;
    (void)s_count_busy(facts, &n_ready);
    assert_int_equal(n_ready, 3);
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_join_chunks_with_their_tasks),
        cmocka_unit_test(must_count_an_execution_once_that_two_saw),
        cmocka_unit_test(must_know_who_was_there_and_who_knows_best),
        cmocka_unit_test(must_count_a_process_from_its_start),
        cmocka_unit_test(must_find_the_window_where_nobody_told_it),
        cmocka_unit_test(must_know_pauses_arrivals_and_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
