/* The tap: whoever subscribes gets numbered JSON; nobody is waited for. */
#include "must.h"

#include <string.h>

#include <czmq.h>

#include "agg_tap.h"
#include "crema_json.h"
#include "message_parts.h"
#include "record_frames.h"

static agg_tap_t *s_tap;
static zsock_t *s_watcher;

static int
s_setup(void **state)
{
    (void)state;
    if (agg_tap_new("tcp://127.0.0.1:*", NULL, &s_tap) != CREMA_OK)
        return -1;
    s_watcher = zsock_new(ZMQ_SUB);
    zsock_set_rcvtimeo(s_watcher, 5000);
    zsock_set_subscribe(s_watcher, "");
    return zsock_connect(s_watcher, "%s", agg_tap_bound(s_tap));
}

static int
s_teardown(void **state)
{
    (void)state;
    zsock_destroy(&s_watcher);
    agg_tap_destroy(&s_tap);
    return s_tap == NULL ? 0 : -1;
}

static void
wait_for_subscription(void)
{
    zpoller_t *poller = zpoller_new(agg_tap_socket(s_tap), NULL);
    assert_ptr_equal(zpoller_wait(poller, 5000), agg_tap_socket(s_tap));
    zpoller_destroy(&poller);
    agg_tap_on_readable(s_tap);
}

/* The next message of a topic, valid until the next call. */
static const char *
must_hear(const char *topic)
{
    static char line[4096];
    int size = zmq_recv(zsock_resolve(s_watcher), line, sizeof line - 1, 0);
    assert_in_range(size, strlen(topic) + 3, sizeof line - 1);
    line[size] = '\0';
    assert_memory_equal(line, topic, strlen(topic));
    assert_int_equal(line[strlen(topic)], ' ');
    return line + strlen(topic) + 1;
}

static void
must_say(const char *line, const char *key, const char *want)
{
    char text[128];
    must(crema_json_get_text(crema_json_find(line, key), text, sizeof text));
    assert_string_equal(text, want);
}

static int64_t
s_number(const char *object, const char *key)
{
    int64_t number = -1;
    must(crema_json_get_int(crema_json_find(object, key), &number));
    return number;
}

static void
test_tap_tells_events_with_numbers(void **state)
{
    (void)state;
    agg_action_t action = {
        .type = AGG_EVENT,
        .event = AGG_EVENT_AGENT_WELCOMED,
        .agent_id = frames_id(0x11),
        .subject = "node \"7\"",
    };
    wait_for_subscription();
    agg_tap_event(s_tap, &action, 5);
    agg_tap_event(s_tap, &action, 6);
    assert_int_equal(s_number(must_hear("event"), "n"), 1);
    const char *line = must_hear("event");
    assert_int_equal(s_number(line, "n"), 2);
    assert_int_equal(s_number(line, "t_ns"), 6);
    must_say(line, "event", "agent_welcomed");
    must_say(line, "agent", "11111111-1111-1111-1111-111111111111");
    must_say(line, "subject", "node \"7\"");
    assert_null(crema_json_find(line, "run"));
    assert_null(crema_json_find(line, "detail"));
}

static void
test_tap_tells_how_a_run_stands(void **state)
{
    (void)state;
    Crema__RunState run = {
        .run_id = body_id(frames_id(0x22)),
        .phase = CREMA_RUN_BARRIER,
        .agents = 3,
        .streams = 5,
        .streams_done = 4,
        .committed = 1000,
        .missing = 7,
    };
    agg_rollup_t *rollup;
    must(agg_rollup_new(AGG_ROLLUP_LIMITS, &rollup));
    wait_for_subscription();
    agg_tap_run(s_tap, &run, rollup, 9);
    const char *line = must_hear("run");
    must_say(line, "run", "22222222-2222-2222-2222-222222222222");
    must_say(line, "phase", "barrier");
    assert_int_equal(s_number(line, "agents"), 3);
    assert_int_equal(s_number(line, "streams_done"), 4);
    assert_int_equal(s_number(line, "records"), 1000);
    assert_int_equal(s_number(line, "missing"), 7);
    assert_int_equal(s_number(crema_json_find(line, "seconds"), "processor"), 0);
    assert_int_equal(s_number(line, "rows_nameless"), 0);
    assert_int_equal(s_number(line, "not_taken"), 0);
    agg_tap_run(s_tap, &run, NULL, 9);
    line = must_hear("run");
    assert_null(crema_json_find(crema_json_find(line, "seconds"), "processor"));
    agg_rollup_destroy(&rollup);
}

/* A watcher that does not read costs the others and the aggregator nothing. */
static void
test_tap_waits_for_nobody(void **state)
{
    (void)state;
    agg_action_t action = {.type = AGG_EVENT, .event = AGG_EVENT_SINK_UP};
    wait_for_subscription();
    for (int i = 0; i < 200000; i++)
        agg_tap_event(s_tap, &action, i);
    assert_int_equal(s_number(must_hear("event"), "n"), 1);
}

static void
test_tap_refuses_a_taken_endpoint(void **state)
{
    (void)state;
    agg_tap_t *second = NULL;
    assert_int_equal(agg_tap_new(agg_tap_bound(s_tap), NULL, &second), CREMA_EBUSY);
    assert_int_equal(agg_tap_new("nowhere", NULL, &second), CREMA_EINVAL);
    assert_null(second);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_tap_tells_events_with_numbers),
        T(test_tap_tells_how_a_run_stands),
        T(test_tap_waits_for_nobody),
        T(test_tap_refuses_a_taken_endpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
