/* agg_core: what is refused a client, and what it is told while it waits. */
#include "must.h"

#include <stdio.h>
#include <string.h>

#include "agg_core.h"
#include "crema_frame.h"
#include "message_parts.h"

#define S 1000000000ll
#define BOOT 7u
#define RUNS_MAX 5
#define OWNER_RUNS_MAX 2
#define OWNER_BYTES_MAX 1000

static agg_core_t *s_core;
static int64_t s_now_ns;
static Crema__RunState s_state; /* of the last RUN_STATE */
static char s_error[512], s_trouble[512];
static agg_peer_t s_told;
static bool s_taken; /* the last message was accepted */

/* ---- verbs */

static crema_id_t
s_id(uint8_t run)
{
    return (crema_id_t){{0xee, run}};
}

/* Takes all actions and keeps the last answer to a client. */
static void
s_listen(void)
{
    agg_action_t action;
    while (agg_core_next(s_core, s_now_ns, &action)) {
        if (action.type != AGG_TO_PEER || action.msg->type != CREMA_MSG_RUN_STATE)
            continue;
        s_state = action.msg->run_state;
        s_told = action.peer;
        snprintf(s_error, sizeof s_error, "%s", s_state.error ? s_state.error : "");
        snprintf(s_trouble, sizeof s_trouble, "%s", s_state.trouble ? s_state.trouble : "");
    }
}

static void
s_sink(crema_msg_t msg)
{
    msg.session = BOOT;
    agg_core_on_sink(s_core, &msg, s_now_ns, s_now_ns);
}

static void
s_wait(int64_t seconds)
{
    for (; seconds > 0; seconds--) {
        s_now_ns += S;
        s_sink((crema_msg_t){.type = CREMA_MSG_COMMITTED});
        agg_core_on_tick(s_core, s_now_ns, s_now_ns);
        s_listen();
    }
}

/* `key` 0: a connection without keys. */
static void
s_say(crema_msg_type_t type, uint8_t run, agg_peer_t peer, uint8_t key, int64_t t_start_ns)
{
    crema_principal_t from = {.as = key ? CREMA_AS_CLIENT : CREMA_AS_ANY, .key = {{key}}};
    crema_msg_t msg = {.type = type, .run_id = body_id(s_id(run))};
    if (type == CREMA_MSG_RUN_OPEN || type == CREMA_MSG_RUN_END)
        msg.run_open.t_start_ns = t_start_ns;
    s_state = (Crema__RunState){0};
    s_told = 0;
    s_taken = agg_core_on_peer(s_core, peer, &from, &msg, s_now_ns, s_now_ns);
    s_listen();
    assert_int_equal(s_told, peer);
}

static void
must_open(uint8_t run, agg_peer_t peer, uint8_t key)
{
    s_say(CREMA_MSG_RUN_OPEN, run, peer, key, 5);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    assert_int_equal(s_state.phase, CREMA_RUN_OPEN);
    assert_true(s_taken);
}

static void
must_be_refused(crema_refusal_t refusal, const char *word)
{
    assert_false(s_taken);
    assert_int_equal(s_state.refusal, refusal);
    assert_int_equal(s_state.phase, CREMA_RUN_UNKNOWN);
    assert_non_null(strstr(s_error, word));
}

static void
must_seal(uint8_t run)
{
    s_sink((crema_msg_t){.type = CREMA_MSG_SEALED,
                         .sealed = {.run_id = body_id(s_id(run)), .path = "/x.h5", .revision = 1}});
    s_listen();
    assert_int_equal(s_state.phase, CREMA_RUN_SEALED);
}

static int
s_setup(void **state)
{
    (void)state;
    const agg_config_t config = {
        .session = 42,
        .credit_pool_b = 64 << 20,
        .sink_silence_ns = 2 * S,
        .barrier_retries = 5,
        .barrier_cap_ns = 30 * S,
        .abandon_after_ns = 60 * S,
        .agents_max = 4,
        .streams_max = 8,
        .runs_max = RUNS_MAX,
        .owner_runs_max = OWNER_RUNS_MAX,
        .owner_bytes_max = OWNER_BYTES_MAX,
    };
    must(agg_core_new(&config, &s_core));
    s_now_ns = 100 * S;
    s_sink((crema_msg_t){.type = CREMA_MSG_STATE});
    s_listen();
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_core_destroy(&s_core);
    return 0;
}

/* ---- tests */

static void
must_refuse_an_id_that_is_taken(void **state)
{
    (void)state;
    must_open(1, 9, 0xc1);
    must_open(1, 10, 0xc1); /* the same client, over another connection */
    s_say(CREMA_MSG_RUN_OPEN, 1, 9, 0xc1, 6);
    must_be_refused(CREMA_REFUSED_OTHER_START, "another time");
    const crema_msg_type_t types[] = {CREMA_MSG_RUN_OPEN, CREMA_MSG_RUN_QUERY, CREMA_MSG_RUN_END};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        s_say(types[i], 1, 11, 0xc2, 5);
        must_be_refused(CREMA_REFUSED_OTHER_KEY, "another client");
    }
    s_say(CREMA_MSG_RUN_QUERY, 1, 9, 0xc1, 0);
    assert_int_equal(s_state.phase, CREMA_RUN_OPEN); /* nothing came of it */
}

static void
must_refuse_an_id_that_is_none(void **state)
{
    (void)state;
    crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN};
    const crema_principal_t anybody = {0};
    s_taken = agg_core_on_peer(s_core, 9, &anybody, &msg, s_now_ns, s_now_ns);
    s_listen();
    must_be_refused(CREMA_REFUSED_BAD_ID, "must not be zero");
    s_say(CREMA_MSG_RUN_QUERY, 1, 9, 0, 0);
    must_be_refused(CREMA_REFUSED_UNKNOWN_RUN, "run with this id");
}

static void
must_bound_the_open_runs_of_one_client(void **state)
{
    (void)state;
    must_open(1, 9, 0xc1);
    must_open(2, 10, 0xc1);
    s_say(CREMA_MSG_RUN_OPEN, 3, 11, 0xc1, 5);
    must_be_refused(CREMA_REFUSED_QUOTA, "at most 2 at a time");
    must_open(1, 9, 0xc1); /* one that it has */
    must_open(4, 12, 0xc2);
    s_say(CREMA_MSG_RUN_END, 1, 9, 0xc1, 5);
    s_say(CREMA_MSG_RUN_OPEN, 3, 11, 0xc1, 5);
    must_be_refused(CREMA_REFUSED_QUOTA, "at most 2"); /* until it has its file */
    s_say(CREMA_MSG_RUN_QUERY, 1, 9, 0xc1, 0);
    must_seal(1);
    must_open(3, 11, 0xc1);
}

/* Where there are no keys one connection is one client. */
static void
must_bound_the_open_runs_of_one_connection(void **state)
{
    (void)state;
    must_open(1, 9, 0);
    must_open(2, 9, 0);
    s_say(CREMA_MSG_RUN_OPEN, 3, 9, 0, 5);
    must_be_refused(CREMA_REFUSED_QUOTA, "at most 2");
    must_open(3, 10, 0);
}

static void
must_bound_the_bytes_of_open_runs(void **state)
{
    (void)state;
    static uint8_t frames[40 * CREMA_FRAME_HEADER_BYTES];
    const crema_principal_t agent = {.as = CREMA_AS_AGENT, .key = {{0xa1}}};
    must_open(1, 9, 0xc1);
    crema_msg_t msg = {.type = CREMA_MSG_HELLO};
    msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                               .ver_max = CREMA_WIRE_VERSION,
                               .agent_id = body_id((crema_id_t){{0xa1}}),
                               .boot = 1,
                               .hb_ivl_ms = 1000};
    agg_core_on_peer(s_core, 1, &agent, &msg, s_now_ns, s_now_ns);
    crema_stream_row_t row = {.stream_id = {{0x51}}, .run_id = s_id(1)};
    s_sink((crema_msg_t){.type = CREMA_MSG_STATE, .state.table = body_table(1, &row)});
    for (uint64_t seq = 1; seq <= 40; seq++) {
        crema_frame_t frame = {.seq = seq, .type = CREMA_RECORD_BATCH};
        crema_frame_encode(&frame, frames + (seq - 1) * CREMA_FRAME_HEADER_BYTES);
    }
    crema_msg_t data = {.type = CREMA_MSG_DATA, .session = 42};
    data.data = (Crema__Data){.stream_id = body_id(row.stream_id),
                              .run_id = body_id(row.run_id),
                              .first_seq = 1,
                              .hi = 40,
                              .n = 40,
                              .frames = {sizeof frames, frames}};
    agg_core_on_peer(s_core, 1, &agent, &data, s_now_ns, s_now_ns);
    s_listen();
    s_say(CREMA_MSG_RUN_OPEN, 2, 9, 0xc1, 5);
    must_be_refused(CREMA_REFUSED_QUOTA, "--bytes-per-client");
    must_open(3, 10, 0xc2);
}

static void
must_refuse_more_runs_than_fit(void **state)
{
    (void)state;
    for (uint8_t run = 1; run <= RUNS_MAX; run++)
        must_open(run, run, run);
    s_say(CREMA_MSG_RUN_OPEN, 100, 100, 100, 5);
    must_be_refused(CREMA_REFUSED_NO_ROOM, "5 runs");
    s_say(CREMA_MSG_RUN_QUERY, 1, 1, 1, 0);
    must_seal(1); /* what is over makes room */
    must_open(100, 100, 100);
}

static void
must_say_what_holds_the_pipeline_up(void **state)
{
    (void)state;
    must_open(1, 9, 0);
    assert_string_equal(s_trouble, "");
    s_sink((crema_msg_t){.type = CREMA_MSG_FULL,
                         .full = {.retry_after_ms = 1000, .why = "the disk of /store is full"}});
    s_say(CREMA_MSG_RUN_END, 1, 9, 0, 5);
    assert_string_equal(s_trouble, "the disk of /store is full");
    s_wait(2);
    s_say(CREMA_MSG_RUN_END, 1, 9, 0, 5);
    assert_string_equal(s_trouble, "the disk of /store is full"); /* between two words of it */
    s_wait(2);
    s_say(CREMA_MSG_RUN_END, 1, 9, 0, 5);
    assert_string_equal(s_trouble, "");
    s_now_ns += 3 * S;
    agg_core_on_tick(s_core, s_now_ns, s_now_ns);
    s_say(CREMA_MSG_RUN_OPEN, 2, 9, 0, 5);
    assert_non_null(strstr(s_trouble, "the sink does not answer"));
}

/* Of one run alone: nothing stops, and nobody else hears of it. */
static void
must_say_that_a_run_has_met_its_limit(void **state)
{
    (void)state;
    must_open(1, 9, 0);
    must_open(2, 9, 0);
    s_sink((crema_msg_t){.type = CREMA_MSG_FULL, .full.run_id = body_id(s_id(1))});
    s_wait(5);
    s_say(CREMA_MSG_RUN_END, 2, 9, 0, 5);
    assert_string_equal(s_trouble, "");
    s_say(CREMA_MSG_RUN_QUERY, 1, 9, 0, 0);
    assert_non_null(strstr(s_trouble, "--run-limit"));
    s_sink((crema_msg_t){.type = CREMA_MSG_FULL,
                         .full = {.retry_after_ms = 1000, .why = "the disk of /store is full"}});
    s_say(CREMA_MSG_RUN_QUERY, 1, 9, 0, 0);
    assert_string_equal(s_trouble, "the disk of /store is full"); /* which stops everything */
    s_sink((crema_msg_t){.type = CREMA_MSG_FULL, .full.run_id = body_id(s_id(77))}); /* unknown */
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(must_refuse_an_id_that_is_taken),        T(must_refuse_an_id_that_is_none),
        T(must_bound_the_open_runs_of_one_client), T(must_bound_the_open_runs_of_one_connection),
        T(must_bound_the_bytes_of_open_runs),      T(must_refuse_more_runs_than_fit),
        T(must_say_what_holds_the_pipeline_up),    T(must_say_that_a_run_has_met_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
