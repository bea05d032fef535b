/* The aggregator's core: who is admitted, what is passed on, what a new or full sink changes. */
#include "core_rig.h"
#include "message_parts.h"

static void
must_admit_nobody_before_the_sink_has_spoken(void **state)
{
    (void)state;
    rig_t rig = s_rig_with(8);
    s_tick(&rig);
    must_hear(&rig, "OPEN 0");
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    must_hear(&rig, "WELCOME 300 > 1");
    assert_int_equal(rig.credit, 0);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .flags = CREMA_WIRE_FLAG_MORE});
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    must_hear(&rig,
              "WELCOME 300 > 1, OPEN 0"); /* half a list is none; a new sink is asked for its own */
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
    s_hello(&rig, 1, &s_agent, 1, 0, 0);
    must_hear(&rig, "WELCOME 0 > 1");
    assert_int_equal(rig.credit, 16 << 10);
    agg_core_destroy(&rig.core);
    assert_null(rig.core);
}

static void
must_pass_on_what_continues_and_acknowledge_what_is_durable(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    assert_int_equal(rig.ack_rows, 1);
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, "PUT 1");
    assert_int_equal(rig.put.n, 2);
    assert_true(crema_id_equal(crema_id_of(rig.put.agent_id), &s_agent));
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, ""); /* had it */
    s_data(&rig, 1, 1, 2, 4, 0);
    must_hear(&rig, "PUT 3");
    assert_int_equal(rig.put.n, 2);
    s_data(&rig, 1, 1, 6, 7, 0);
    must_hear(&rig, "REPLAY 5 > 1");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 4, false);
    must_hear(&rig, "ACK 1 > 1");
    assert_int_equal(rig.row.committed, 4);
    assert_int_equal(rig.row.recv_next, 5);
    s_heartbeat(&rig, 1, 0, 0, 1, 7, false);
    must_hear(&rig, "ACK 1 > 1");
    assert_int_equal(rig.ack.hb_no, 5);
    assert_int_equal(rig.ack.t3_mono_ns, rig.now);
    agg_stats_t stats = agg_core_stats(rig.core);
    assert_int_equal(stats.data_accepted, 2);
    assert_int_equal(stats.repeats, 1);
    assert_int_equal(stats.gaps_seen, 1);
    assert_int_equal(stats.puts, 2);
    assert_int_equal(stats.committed_records, 4);
    assert_int_equal(stats.credit_in_use_b, 0);
    agg_core_destroy(&rig.core);
}

static void
must_send_a_loss_alone(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 22, 20); /* LOSS(1..20) 21 22 */
    must_hear(&rig, "PUT 1, PUT 21");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 22, false);
    must_hear(&rig, "ACK 1 > 1");
    assert_int_equal(rig.row.recv_next, 23);
    agg_core_destroy(&rig.core);
}

/* Whatever versions a peer speaks: it is let in if one of them is spoken here, else told why
 * not. */
static void
must_agree_on_a_version_or_refuse(void **state)
{
    (void)state;
    enum { LOW = CREMA_WIRE_VERSION_MIN, HIGH = CREMA_WIRE_VERSION };
    const struct {
        uint32_t min, max;
        const char *want;
    } cases[] = {
        {LOW, HIGH, "WELCOME 0 > 1"},        {HIGH, HIGH, "WELCOME 0 > 1"},
        {LOW, LOW, "WELCOME 0 > 1"},         {HIGH, HIGH + 7, "WELCOME 0 > 1"},
        {0, LOW, "WELCOME 0 > 1"},           {0, HIGH + 7, "WELCOME 0 > 1"},
        {HIGH + 1, HIGH + 7, "FENCE 5 > 1"}, {0, LOW - 1, "FENCE 5 > 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_t rig = s_rig();
        crema_msg_t msg = {.type = CREMA_MSG_HELLO};
        msg.hello = (Crema__Hello){.ver_min = cases[i].min,
                                   .ver_max = cases[i].max,
                                   .agent_id = body_id(s_agent),
                                   .boot = 1,
                                   .host = "node1",
                                   .hb_ivl_ms = 1000};
        s_peer(&rig, 1, &msg);
        must_hear(&rig, cases[i].want);
        agg_core_destroy(&rig.core);
    }
}

static void
must_fence_whom_it_does_not_know(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 5, 1, 1, 2, 0);
    must_hear(&rig, "FENCE 8 > 5");
    crema_msg_t old = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION - 1};
    s_peer(&rig, 1, &old);
    must_hear(&rig, "FENCE 8 > 1");
    agg_core_on_bad(rig.core, 6, CREMA_EVERSION);
    agg_core_on_bad(rig.core, 6, CREMA_ECRC);
    must_hear(&rig, "FENCE 5 > 6");
    s_peer(&rig, 6, &(crema_msg_t){.type = CREMA_MSG_ACK});
    must_hear(&rig, "");
    assert_int_equal(agg_core_stats(rig.core).bad_messages, 3);
    s_hello(&rig, 2, &s_agent, 2, 1, 2); /* the same agent, started anew */
    must_hear(&rig, "FENCE 1 > 1, WELCOME 1 > 2");
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, "FENCE 8 > 1");
    agg_core_destroy(&rig.core);
}

static void
must_ask_a_new_sink_about_everything(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 3, 0);
    must_hear(&rig, "PUT 1");
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_NACK, .nack = {.stream_id = body_id(s_stream(1))}});
    must_hear(&rig, "ACK 1 > 1, OPEN 1"); /* the agent pauses meanwhile */
    assert_int_equal(rig.row.recv_next, 0);
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_NACK, .nack = {.stream_id = body_id(s_stream(1))}});
    must_hear(&rig, "");
    s_data(&rig, 1, 1, 4, 5, 0);
    must_hear(&rig, "");
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 0, false);
    must_hear(&rig, "ACK 1 > 1, REPLAY 1 > 1");
    s_data(&rig, 1, 1, 1, 5, 0);
    must_hear(&rig, "PUT 1");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .session = BOOT + 1});
    must_hear(&rig, "ACK 1 > 1, OPEN 1, RUN_OPEN 0");
    crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .committed = 2};
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE,
                               .session = BOOT + 1,
                               .state.table = body_table(1, &row)});
    must_hear(&rig, "ACK 1 > 1, REPLAY 3 > 1");
    agg_core_destroy(&rig.core);
}

static void
must_close_credit_while_the_sink_is_full_or_silent(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 9, 0);
    must_hear(&rig, "PUT 1");
    uint64_t before = rig.credit;
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_FULL, .full = {.retry_after_ms = 700, .free_b = 50}});
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 9, false);
    must_hear(&rig, "ACK 1 > 1");
    assert_int_equal(rig.credit, before);
    rig.now += 100 * MS;
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 50});
    must_hear(&rig, "");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 51});
    must_hear(&rig, "ACK 0 > 1");
    assert_true(rig.credit > before);
    before = rig.credit;
    s_data(&rig, 1, 1, 10, 20, 0);
    must_hear(&rig, "PUT 10");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 20, false);
    assert_true(agg_core_is_quiet(rig.core));
    assert_int_equal(agg_core_ping_ns(rig.core), rig.now + 1500 * MS);
    rig.now += 2100 * MS;
    s_tick(&rig);
    must_hear(&rig, "ACK 1 > 1, OPEN 1"); /* silent: a ping about one stream, and no credit */
    assert_int_equal(rig.credit, before);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 51});
    must_hear(&rig, "ACK 0 > 1");
    assert_true(rig.credit > before);
    agg_core_destroy(&rig.core);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_admit_nobody_before_the_sink_has_spoken),
        cmocka_unit_test(must_pass_on_what_continues_and_acknowledge_what_is_durable),
        cmocka_unit_test(must_send_a_loss_alone),
        cmocka_unit_test(must_agree_on_a_version_or_refuse),
        cmocka_unit_test(must_fence_whom_it_does_not_know),
        cmocka_unit_test(must_ask_a_new_sink_about_everything),
        cmocka_unit_test(must_close_credit_while_the_sink_is_full_or_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
