/* sink_commit: decisions as a step table; and that committed moves only with a sync. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink_commit.h"

static const crema_id_t s_stream = {{1}}, s_other = {{2}}, s_run = {{9}};

typedef enum { PUT, WRITE, WRITE_END, SYNC, BEGIN, END } event_t;

static void
s_sync(sink_commit_t *commit)
{
    sink_commit_begin(commit, &s_run);
    sink_commit_durable(commit, &s_run);
}

typedef struct {
    event_t event;
    uint64_t first;
    uint32_t n; /* of PUT; WRITE's last is `first` */
    sink_put_t want;
    uint32_t want_skip;
    uint64_t want_committed, want_next;
    uint32_t want_flags;
} step_t;

static sink_commit_stats_t
must_decide(const step_t *steps, size_t n)
{
    sink_commit_t *commit = NULL;
    assert_int_equal(sink_commit_new(8, &commit), CREMA_OK);
    for (size_t i = 0; i < n; i++) {
        const step_t *step = &steps[i];
        sink_put_t decision = SINK_PUT_APPEND;
        uint32_t skip = 0;
        uint64_t next = 0;
        if (step->event == PUT) {
            assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, step->first, step->n,
                                             &decision, &skip, &next),
                             CREMA_OK);
            if (decision != step->want || skip != step->want_skip)
                fail_msg("step %zu: decision %d skip %u", i, decision, skip);
        } else if (step->event == SYNC) {
            s_sync(commit);
        } else if (step->event == BEGIN) {
            sink_commit_begin(commit, &s_run);
        } else if (step->event == END) {
            sink_commit_durable(commit, &s_run);
        } else {
            sink_commit_written(commit, &s_stream, step->first, step->event == WRITE_END);
        }
        crema_stream_row_t row;
        sink_commit_get(commit, &s_stream, &row);
        if (row.committed != step->want_committed || row.recv_next != step->want_next ||
            row.flags != step->want_flags)
            fail_msg("step %zu: committed %llu next %llu flags %u", i,
                     (unsigned long long)row.committed, (unsigned long long)row.recv_next,
                     row.flags);
    }
    sink_commit_stats_t stats = sink_commit_stats(commit);
    sink_commit_destroy(&commit);
    assert_null(commit);
    return stats;
}

static void
must_decide_as_the_table_says(void **state)
{
    (void)state;
    const step_t steps[] = {
        {PUT, 2, 3, SINK_PUT_GAP, 0, 0, 0, 0}, /* makes no entry */
        {PUT, 1, 3, SINK_PUT_APPEND, 0, 0, 1, 0},
        {PUT, 1, 3, SINK_PUT_APPEND, 0, 0, 1, 0}, /* the write failed: decided anew */
        {WRITE, 3, 0, 0, 0, 0, 4, 0},
        {PUT, 1, 3, SINK_PUT_REPEAT, 0, 0, 4, 0},
        {PUT, 2, 4, SINK_PUT_APPEND, 2, 0, 4, 0},
        {WRITE, 5, 0, 0, 0, 0, 6, 0},
        {WRITE, 4, 0, 0, 0, 0, 6, 0}, /* numbers never go back */
        {PUT, 7, 1, SINK_PUT_GAP, 0, 0, 6, 0},
        {SYNC, 0, 0, 0, 0, 5, 6, 0},
        {PUT, 6, 1, SINK_PUT_APPEND, 0, 5, 6, 0},
        {WRITE, 100, 0, 0, 0, 5, 101, 0}, /* a LOSS stands in for its whole range */
        {SYNC, 0, 0, 0, 0, 100, 101, 0},
        {PUT, 101, 2, SINK_PUT_APPEND, 0, 100, 101, 0},
        {WRITE_END, 102, 0, 0, 0, 100, 103, 0}, /* written, yet not closed for others */
        {PUT, 103, 1, SINK_PUT_CLOSED, 0, 100, 103, 0},
        {PUT, 102, 2, SINK_PUT_CLOSED, 0, 100, 103, 0},
        {WRITE, 104, 0, 0, 0, 100, 103, 0},
        {SYNC, 0, 0, 0, 0, 102, 103, CREMA_STREAM_FLAG_CLOSED},
        {PUT, 102, 1, SINK_PUT_REPEAT, 0, 102, 103, CREMA_STREAM_FLAG_CLOSED},
    };
    const sink_commit_stats_t stats = must_decide(steps, sizeof steps / sizeof *steps);
    assert_int_equal(stats.streams, 1);
    assert_int_equal(stats.appended, 102);
    assert_int_equal(stats.repeats, 2);
    assert_int_equal(stats.gaps, 2);
    assert_int_equal(stats.uncommitted, 0);
}

static void
must_commit_only_what_was_written_before_the_sync_began(void **state)
{
    (void)state;
    const step_t steps[] = {
        {PUT, 1, 3, SINK_PUT_APPEND, 0, 0, 1, 0},
        {WRITE, 3, 0, 0, 0, 0, 4, 0},
        {BEGIN, 0, 0, 0, 0, 0, 4, 0},
        {WRITE, 5, 0, 0, 0, 0, 6, 0},
        {END, 0, 0, 0, 0, 3, 6, 0},
        {END, 0, 0, 0, 0, 3, 6, 0},
        {BEGIN, 0, 0, 0, 0, 3, 6, 0},
        {WRITE_END, 6, 0, 0, 0, 3, 7, 0},
        {END, 0, 0, 0, 0, 5, 7, 0},
        {SYNC, 0, 0, 0, 0, 6, 7, CREMA_STREAM_FLAG_CLOSED},
    };
    const sink_commit_stats_t stats = must_decide(steps, sizeof steps / sizeof *steps);
    assert_int_equal(stats.appended, 6);
    assert_int_equal(stats.uncommitted, 0);
}

static void
must_refuse_what_cannot_be(void **state)
{
    (void)state;
    sink_commit_t *commit = NULL;
    assert_int_equal(sink_commit_new(0, &commit), CREMA_EINVAL);
    assert_int_equal(sink_commit_new(1, &commit), CREMA_OK);
    sink_put_t decision;
    uint32_t skip;
    uint64_t next;
    assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, 0, 1, &decision, &skip, &next),
                     CREMA_EINVAL);
    assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, 1, 0, &decision, &skip, &next),
                     CREMA_EINVAL);
    assert_int_equal(
        sink_commit_put(commit, &s_stream, &s_run, UINT64_MAX, 2, &decision, &skip, &next),
        CREMA_EINVAL);
    assert_int_equal(sink_commit_restore(commit, &s_stream, &s_run, UINT64_MAX, 0, true),
                     CREMA_EINVAL);
    assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, 1, 1, &decision, &skip, &next),
                     CREMA_OK);
    assert_int_equal(sink_commit_put(commit, &s_other, &s_run, 1, 1, &decision, &skip, &next),
                     CREMA_ELIMIT);
    assert_int_equal(sink_commit_restore(commit, &s_other, &s_run, 1, 0, true), CREMA_ELIMIT);
    sink_commit_destroy(&commit);
}

static void
must_not_merge_a_stream_with_that_of_another_run(void **state)
{
    (void)state;
    const crema_id_t run = {{10}};
    sink_commit_t *commit = NULL;
    crema_stream_row_t row;
    assert_int_equal(sink_commit_new(8, &commit), CREMA_OK);
    assert_int_equal(sink_commit_restore(commit, &s_stream, &s_run, 3, 0, false), CREMA_OK);
    assert_int_equal(sink_commit_restore(commit, &s_stream, &run, 7, 0, true), CREMA_EPROTO);
    assert_int_equal(sink_commit_restore(commit, &s_stream, &run, 0, 9, false), CREMA_EPROTO);
    assert_int_equal(sink_commit_restore_put(commit, &s_stream, &run, 4, 8, true), CREMA_EPROTO);
    assert_true(sink_commit_get(commit, &s_stream, &row));
    assert_true(crema_id_equal(&row.run_id, &s_run));
    assert_int_equal(row.committed, 3);
    assert_int_equal(row.hi, 3);
    assert_int_equal(row.flags, 0);
    assert_int_equal(sink_commit_count(commit, &run), 0);
    assert_int_equal(sink_commit_stats(commit).strays, 3);
    sink_commit_destroy(&commit);
}

static void
must_acknowledge_what_moved_and_what_was_asked_for(void **state)
{
    (void)state;
    sink_commit_t *commit = NULL;
    crema_stream_row_t rows[4];
    sink_put_t decision;
    uint32_t skip;
    uint64_t next;
    assert_int_equal(sink_commit_new(8, &commit), CREMA_OK);
    assert_int_equal(sink_commit_restore(commit, &s_other, &s_run, 7, 0, true), CREMA_OK);
    assert_int_equal(sink_commit_restore(commit, &s_other, &s_run, 5, 0, false), CREMA_OK);
    assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, 1, 2, &decision, &skip, &next),
                     CREMA_OK);
    sink_commit_written(commit, &s_stream, 2, false);
    assert_int_equal(sink_commit_take(commit, rows, 4), 0);
    s_sync(commit);
    sink_commit_ask(commit, &s_other);
    sink_commit_ask(commit, &s_other);
    assert_int_equal(sink_commit_take(commit, rows, 1), 1);
    assert_int_equal(rows[0].committed, 2);
    assert_true(crema_id_equal(&rows[0].run_id, &s_run));
    assert_int_equal(sink_commit_take(commit, rows, 4), 1);
    assert_int_equal(rows[0].committed, 7);
    assert_int_equal(rows[0].flags, CREMA_STREAM_FLAG_CLOSED);
    assert_int_equal(sink_commit_take(commit, rows, 4), 0);
    assert_int_equal(sink_commit_put(commit, &s_stream, &s_run, 1, 1, &decision, &skip, &next),
                     CREMA_OK);
    assert_int_equal(decision, SINK_PUT_REPEAT);
    assert_int_equal(sink_commit_take(commit, rows, 4), 1);
    assert_int_equal(rows[0].committed, 2);
    crema_id_t unknown = {{77}};
    sink_commit_ask(commit, &unknown);
    sink_commit_written(commit, &unknown, 3, false);
    assert_false(sink_commit_get(commit, &unknown, &rows[0]));
    assert_int_equal(rows[0].committed, 0);
    assert_int_equal(rows[0].recv_next, 0);
    sink_commit_destroy(&commit);
}

static void
s_count(void *context, const crema_stream_row_t *row)
{
    *(uint64_t *)context += row->committed;
}

static void
must_show_every_stream(void **state)
{
    (void)state;
    sink_commit_t *commit = NULL;
    assert_int_equal(sink_commit_new(1000, &commit), CREMA_OK);
    for (int i = 0; i < 1000; i++) {
        crema_id_t id = {{(uint8_t)i, (uint8_t)(i >> 8), 5}};
        assert_int_equal(sink_commit_restore(commit, &id, &s_run, 3, 0, i % 2), CREMA_OK);
    }
    uint64_t sum = 0;
    sink_commit_each(commit, &s_run, s_count, &sum);
    assert_int_equal(sum, 3000);
    sink_commit_destroy(&commit);
}

/* A run takes room only as long as it has streams. */
static void
must_forget_runs_without_streams(void **state)
{
    (void)state;
    sink_commit_t *commit = NULL;
    sink_put_t decision;
    uint32_t skip;
    uint64_t next;
    const crema_id_t streams[] = {{{1}}, {{2}}, {{3}}}, runs[] = {{{11}}, {{12}}, {{13}}, {{14}}};
    assert_int_equal(sink_commit_new(2, &commit), CREMA_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                sink_commit_put(commit, &streams[i], &runs[0], 1, 1, &decision, &skip, &next),
                CREMA_OK);
        /* there is room for its run, not for the stream */
        assert_int_equal(
            sink_commit_put(commit, &streams[2], &runs[3], 1, 1, &decision, &skip, &next),
            CREMA_ELIMIT);
        assert_true(sink_commit_forget(commit, &runs[0]));
        for (int i = 1; i < 3; i++)
            assert_int_equal(
                sink_commit_put(commit, &streams[i], &runs[i], 1, 1, &decision, &skip, &next),
                CREMA_OK);
        for (int i = 1; i < 3; i++)
            assert_true(sink_commit_forget(commit, &runs[i]));
    }
    sink_commit_destroy(&commit);
}

/* What an earlier process wrote is durable when that has been renewed; what came meanwhile is
 * later. */
static void
must_commit_what_was_restored_when_it_is_renewed(void **state)
{
    (void)state;
    crema_stream_row_t row;
    for (int fails = 0; fails < 2; fails++) {
        sink_commit_t *commit = NULL;
        assert_int_equal(sink_commit_new(8, &commit), CREMA_OK);
        assert_int_equal(sink_commit_restore(commit, &s_stream, &s_run, 5, 5, false), CREMA_OK);
        assert_int_equal(sink_commit_restore(commit, &s_other, &s_run, 3, 3, true), CREMA_OK);
        sink_commit_renew(commit, &s_run);
        sink_commit_written(commit, &s_stream, 7, false);
        assert_true(sink_commit_get(commit, &s_stream, &row));
        assert_int_equal(row.committed, 0);
        assert_int_equal(row.recv_next, 8);
        assert_true(sink_commit_get(commit, &s_other, &row));
        assert_int_equal(row.flags, 0);
        assert_false(sink_commit_forget(commit, &s_run));
        assert_int_equal(sink_commit_stats(commit).uncommitted, 5 + 3 + 2);
        if (fails) {
            sink_commit_drop(commit, &s_run);
            assert_false(sink_commit_get(commit, &s_stream, &row));
            assert_int_equal(sink_commit_stats(commit).uncommitted, 0);
            assert_int_equal(sink_commit_stats(commit).streams, 0);
            assert_int_equal(sink_commit_take(commit, &row, 1), 0);
        } else {
            sink_commit_durable(commit, &s_run);
            assert_true(sink_commit_get(commit, &s_stream, &row));
            assert_int_equal(row.committed, 5);
            assert_true(sink_commit_get(commit, &s_other, &row));
            assert_int_equal(row.flags, CREMA_STREAM_FLAG_CLOSED);
            s_sync(commit);
            assert_true(sink_commit_get(commit, &s_stream, &row));
            assert_int_equal(row.committed, 7);
            assert_int_equal(sink_commit_stats(commit).uncommitted, 0);
        }
        sink_commit_destroy(&commit);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_decide_as_the_table_says),
        cmocka_unit_test(must_commit_only_what_was_written_before_the_sync_began),
        cmocka_unit_test(must_refuse_what_cannot_be),
        cmocka_unit_test(must_not_merge_a_stream_with_that_of_another_run),
        cmocka_unit_test(must_acknowledge_what_moved_and_what_was_asked_for),
        cmocka_unit_test(must_show_every_stream),
        cmocka_unit_test(must_forget_runs_without_streams),
        cmocka_unit_test(must_commit_what_was_restored_when_it_is_renewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
