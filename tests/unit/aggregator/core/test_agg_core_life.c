/* Runs and agents in time: restarts, dismissal, abandoned runs, what is forgotten. */
#include "core_rig.h"
#include "message_parts.h"

/* It was not there when the run was opened: agents may come back for 10 s, and the sink may have
 * sealed it already. */
static void
must_wait_for_others_after_its_own_restart(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    s_hello(&rig, 2, &s_agent2, 1, 0, 0);
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 4, true);
    s_heard(&rig);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "BARRIER 1 > 1, BARRIER 1 > 2, RUN_END 0, RUN_STATE 2 > 9");
    s_heartbeat(&rig, 1, 0, 1, 0, 0, false);
    s_heartbeat(&rig, 2, 0, 1, 0, 0, false);
    must_hear(&rig, "ACK 0 > 1, ACK 0 > 2");
    rig.now += 9999 * MS;
    s_tick(&rig);
    assert_null(strstr(s_heard(&rig), "RUN_SEAL"));
    rig.now += 1 * MS;
    s_tick(&rig);
    assert_non_null(strstr(s_heard(&rig), "RUN_SEAL 0"));
    agg_core_destroy(&rig.core);
}

/* A HELLO that came too early was not let in, but its sender is there and may hold anything. */
static void
must_wait_for_an_agent_that_knocked(void **state)
{
    (void)state;
    rig_t rig = s_rig_with(8);
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    s_say_run(&rig, 9, CREMA_MSG_RUN_OPEN, false);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
    assert_false(agg_core_is_first(rig.core));     /* a run was there before the list */
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 4, true); /* all that the sink has heard of is there */
    s_heard(&rig);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "RUN_STATE 2 > 9");
    assert_int_equal(rig.state.n_waiting_for, 1);
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    must_hear(&rig, "WELCOME 0 > 1, BARRIER 1 > 1");
    s_heartbeat(&rig, 1, 0, 1, 0, 0, false);
    must_hear(&rig, "ACK 0 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_not_dismiss_an_agent_with_an_open_stream(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, true);
    s_heard(&rig);
    for (; rig.reason[0] == '\0'; rig.now += 100 * MS) {
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
        s_heartbeat(&rig, 1, 0, 1, 1, 2, false);
        s_data(&rig, 1, 1, 1, 2, 0);
        s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, false);
        s_tick(&rig);
        s_heard(&rig);
    }
    assert_string_equal(rig.reason, "stream_not_closed");
    char hex[CREMA_ID_HEX_CHARS + 1];
    crema_id_t stream = s_stream(1);
    assert_string_equal(rig.subject, crema_id_hex(&stream, hex));
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                               .sealed = {.run_id = body_id(s_run), .path = "x"}});
    must_hear(&rig, "RUN_STATE 4 > 9");
    s_heartbeat(&rig, 1, 0, 1, 1, 3, true);
    must_hear(&rig, "ACK 1 > 1");
    s_data(&rig, 1, 1, 3, 3, 0);
    must_hear(&rig, "PUT 3");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 3, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    s_heartbeat(&rig, 1, 0, 1, 1, 3, true);
    must_hear(&rig, "ACK 1 > 1, FENCE 7 > 1");
    agg_core_destroy(&rig.core);
}

static void
must_say_what_it_does_not_know(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    must_hear(&rig, "RUN_STATE 0 > 9");
    assert_true(crema_id_equal(crema_id_of(rig.state.run_id), &s_run));
    assert_int_equal(rig.state.t_now_ns, rig.now + 1000 * S);
    agg_core_destroy(&rig.core);
}

static void
must_tell_the_sink_of_clocks_now_and_then(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    unsigned told = 0;
    for (int i = 0; i < 300; i++, rig.now += 100 * MS) {
        crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION};
        /* The agent's host booted 5 s after this one and its wall clock is 20 s fast; 1 ms each
         * way. */
        int64_t here = rig.now - 5 * S;
        msg.heartbeat = (Crema__Heartbeat){.hb_no = (uint64_t)i + 1,
                                           .hb_ivl_ms = 1000,
                                           .t1_mono_ns = here,
                                           .t1_real_ns = rig.now + 1020 * S,
                                           .echo_t1_mono_ns = here - 90 * MS,
                                           .echo_t2_mono_ns = rig.now - 89 * MS,
                                           .echo_t3_mono_ns = rig.now - 89 * MS,
                                           .echo_t4_mono_ns = here - 88 * MS};
        s_peer(&rig, 1, &msg);
        told += strstr(s_heard(&rig), "CLOCK") != NULL;
    }
    assert_int_equal(told, 3);
    assert_int_equal(rig.clock.offset_ns, 20 * S);
    assert_int_equal(rig.clock.rtt_ns, 2 * MS);
    assert_true(crema_id_equal(crema_id_of(rig.clock.run_id), &s_run));
    assert_true(crema_id_equal(crema_id_of(rig.clock.agent_id), &s_agent));
    agg_core_destroy(&rig.core);
}

/* ---- one life */

/* The sink is well; ticks for so long, as seconds; what was said meanwhile is in `rig->all`. */
static const char *
s_wait(rig_t *rig, int64_t wait_ns)
{
    static char all[16384];
    size_t n = 0;
    all[0] = '\0';
    for (int64_t end = rig->now + wait_ns; rig->now < end;) {
        rig->now += S;
        s_sink(rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_tick(rig);
        n += (size_t)snprintf(all + n, sizeof all - n, "%s;", s_heard(rig));
        if (n > sizeof all / 2)
            n = 0;
    }
    return all;
}

static void
s_sealed(rig_t *rig, char *verdict, const char *code)
{
    Crema__Reason reason = crema_reason(code, "", "", 0);
    s_sink(rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                              .sealed = {.run_id = body_id(s_run),
                                         .path = "/x.h5",
                                         .verdict = verdict,
                                         .error = "",
                                         .n_reasons = code != NULL,
                                         .reasons = body_reasons(1, &reason),
                                         .revision = 1}});
}

/* The agent was silent for so long that its session has ended: it begins another. */
static void
s_return(rig_t *rig, uint64_t hi)
{
    s_heard(rig);
    s_heartbeat(rig, 1, 0, 0, 0, 0, false);
    must_hear(rig, "FENCE 8 > 1"); /* UNKNOWN */
    s_hello(rig, 1, &s_agent, 1, 1, hi);
    assert_non_null(strstr(s_heard(rig), "WELCOME 1 > 1"));
}

/* A client that was killed: its run is sealed without its end, a minute after the last record and
 * its last word. */
static rig_t
s_abandoned_rig(void)
{
    rig_t rig = s_served_rig();
    assert_null(strstr(s_wait(&rig, 50 * S), "BARRIER"));
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false); /* it is there */
    assert_null(strstr(s_wait(&rig, 50 * S), "BARRIER"));
    s_return(&rig, 2);
    s_data(&rig, 1, 1, 1, 2, 0); /* and its workers are */
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, false);
    assert_null(strstr(s_wait(&rig, 59 * S), "BARRIER"));
    s_return(&rig, 2);
    s_heartbeat(&rig, 1, 0, 0, 1, 2, true); /* the agent is, but that is no life of the run */
    assert_non_null(strstr(s_wait(&rig, 3 * S), "BARRIER 1 > 1"));
    assert_int_equal(rig.state.phase, CREMA_RUN_BARRIER);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    s_heard(&rig);
    s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 1, RUN_STATE 3 > 9");
    assert_string_equal(rig.reason, "run_not_ended");
    return rig;
}

static void
must_seal_a_run_whose_client_is_gone(void **state)
{
    (void)state;
    rig_t rig = s_abandoned_rig();
    assert_null(strstr(s_wait(&rig, 3 * S), "RUN_SEAL 1, RUN_SEAL 1")); /* given once */
    s_sealed(&rig, "PARTIAL", "run_not_ended");
    s_heard(&rig);
    assert_int_equal(rig.state.phase, CREMA_RUN_SEALED);
    assert_string_equal(rig.state.verdict, "PARTIAL");
    s_wait(&rig, 25 * 3600 * S);
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    assert_null(strstr(s_heard(&rig), "RUN_STATE 4")); /* forgotten, and its stream with it */
    agg_core_destroy(&rig.core);
}

static void
must_let_a_client_that_comes_back_end_its_run(void **state)
{
    (void)state;
    rig_t rig = s_abandoned_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "BARRIER 2 > 1, RUN_STATE 2 > 9");
    s_sealed(&rig, "PARTIAL", "run_not_ended"); /* what was asked for before */
    must_hear(&rig, "");
    s_heartbeat(&rig, 1, 0, 2, 1, 2, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    s_sealed(&rig, "COMPLETE", NULL);
    must_hear(&rig, "RUN_STATE 4 > 9");
    assert_string_equal(rig.state.verdict, "COMPLETE");
    agg_core_destroy(&rig.core);
}

/* Neither clock nor verdict: a run that this aggregator only knows from a list of streams is asked
 * about when nothing came of it. */
static void
must_ask_for_the_end_of_a_run_it_did_not_see_opened(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    s_hello(&rig, 1, &s_agent, 1, 1, 4); /* one of its agents came here */
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 4, true);
    s_heard(&rig);
    s_wait(&rig, 59 * S);
    s_return(&rig, 4);
    s_heartbeat(&rig, 1, 0, 0, 1, 4, true);
    assert_non_null(strstr(s_wait(&rig, 3 * S), "BARRIER 1 > 1"));
    s_heartbeat(&rig, 1, 0, 1, 1, 4, true);
    assert_non_null(strstr(s_wait(&rig, 12 * S), "RUN_SEAL 1"));
    assert_string_equal(rig.reason, "run_not_ended");
    s_sealed(&rig, "COMPLETE", NULL); /* its client had ended it long ago */
    s_heard(&rig);
    assert_null(strstr(s_wait(&rig, 700 * S), "RUN_SEAL"));
    assert_int_equal(agg_core_stats(rig.core).streams, 0);
    agg_core_destroy(&rig.core);
}

/* A run that is PARTIAL since its only agent was lost. */
static rig_t
s_partial_rig(void)
{
    rig_t rig = s_served_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    s_heard(&rig);
    s_wait(&rig, 100 * S);
    assert_string_equal(rig.reason, "agent_lost");
    s_sealed(&rig, "PARTIAL", "agent_lost");
    s_heard(&rig);
    return rig;
}

static void
must_forget_a_partial_run_in_the_end(void **state)
{
    (void)state;
    rig_t rig = s_partial_rig();
    assert_int_equal(agg_core_stats(rig.core).streams, 1);
    s_wait(&rig, 23 * 3600 * S); /* until then what it lacks may come */
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    must_hear(&rig, "RUN_STATE 4 > 9");
    s_wait(&rig, 2 * 3600 * S);
    assert_int_equal(agg_core_stats(rig.core).streams, 0);
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    must_hear(&rig, "RUN_STATE 0 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_not_make_a_new_agent_a_member_of_an_old_run(void **state)
{
    (void)state;
    rig_t rig = s_partial_rig();
    s_hello(&rig, 2, &s_agent2, 1, 0, 0);
    must_hear(&rig, "WELCOME 0 > 2");
    s_hello(&rig, 3, &s_agent, 2, 1, 2); /* the one that was lost is asked */
    assert_non_null(strstr(s_heard(&rig), "BARRIER 1 > 3"));
    agg_core_destroy(&rig.core);
}

static unsigned
s_clocks_told(rig_t *rig, agg_peer_t peer)
{
    unsigned told = 0;
    for (int i = 0; i < 300; i++, rig->now += 100 * MS) {
        crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION};
        crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .hi = 2};
        msg.heartbeat = (Crema__Heartbeat){.hb_no = (uint64_t)i + 1,
                                           .hb_ivl_ms = 1000,
                                           .t1_mono_ns = rig->now,
                                           .t1_real_ns = rig->now + 1000 * S,
                                           .echo_t1_mono_ns = rig->now - 90 * MS,
                                           .echo_t2_mono_ns = rig->now - 89 * MS,
                                           .echo_t3_mono_ns = rig->now - 89 * MS,
                                           .echo_t4_mono_ns = rig->now - 88 * MS,
                                           .table = body_table(1, &row)};
        s_peer(rig, peer, &msg);
        told += strstr(s_heard(rig), "CLOCK") != NULL;
    }
    return told;
}

/* Each second while a run ends, each ten seconds once its verdict was given, PARTIAL or not. */
static void
must_tell_clocks_seldom_again_once_the_verdict_was_given(void **state)
{
    (void)state;
    rig_t rig = s_partial_rig();
    s_hello(&rig, 3, &s_agent, 2, 1, 2);
    s_heard(&rig);
    assert_in_range(s_clocks_told(&rig, 3), 3, 4);
    agg_core_destroy(&rig.core);
}

static void
must_forget_agents_that_never_came_in_or_never_came_back(void **state)
{
    (void)state;
    rig_t rig = s_rig_with(8);
    s_hello(&rig, 1, &s_agent, 1, 0, 0); /* knocks before the sink is known, and is gone */
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
    s_hello(&rig, 2, &s_agent2, 1, 1, 2);
    s_heard(&rig);
    crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .hi = 2};
    crema_msg_t bye = {.type = CREMA_MSG_BYE, .session = SESSION};
    bye.bye.reason = 1;
    bye.bye.table = body_table(1, &row);
    s_peer(&rig, 2, &bye);
    s_heard(&rig);
    s_wait(&rig, 25 * 3600 * S);
    for (uint8_t i = 0; i < 4; i++) { /* there is room for four again */
        crema_id_t id = {{0xb0, i}};
        s_hello(&rig, 10 + i, &id, 1, 0, 0);
        assert_non_null(strstr(s_heard(&rig), "WELCOME 0"));
    }
    agg_core_destroy(&rig.core);
}

static void
must_count_answers_that_found_no_room(void **state)
{
    (void)state;
    enum { ASKED = 200, HELD = 64 };
    rig_t rig = s_rig();
    uint64_t before = agg_core_stats(rig.core).refused;
    for (int i = 0; i < ASKED; i++) /* of a run that is not known; nobody takes the answers */
        s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    assert_int_equal(agg_core_stats(rig.core).refused - before, ASKED - HELD);
    agg_core_destroy(&rig.core);
}

static void
must_refuse_a_bad_configuration(void **state)
{
    (void)state;
    /* The least of each, of the pool more. */
    const agg_config_t good = {.session = 1,
                               .credit_pool_b = 1 << 20,
                               .sink_silence_ns = 1,
                               .barrier_retries = 1,
                               .barrier_cap_ns = 1,
                               .agents_max = 1,
                               .streams_max = 1,
                               .runs_max = 1,
                               .abandon_after_ns = 1,
                               .owner_runs_max = 1,
                               .owner_bytes_max = 1};
    agg_core_t *sound = NULL;
    must(agg_core_new(&good, &sound));
    agg_core_destroy(&sound);
    for (int i = 0; i < 11; i++) {
        agg_core_t *core = NULL;
        agg_config_t config = good;
        i == 0   ? (config.session = 0)
        : i == 1 ? (uint64_t)(config.credit_pool_b = 0)
        : i == 2 ? (uint64_t)(config.sink_silence_ns = 0)
        : i == 3 ? (uint64_t)(config.barrier_retries = 0)
        : i == 4 ? (config.agents_max = 0)
        : i == 5 ? (config.streams_max = 0)
        : i == 6 ? (config.runs_max = 0)
        : i == 7 ? (uint64_t)(config.abandon_after_ns = 0)
        : i == 8 ? (config.owner_runs_max = 0)
        : i == 9 ? (uint64_t)(config.barrier_cap_ns = 0)
                 : (config.owner_bytes_max = 0);
        assert_int_equal(agg_core_new(&config, &core), CREMA_EINVAL);
        assert_null(core);
    }
}

/* Agents that speak each second are not looked at each tick, and one that falls silent is noticed
 * as soon as before. */
static void
must_look_only_at_agents_that_are_due(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    const uint8_t n = 4;
    for (uint8_t i = 0; i < n; i++)
        s_hello(&rig, 1 + i, &(crema_id_t){{(uint8_t)(0xb0 + i)}}, 1, 0, 0);
    (void)s_heard(&rig);
    for (int tick = 0; tick < 200; tick++) { /* ten seconds */
        if (tick % 20 == 0)
            for (uint8_t i = 0; i < n; i++)
                s_heartbeat(&rig, 1 + i, 0, 0, 0, 0, false);
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_tick(&rig);
        (void)s_heard(&rig);
        rig.now += 50 * MS;
    }
    agg_stats_t stats = agg_core_stats(rig.core);
    assert_int_equal(stats.agents_live, n);
    assert_in_range(stats.agents_looked_at, n, 6 * n);
    int64_t heard =
        rig.now -
        20 * 50 *
            MS; /* the last heartbeats: silent for 3 H and a round trip of 0.5 s they are suspect */
    while (agg_core_stats(rig.core).agents_suspect < n) {
        assert_true(rig.now < heard + 4 * S);
        rig.now += 50 * MS;
        s_tick(&rig);
    }
    assert_true(rig.now >= heard + 3500 * MS && rig.now <= heard + 3650 * MS);
    while (agg_core_stats(rig.core).agents_lost < n) {
        assert_true(rig.now < heard + 31 * S);
        rig.now += 50 * MS;
        s_tick(&rig);
    }
    assert_true(rig.now >= heard + 30 * S);
    rig.now += 25 * 3600 * S;
    s_tick(&rig);
    assert_int_equal(agg_core_stats(rig.core).agents_lost, 0); /* forgotten */
    agg_core_destroy(&rig.core);
}

/* A program that has just started asks before it is connected. */
static void
must_ask_a_sink_that_could_not_be_asked_at_the_next_tick(void **state)
{
    (void)state;
    rig_t rig = s_rig_with(8);
    s_tick(&rig);
    must_hear(&rig, "OPEN 0");
    agg_core_not_sent(rig.core);
    assert_false(agg_core_is_quiet(rig.core));
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, "OPEN 0");
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, ""); /* that one was sent: the sink may need time to answer */
    assert_false(agg_core_is_first(rig.core));
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 1000});
    assert_true(agg_core_is_first(rig.core));
    agg_core_not_sent(rig.core);
    assert_true(agg_core_is_quiet(rig.core));
    s_tick(&rig);
    must_hear(&rig, "");
    agg_core_destroy(&rig.core);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_look_only_at_agents_that_are_due),
        cmocka_unit_test(must_wait_for_others_after_its_own_restart),
        cmocka_unit_test(must_wait_for_an_agent_that_knocked),
        cmocka_unit_test(must_not_dismiss_an_agent_with_an_open_stream),
        cmocka_unit_test(must_say_what_it_does_not_know),
        cmocka_unit_test(must_tell_the_sink_of_clocks_now_and_then),
        cmocka_unit_test(must_seal_a_run_whose_client_is_gone),
        cmocka_unit_test(must_let_a_client_that_comes_back_end_its_run),
        cmocka_unit_test(must_ask_for_the_end_of_a_run_it_did_not_see_opened),
        cmocka_unit_test(must_forget_a_partial_run_in_the_end),
        cmocka_unit_test(must_not_make_a_new_agent_a_member_of_an_old_run),
        cmocka_unit_test(must_tell_clocks_seldom_again_once_the_verdict_was_given),
        cmocka_unit_test(must_forget_agents_that_never_came_in_or_never_came_back),
        cmocka_unit_test(must_count_answers_that_found_no_room),
        cmocka_unit_test(must_refuse_a_bad_configuration),
        cmocka_unit_test(must_ask_a_sink_that_could_not_be_asked_at_the_next_tick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
