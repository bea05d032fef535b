/* agg_session: silence in terms of its own heartbeat, and one identity in two processes. */
#include "must.h"

#include "agg_session.h"

#define MS 1000000ll
#define S (1000 * MS)

static const crema_id_t s_id = {{0xab}};

static agg_hello_verdict_t
s_hello(agg_session_t *session, uint64_t boot, uint32_t hb_ivl_ms, int64_t now)
{
    uint32_t retry_after_ms = 0;
    Crema__Hello hello = {.boot = boot, .hb_ivl_ms = hb_ivl_ms, .host = "node7"};
    agg_hello_verdict_t verdict = agg_session_on_hello(session, &hello, now, &retry_after_ms);
    assert_int_equal(verdict == AGG_HELLO_TOO_OFTEN, retry_after_ms > 0);
    return verdict;
}

static void
must_judge_silence_by_its_own_interval(void **state)
{
    (void)state;
    static const struct {
        uint32_t hb_ivl_ms;
        int64_t suspect_ms, lost_ms; /* from when on; a round trip is taken as 500 ms */
    } rows[] = {
        {200, 1100, 30000},
        {1000, 3500, 30000},
        {5000, 15500, 50000},
        {3050, 9650, 30500},
        {26000, 78500, 260000},
        {0, 1100, 30000},
        {4000000000u, 180500, 600000}, /* hostile */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        agg_session_t *session = NULL;
        must(agg_session_new(&s_id, &session));
        assert_int_equal(agg_session_state(session, 0), AGG_SESSION_NEW);
        assert_int_equal(s_hello(session, 1, rows[i].hb_ivl_ms, 0), AGG_HELLO_ADMIT);
        int64_t suspect = rows[i].suspect_ms * MS, lost = rows[i].lost_ms * MS;
        assert_int_equal(agg_session_state(session, suspect - 1), AGG_SESSION_LIVE);
        assert_int_equal(agg_session_state(session, suspect), AGG_SESSION_SUSPECT);
        assert_int_equal(agg_session_state(session, lost - 1), AGG_SESSION_SUSPECT);
        assert_int_equal(agg_session_state(session, lost), AGG_SESSION_LOST);
        assert_int_equal(agg_session_state(session, 24 * 3600 * S), AGG_SESSION_EXPIRED);
        session->heard_ns = lost;
        assert_int_equal(agg_session_state(session, lost + 1), AGG_SESSION_LIVE);
        agg_session_on_bye(session, false);
        assert_int_equal(agg_session_state(session, 24 * 3600 * S), AGG_SESSION_LEAVING);
        agg_session_on_bye(session, true);
        assert_int_equal(agg_session_state(session, 24 * 3600 * S), AGG_SESSION_LEFT);
        assert_string_equal(session->name, "node7");
        agg_session_destroy(&session);
        assert_null(session);
    }
}

/* One that declares 0.2 s and beats every 4 s is judged by half of what it does. */
static void
must_not_believe_an_interval_that_is_not_kept(void **state)
{
    (void)state;
    agg_session_t *session = NULL;
    must(agg_session_new(&s_id, &session));
    s_hello(session, 1, 200, 0);
    int64_t now = 0;
    for (int i = 0; i < 20; i++, now += i == 10 ? 100 * S : 4 * S) /* one outlier changes nothing */
        agg_session_on_heartbeat(session, 200, now);
    assert_int_equal(agg_session_interval_ns(session), 2 * S);
    agg_session_on_heartbeat(session, 9000, now);
    assert_int_equal(agg_session_interval_ns(session), 9 * S);
    agg_session_on_round_trip(session, 2 * S);
    session->heard_ns = now;
    assert_int_equal(agg_session_state(session, now + 29 * S - 1), AGG_SESSION_LIVE);
    assert_int_equal(agg_session_state(session, now + 29 * S), AGG_SESSION_SUSPECT);
    agg_session_destroy(&session);
}

static void
must_tell_a_restart_from_a_clone(void **state)
{
    (void)state;
    static const struct {
        uint64_t boot;
        agg_hello_verdict_t want;
    } rows[] = {
        {1, AGG_HELLO_ADMIT},      {1, AGG_HELLO_ADMIT},      {2, AGG_HELLO_SUPERSEDES},
        {3, AGG_HELLO_SUPERSEDES}, {2, AGG_HELLO_SUPERSEDES}, /* late, or alive? */
        {3, AGG_HELLO_CLONE},      {3, AGG_HELLO_CLONE},      {4, AGG_HELLO_SUPERSEDES},
        {4, AGG_HELLO_ADMIT},
    };
    agg_session_t *session = NULL;
    must(agg_session_new(&s_id, &session));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(s_hello(session, rows[i].boot, 1000, (int64_t)i * 10 * S), rows[i].want);
    agg_session_destroy(&session);
}

static void
must_take_ten_hellos_of_a_process_at_once_and_then_ten_a_minute(void **state)
{
    (void)state;
    agg_session_t *session = NULL;
    must(agg_session_new(&s_id, &session));
    int64_t now = 5 * S;
    for (int i = 0; i < 11; i++) /* the first one is its start */
        assert_int_equal(s_hello(session, 1, 1000, now), AGG_HELLO_ADMIT);
    assert_int_equal(s_hello(session, 1, 1000, now), AGG_HELLO_TOO_OFTEN);
    int admitted = 0;
    for (; now < 65 * S; now += 100 * MS)
        admitted += s_hello(session, 1, 1000, now) == AGG_HELLO_ADMIT;
    assert_int_equal(admitted, 9);
    assert_int_equal(s_hello(session, 1, 1000, now), AGG_HELLO_ADMIT);
    agg_session_destroy(&session);
}

/* Admitted restarts in a minute of which each process lives for so long, asking again as it is
 * told. */
static int
s_restarts(int64_t life_ns, int *ret_tried)
{
    agg_session_t *session = NULL;
    must(agg_session_new(&s_id, &session));
    int admitted = 0, tried = 0;
    for (int64_t start = 0; start < 60 * S; start += life_ns, tried++) {
        uint32_t wait_ms = 0;
        Crema__Hello hello = {.boot = (uint64_t)tried + 1, .hb_ivl_ms = 1000};
        for (int64_t now = start; now < start + life_ns; now += wait_ms * MS)
            if (agg_session_on_hello(session, &hello, now, &wait_ms) != AGG_HELLO_TOO_OFTEN) {
                admitted++;
                break;
            }
    }
    agg_session_destroy(&session);
    *ret_tried = tried;
    return admitted;
}

static void
must_not_starve_an_agent_that_is_restarted_each_second(void **state)
{
    (void)state;
    int tried = 0;
    int admitted = s_restarts(S, &tried);
    assert_int_equal(admitted, tried);
    admitted =
        s_restarts(100 * MS, &tried); /* and one that comes ten times a second is slowed down */
    assert_int_equal(tried, 600);
    assert_in_range(admitted, 60, 70);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_judge_silence_by_its_own_interval),
        cmocka_unit_test(must_not_believe_an_interval_that_is_not_kept),
        cmocka_unit_test(must_tell_a_restart_from_a_clone),
        cmocka_unit_test(must_take_ten_hellos_of_a_process_at_once_and_then_ten_a_minute),
        cmocka_unit_test(must_not_starve_an_agent_that_is_restarted_each_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
