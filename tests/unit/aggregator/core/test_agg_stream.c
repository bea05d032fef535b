/* agg_stream: step tables. Each row is an event at a time, and what must be known and due right
 * after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agg_stream.h"

#define MS 1000000ll
#define S (1000 * MS)

typedef enum { ANNOUNCE, CLOSE, TAKE, COMMIT, COMMIT_END, STATE, RESYNC, TICK, FULL_TICK } event_t;

typedef struct {
    int64_t at_ms;
    event_t event;
    uint64_t a, b; /* ANNOUNCE hi; TAKE first, last; COMMIT committed; STATE committed, sink_next */
    crema_err_t want_err;
    uint64_t want_next, want_committed;
    agg_stream_state_t want_state; /* after `due` was asked */
    agg_stream_due_t want_due;
} step_t;

static agg_stream_t *
s_stream(void)
{
    agg_stream_t *stream = NULL;
    static agg_run_t s_run = {.run_id = {{2}}};
    const crema_id_t id = {{1}};
    assert_int_equal(agg_stream_new(&id, &s_run, &stream), CREMA_OK);
    stream->interval_ns = 1 * S; /* W0 = 2 s */
    return stream;
}

static void
must_follow(const step_t *steps, size_t n)
{
    agg_stream_t *stream = s_stream();
    for (size_t i = 0; i < n; i++) {
        const step_t *step = &steps[i];
        int64_t now = step->at_ms * MS;
        crema_err_t err = CREMA_OK;
        uint64_t from = 0;
        switch (step->event) {
        case ANNOUNCE:
            agg_stream_announce(stream, step->a, false, now);
            break;
        case CLOSE:
            agg_stream_announce(stream, step->a, true, now);
            break;
        case TAKE:
            err = agg_stream_take(stream, step->a, step->b, 100 * (step->b - step->a + 1), now,
                                  &from);
            break;
        case COMMIT:
        case COMMIT_END:
            agg_stream_commit(stream, step->a, step->event == COMMIT_END, now);
            break;
        case STATE:
            agg_stream_on_state(stream, step->a, step->b, false, now);
            break;
        case RESYNC:
            agg_stream_resync(stream, now);
            break;
        case TICK:
        case FULL_TICK:
            break;
        }
        agg_stream_due_t due = agg_stream_due(stream, step->event != FULL_TICK, now);
        crema_stream_row_t row = agg_stream_row(stream);
        if (err != step->want_err || row.recv_next != step->want_next ||
            row.committed != step->want_committed || due != step->want_due ||
            agg_stream_state(stream) != step->want_state)
            fail_msg("step %zu at %lld ms: %s next %llu committed %llu state %d due %d", i,
                     (long long)step->at_ms, crema_err_text(err), (unsigned long long)row.recv_next,
                     (unsigned long long)row.committed, (int)agg_stream_state(stream), due);
    }
    agg_stream_destroy(&stream);
    assert_null(stream);
}

#define N(steps) (sizeof(steps) / sizeof *(steps))
#define WAIT AGG_STREAM_WAIT
#define ASK_SINK AGG_STREAM_ASK_SINK
#define ASK_SENDER AGG_STREAM_ASK_SENDER
#define SYNCING AGG_STREAM_SYNCING
#define LIVE AGG_STREAM_LIVE
#define GAP AGG_STREAM_GAP
#define CLOSED AGG_STREAM_CLOSED

static void
must_take_only_what_continues(void **state)
{
    (void)state;
    const step_t steps[] = {
        {0, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
        {1, TAKE, 1, 5, CREMA_EAGAIN, 0, 0, SYNCING, WAIT},
        {2, STATE, 0, 0, CREMA_OK, 1, 0, LIVE, WAIT},
        {3, TAKE, 1, 5, CREMA_OK, 6, 0, LIVE, WAIT},
        {4, TAKE, 1, 5, CREMA_EREPEAT, 6, 0, LIVE, WAIT},
        {5, TAKE, 4, 8, CREMA_OK, 9, 0, LIVE, WAIT},
        {6, TAKE, 8, 7, CREMA_EINVAL, 9, 0, LIVE, WAIT},
        {6, TAKE, 0, 7, CREMA_EINVAL, 9, 0, LIVE, WAIT},
        {6, TAKE, 9, UINT64_MAX, CREMA_EINVAL, 9, 0, LIVE, WAIT},
        {7, COMMIT, 8, 0, CREMA_OK, 9, 8, LIVE, WAIT},
        {8, ANNOUNCE, 12, 0, CREMA_OK, 9, 8, LIVE, WAIT},
        {9, TAKE, 11, 12, CREMA_EGAP, 9, 8, GAP, ASK_SENDER}, /* the hole is proven */
        {10, TAKE, 12, 12, CREMA_EGAP, 9, 8, GAP, WAIT},      /* and asked for once */
        {11, TAKE, 9, 12, CREMA_OK, 13, 8, LIVE, WAIT},
        {12, CLOSE, 13, 0, CREMA_OK, 13, 8, LIVE, WAIT},
        {13, TAKE, 13, 13, CREMA_OK, 14, 8, LIVE, WAIT},
        {14, COMMIT_END, 13, 0, CREMA_OK, 14, 13, CLOSED, WAIT},
        {15, TAKE, 14, 14, CREMA_EREPEAT, 14, 13, CLOSED, WAIT}, /* nothing follows an END */
        {16, ANNOUNCE, 20, 0, CREMA_OK, 14, 13, CLOSED, WAIT},
    };
    must_follow(steps, N(steps));
}

static void
must_ask_the_sink_again_when_committed_stands_still(void **state)
{
    (void)state;
    const step_t steps[] = {
        {0, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
        {299, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, WAIT},
        {300, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
        {899, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, WAIT},
        {900, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
        {901, STATE, 7, 0, CREMA_OK, 8, 7, LIVE, WAIT},
        {1000, TAKE, 8, 9, CREMA_OK, 10, 7, LIVE, WAIT},
        {1299, TICK, 0, 0, CREMA_OK, 10, 7, LIVE, WAIT},
        {1300, TICK, 0, 0, CREMA_OK, 0, 7, SYNCING, ASK_SINK},
        {1301, STATE, 7, 10, CREMA_OK, 10, 7, LIVE, WAIT}, /* slow, not lost: goes on */
        {1900, TICK, 0, 0, CREMA_OK, 10, 7, LIVE, WAIT},
        {1901, TICK, 0, 0, CREMA_OK, 0, 7, SYNCING, ASK_SINK}, /* doubled */
        {1902, STATE, 8, 9, CREMA_OK, 9, 8, GAP, ASK_SENDER},  /* 9 was lost */
        {1903, TAKE, 9, 9, CREMA_OK, 10, 8, LIVE, WAIT},
        {1904, RESYNC, 0, 0, CREMA_OK, 0, 8, SYNCING, ASK_SINK},
        {1905, COMMIT, 9, 0, CREMA_OK, 0, 9, SYNCING, WAIT},
        {1906, STATE, 5, 0, CREMA_OK, 6, 5, GAP, ASK_SENDER}, /* an older store */
    };
    must_follow(steps, N(steps));
}

static void
must_not_ask_anybody_to_send_while_the_sink_is_full(void **state)
{
    (void)state;
    const step_t steps[] = {
        {0, ANNOUNCE, 9, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
        {1, STATE, 0, 0, CREMA_OK, 1, 0, GAP, ASK_SENDER},
        {2, TAKE, 1, 4, CREMA_OK, 5, 0, LIVE, WAIT},
        {60000, FULL_TICK, 0, 0, CREMA_OK, 5, 0, LIVE, WAIT},
        {60001, TICK, 0, 0, CREMA_OK, 0, 0, SYNCING, ASK_SINK},
    };
    must_follow(steps, N(steps));
}

static void
must_ask_the_sender_ever_less_often_and_never_give_up(void **state)
{
    (void)state;
    agg_stream_t *stream = s_stream();
    agg_stream_on_state(stream, 0, 0, false, 0);
    agg_stream_announce(stream, 3, false, 0);
    int64_t asked_at[20] = {0}, now = 0;
    size_t asked = 0;
    for (; asked < 20; now += 10 * MS)
        if (agg_stream_due(stream, true, now) == AGG_STREAM_ASK_SENDER)
            asked_at[asked++] = now;
    for (size_t i = 1; i < 20; i++) {
        int64_t want = (2 * S) << (i - 1 < 4 ? i - 1 : 4);
        assert_in_range(asked_at[i] - asked_at[i - 1], want * 8 / 10, want * 12 / 10 + 10 * MS);
    }
    assert_int_equal(agg_stream_state(stream), AGG_STREAM_STALLED);
    uint64_t from = 0;
    assert_int_equal(agg_stream_take(stream, 1, 3, 10, now, &from), CREMA_OK);
    assert_int_equal(from, 1);
    assert_int_equal(agg_stream_state(stream), AGG_STREAM_LIVE);
    agg_stream_destroy(&stream);
}

static void
must_give_back_every_byte(void **state)
{
    (void)state;
    agg_stream_t *stream = s_stream();
    agg_stream_on_state(stream, 0, 0, false, 0);
    uint64_t from = 0;
    assert_int_equal(agg_stream_take(stream, 1, 10, 1001, 0, &from), CREMA_OK);
    agg_stream_commit(stream, 5, false, 1);
    assert_in_range(stream->at.uncommitted_b, 500, 501);
    agg_stream_commit(stream, 7, false, 1); /* two of the five that are left */
    assert_in_range(stream->at.uncommitted_b, 300, 302);
    assert_int_equal(agg_stream_take(stream, 11, 11, 7, 2, &from), CREMA_OK);
    agg_stream_commit(stream, 11, false, 3);
    assert_int_equal(stream->at.uncommitted_b, 0);
    assert_int_equal(agg_stream_take(stream, 12, 12, 7, 4, &from), CREMA_OK);
    agg_stream_resync(stream, 5);
    assert_int_equal(stream->at.uncommitted_b, 0);
    agg_stream_destroy(&stream);
}

/* Arrivals every 3 s stretch the window beyond 2 H, so that a slow but steady sender is not asked
 * again. */
static void
must_fit_the_window_to_slow_arrivals(void **state)
{
    (void)state;
    agg_stream_t *stream = s_stream();
    agg_stream_on_state(stream, 0, 0, false, 0);
    agg_stream_announce(stream, 1000, false, 0);
    uint64_t from = 0;
    int64_t now = 0;
    for (uint64_t seq = 1; seq < 900; seq++, now += 3 * S)
        assert_int_equal(agg_stream_take(stream, seq, seq, 1, now, &from), CREMA_OK);
    agg_stream_commit(stream, 899, false, now);
    now -= 3 * S; /* of the last arrival */
    assert_int_equal(agg_stream_due(stream, true, now + 3500 * MS), AGG_STREAM_WAIT);
    assert_int_equal(agg_stream_due(stream, true, now + 7 * S), AGG_STREAM_ASK_SENDER);
    agg_stream_destroy(&stream);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_take_only_what_continues),
        cmocka_unit_test(must_ask_the_sink_again_when_committed_stands_still),
        cmocka_unit_test(must_not_ask_anybody_to_send_while_the_sink_is_full),
        cmocka_unit_test(must_ask_the_sender_ever_less_often_and_never_give_up),
        cmocka_unit_test(must_give_back_every_byte),
        cmocka_unit_test(must_fit_the_window_to_slow_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
