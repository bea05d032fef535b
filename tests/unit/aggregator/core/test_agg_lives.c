/* agg_core: runs of several clients, and of aggregators beside this one: none ends, fills or
 * disturbs what is not its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core.h"
#include "crema_frame.h"
#include "message_parts.h"
#include "must.h"

#define S 1000000000ll
#define BOOT 7u
#define A 1
#define B 2
#define BOUND 1001 /* 1 + uid that A is bound to */
#define STREAMS_MAX 64

static const crema_id_t s_run = {{0xee}};
static agg_core_t *s_core;
static int64_t s_now;
static unsigned s_seals, s_parts_sent;
static Crema__RunState s_state;           /* of the last RUN_STATE */
static crema_id_t s_list_owner, s_listed; /* of the last RUN_WRITERS for the sink */

static char s_refused[256]; /* of the last STREAM_REFUSED */

/* ---- verbs */

static void
s_act(void)
{
    agg_action_t action;
    while (agg_core_next(s_core, s_now, &action)) {
        if (action.type == AGG_TO_PEER && action.msg->type == CREMA_MSG_RUN_STATE)
            s_state = action.msg->run_state;
        if (action.type == AGG_EVENT && action.event == AGG_EVENT_STREAM_REFUSED)
            snprintf(s_refused, sizeof s_refused, "%s", action.detail);
        if (action.type != AGG_TO_SINK)
            continue;
        s_seals += action.msg->type == CREMA_MSG_RUN_SEAL;
        if (action.msg->type == CREMA_MSG_RUN_WRITERS) {
            s_parts_sent++;
            s_list_owner = *crema_id_of(action.msg->run_writers.owner);
            s_listed = *crema_id_of(action.msg->run_id);
        }
    }
}

static void
s_sink(crema_msg_t msg)
{
    msg.session = BOOT;
    agg_core_on_sink(s_core, &msg, s_now, s_now);
    s_act();
}

static void
s_say(uint8_t key, crema_msg_t msg)
{
    const crema_principal_t from = {.as = CREMA_AS_CLIENT, .key = {{key}}};
    s_state = (Crema__RunState){0};
    agg_core_on_peer(s_core, key, &from, &msg, s_now, s_now);
    s_act();
}

static void
s_run_msg(uint8_t key, crema_msg_type_t type, crema_id_t run_id)
{
    crema_msg_t msg = {.type = type, .run_id = body_id(run_id)};
    if (type == CREMA_MSG_RUN_END)
        msg.run_end.writer_parts = 1;
    s_say(key, msg);
}

/* The whole list of writers, `n` of them. */
static void
s_list_of(uint8_t key, uint8_t stream, crema_id_t run_id, uint32_t n, uint64_t last)
{
    Crema__Writer *writers = calloc(n ? n : 1, sizeof *writers);
    assert_non_null(writers);
    for (uint32_t i = 0; i < n; i++) {
        writers[i] = (Crema__Writer){
            .last = last, .state = CREMA_WRITER_ENDED, .name = "w", .uuid = "", .text = ""};
        writers[i].stream_id = body_id((crema_id_t){{stream, (uint8_t)i, (uint8_t)(i >> 8), 1}});
    }
    s_say(key, (crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                             .run_writers = {.run_id = body_id(run_id),
                                             .part = 0,
                                             .parts = 1,
                                             .n_writers = n,
                                             .writers = body_writers(n, writers)}});
    free(writers);
}

static void
s_list(uint8_t key, crema_id_t run_id, uint32_t n, uint64_t last)
{
    s_list_of(key, key, run_id, n, last);
}

static void
s_durable(crema_msg_type_t type, uint8_t stream, uint64_t committed, bool closed)
{
    crema_stream_row_t row = {.stream_id = {{stream, 0, 0, 1}},
                              .run_id = s_run,
                              .committed = committed,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_STATE)
        msg.state.table = body_table(1, &row);
    else
        msg.committed.table = body_table(1, &row);
    s_sink(msg);
}

static void
s_sink_is_known(void)
{
    s_sink((crema_msg_t){.type = CREMA_MSG_STATE});
}

static void
must_keep_the_list(void)
{
    assert_true(s_parts_sent > 0);
    s_sink((crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                         .run_listed = {.run_id = body_id(s_listed), .part = 0, .parts = 1}});
}

static void
s_pass(int64_t ns)
{
    for (int64_t end = s_now + ns; s_now < end; s_now += S / 10) {
        s_sink((crema_msg_t){.type = CREMA_MSG_COMMITTED}); /* the sink is well */
        agg_core_on_tick(s_core, s_now, s_now);
        s_act();
    }
}

static uint32_t s_user_of(const void *context, const crema_id_t *key);

static int
s_setup(void **state)
{
    (void)state;
    const agg_config_t config = {.session = 42,
                                 .credit_pool_b = 1 << 20,
                                 .sink_silence_ns = 2 * S,
                                 .barrier_retries = 5,
                                 .barrier_cap_ns = 30 * S,
                                 .abandon_after_ns = 3600 * S,
                                 .owner_runs_max = 2,
                                 .owner_bytes_max = 1 << 30,
                                 .user_of = s_user_of,
                                 .agents_max = 8,
                                 .streams_max = STREAMS_MAX,
                                 .runs_max = 4};
    must(agg_core_new(&config, &s_core));
    s_now = 100 * S;
    s_seals = s_parts_sent = 0;
    s_refused[0] = '\0';
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    agg_core_destroy(&s_core);
    return 0;
}

/* ---- users: an operator's agent reads the files of many */

static uint32_t
s_user_of(const void *context, const crema_id_t *key)
{
    (void)context;
    return key->bytes[0] == A ? BOUND : 0;
}

/* An agent with key 9 says what it has of stream 5: user is 1 + uid. */
static void
s_agent_says(crema_msg_type_t type, const crema_id_t *of_run, crema_id_t run_id, uint32_t user)
{
    static uint8_t frame[CREMA_FRAME_HEADER_BYTES];
    const crema_principal_t from = {.as = CREMA_AS_AGENT, .key = {{9}}, .run_id = *of_run};
    crema_stream_row_t row = {.stream_id = {{5, 0, 0, 1}}, .run_id = run_id, .hi = 1, .user = user};
    crema_msg_t msg = {.type = type, .session = 42};
    if (type == CREMA_MSG_DATA)
        msg.data = (Crema__Data){.stream_id = body_id(row.stream_id),
                                 .run_id = body_id(row.run_id),
                                 .first_seq = 1,
                                 .hi = 1,
                                 .n = 1,
                                 .frames = {sizeof frame, frame}};
    else
        msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                                   .ver_max = CREMA_WIRE_VERSION,
                                   .agent_id = body_id((crema_id_t){{9}}),
                                   .boot = 1,
                                   .host = "node",
                                   .hb_ivl_ms = 1000,
                                   .table = body_table(1, &row)};
    agg_core_on_peer(s_core, 9, &from, &msg, s_now, s_now);
    s_act();
}

static const crema_id_t s_any_run;

static void
must_hold_streams(uint64_t n, uint64_t refused)
{
    agg_stats_t stats = agg_core_stats(s_core);
    assert_int_equal(stats.streams, n);
    assert_int_equal(stats.not_allowed, refused);
}

static void
must_pass_over_what_another_user_wrote(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, 1002);
    must_hold_streams(0, 1);
    assert_non_null(strstr(s_refused, "uid 1001"));
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, 0); /* not stated is nobody's */
    must_hold_streams(0, 2);
    s_agent_says(CREMA_MSG_DATA, &s_any_run, s_run, 0);
    must_hold_streams(0, 3);
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, BOUND);
    must_hold_streams(1, 3);
    /* Nor is it another run's, whatever a file says that lies elsewhere. */
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, (crema_id_t){{0xcc}}, 1002);
    must_hold_streams(1, 4);
}

static void
must_take_anybodys_where_the_key_is_bound_to_none(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(B, CREMA_MSG_RUN_OPEN, s_run);
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, 1002);
    must_hold_streams(1, 0);
}

/* They were started in its name, perhaps where it is another uid. */
static void
must_take_what_the_runs_own_agents_bring(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_agent_says(CREMA_MSG_HELLO, &s_run, s_run, 0);
    must_hold_streams(1, 0);
}

static void
must_know_whose_files_also_after_a_new_start(void **state)
{
    (void)state;
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    s_sink_is_known();
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, 1002);
    must_hold_streams(0, 1);
}

/* What was listed before the run was opened: no record of it is taken any more. */
static void
must_take_no_record_once_it_knows_whose_the_run_is(void **state)
{
    (void)state;
    s_sink_is_known();
    s_agent_says(CREMA_MSG_HELLO, &s_any_run, s_run, 1002);
    s_durable(CREMA_MSG_STATE, 5, 0, false);
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_agent_says(CREMA_MSG_DATA, &s_any_run, s_run, 0);
    must_hold_streams(1, 1);
    assert_int_equal(agg_core_stats(s_core).data_accepted, 0);
    assert_int_equal(agg_core_stats(s_core).fences, 0);
}

/* ---- tests */

/* Nothing that can still come takes that reason back. */
static void
must_seal_a_run_of_a_revoked_key_once(void **state)
{
    (void)state;
    const crema_id_t key = {{A}};
    Crema__Reason reason = crema_reason("key_revoked", "", "", 0);
    s_sink_is_known();
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_durable(CREMA_MSG_STATE, 5, 10, true);
    agg_core_on_revoked(s_core, &key, s_now, s_now);
    s_act();
    assert_int_equal(s_seals, 1);
    for (int i = 0; i < 3; i++)
        s_sink((crema_msg_t){.type = CREMA_MSG_SEALED,
                             .sealed = {.run_id = body_id(s_run),
                                        .path = "x",
                                        .verdict = "PARTIAL",
                                        .revision = 1,
                                        .n_reasons = 1,
                                        .reasons = body_reasons(1, &reason)}});
    assert_int_equal(s_seals, 1);
}

/* Whose a run is only the sink can say, and it has not spoken yet. Collectors ask again. */
static void
must_not_take_a_run_before_the_sink_said_whose_it_is(void **state)
{
    (void)state;
    s_list(B, s_run, 1, 1000);
    s_run_msg(B, CREMA_MSG_RUN_OPEN, s_run);
    s_run_msg(A, CREMA_MSG_RUN_END, s_run);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT); /* else its client would give up */
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    s_sink_is_known();
    assert_int_equal(s_parts_sent, 0);
    s_list(B, s_run, 1, 1000);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_OTHER_KEY);
    s_durable(CREMA_MSG_STATE, A, 10, true);
    s_list(A, s_run, 1, 0);
    must_keep_the_list();
    s_run_msg(A, CREMA_MSG_RUN_END, s_run);
    s_pass(20 * S);
    assert_true(s_seals > 0);
}

/* The run began at another aggregator, and this one hears of it when the sink refuses another
 * client's words. */
static void
must_keep_nothing_of_whoever_does_not_own_the_run(void **state)
{
    (void)state;
    s_sink_is_known();
    s_durable(CREMA_MSG_STATE, A, 10, true);
    s_list(B, s_run, 3, 1000);
    must_keep_the_list();
    s_run_msg(B, CREMA_MSG_RUN_END, s_run);
    s_say(B, (crema_msg_t){.type = CREMA_MSG_RUN_QUERY, .run_id = body_id(s_run)});
    assert_int_equal(s_state.streams, 4);
    s_parts_sent = 0;
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    assert_int_equal(s_parts_sent, 0);
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    assert_int_equal(s_state.streams, 1);
    assert_int_equal(s_state.missing, 0);
    assert_int_equal(s_state.writers_kept, 0);
    s_list(A, s_run, 1, 10);
    assert_int_equal(s_list_owner.bytes[0], A);
    must_keep_the_list();
    s_run_msg(A, CREMA_MSG_RUN_END, s_run);
    s_pass(S);
    assert_int_equal(s_seals, 1);
}

static void
s_pass_hours(unsigned hours, uint8_t stream)
{
    static uint64_t s_committed = 10;
    for (unsigned minute = 0; minute < hours * 60; minute++) {
        s_now += 60 * S;
        s_sink((crema_msg_t){.type = CREMA_MSG_COMMITTED});
        if (stream)
            s_durable(CREMA_MSG_COMMITTED, stream, ++s_committed, false);
        agg_core_on_tick(s_core, s_now, s_now);
        s_act();
    }
}

/* Its agents and its client talk to another aggregator: only its records show here that it
 * lives. */
static void
must_not_give_up_what_another_aggregator_serves(void **state)
{
    (void)state;
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    s_durable(CREMA_MSG_STATE, 5, 10, false);
    s_pass_hours(3, 5);
    s_say(A, (crema_msg_t){.type = CREMA_MSG_RUN_QUERY, .run_id = body_id(s_run)});
    assert_int_equal(s_state.phase, CREMA_RUN_UNKNOWN); /* not said here, but its client is known */
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    assert_int_equal(s_seals, 0);
}

/* Nor when it is quiet there: the sink ends what no aggregator ends. */
static void
must_forget_what_it_never_served(void **state)
{
    (void)state;
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    s_durable(CREMA_MSG_STATE, 5, 10, false);
    s_pass_hours(3, 0);
    assert_int_equal(s_seals, 0);
    assert_int_equal(agg_core_stats(s_core).streams, 0);
}

static void
must_give_up_a_run_whose_client_it_heard(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_durable(CREMA_MSG_STATE, 5, 10, true);
    s_pass_hours(2, 0);
    assert_true(s_seals > 0);
}

static crema_id_t
s_other_run(uint8_t n)
{
    return (crema_id_t){{0xbb, n}};
}

/* By whatever message a run is taken. */
static void
must_bound_the_runs_that_a_client_ends(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(0));
    s_run_msg(B, CREMA_MSG_RUN_OPEN, s_other_run(1));
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(2));
    assert_int_equal(s_state.refusal, CREMA_REFUSED_QUOTA);
    s_list(B, s_other_run(3), 1, 5);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_QUOTA);
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(0)); /* one that it has */
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_SEALED,
                      .sealed = {.run_id = body_id(s_other_run(0)), .path = "x", .revision = 1}});
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(2));
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(0)); /* repeated, of one that is over */
    assert_int_equal(s_state.refusal, CREMA_REFUSED_NOT);
}

/* Room for streams that agents bring is left whatever clients list. */
static void
must_leave_room_for_what_agents_bring(void **state)
{
    (void)state;
    s_sink_is_known();
    s_run_msg(B, CREMA_MSG_RUN_OPEN, s_other_run(0));
    s_list(B, s_other_run(0), STREAMS_MAX + 10, 5);
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 16);
    s_run_msg(B, CREMA_MSG_RUN_OPEN, s_other_run(1)); /* nor in another run of the same key */
    s_list_of(B, 9, s_other_run(1), 10, 5);
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 16);
    assert_true(s_parts_sent > 0); /* the sink has the whole list */
    s_run_msg(A, CREMA_MSG_RUN_OPEN, s_run);
    s_durable(CREMA_MSG_STATE, 5, 10, false);
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 16 + 1);
    s_list(A, s_run, 3, 5); /* another client has room of its own */
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 16 + 1 + 3);
    s_run_msg(B, CREMA_MSG_RUN_END, s_other_run(0));
    s_pass(200 * S);
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_SEALED,
                      .sealed = {.run_id = body_id(s_other_run(0)), .path = "x", .revision = 1}});
    s_pass_hours(25, 0);
    const uint64_t left = agg_core_stats(s_core).streams;
    assert_true(left <= 1 + 3); /* they are forgotten in the end */
    s_list(B, s_other_run(2), STREAMS_MAX + 10, 5);
    assert_int_equal(agg_core_stats(s_core).streams, left + STREAMS_MAX / 16);
}

/* What the sink has of a stranger's list stays, and counts as its owner's. */
static void
must_give_back_the_room_of_a_run_that_is_anothers(void **state)
{
    (void)state;
    s_sink_is_known();
    s_list(B, s_run, STREAMS_MAX, 5);
    assert_int_equal(agg_core_stats(s_core).streams, STREAMS_MAX / 16);
    s_durable(CREMA_MSG_STATE, B, 5, true);
    s_sink(
        (crema_msg_t){.type = CREMA_MSG_RUN_OPEN,
                      .run_open = {.run_id = body_id(s_run), .owner = body_id((crema_id_t){{A}})}});
    assert_int_equal(agg_core_stats(s_core).streams, 1);
    s_list_of(B, 8, s_other_run(1), STREAMS_MAX, 5);
    assert_int_equal(agg_core_stats(s_core).streams, 1 + STREAMS_MAX / 16);
    s_list_of(A, 7, s_other_run(2), STREAMS_MAX, 5);
    assert_int_equal(agg_core_stats(s_core).streams, 2 * STREAMS_MAX / 16);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(must_pass_over_what_another_user_wrote),
        T(must_take_anybodys_where_the_key_is_bound_to_none),
        T(must_take_what_the_runs_own_agents_bring),
        T(must_know_whose_files_also_after_a_new_start),
        T(must_take_no_record_once_it_knows_whose_the_run_is),
        T(must_seal_a_run_of_a_revoked_key_once),
        T(must_not_take_a_run_before_the_sink_said_whose_it_is),
        T(must_keep_nothing_of_whoever_does_not_own_the_run),
        T(must_not_give_up_what_another_aggregator_serves),
        T(must_forget_what_it_never_served),
        T(must_give_up_a_run_whose_client_it_heard),
        T(must_bound_the_runs_that_a_client_ends),
        T(must_leave_room_for_what_agents_bring),
        T(must_give_back_the_room_of_a_run_that_is_anothers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
