/* The verdict of a run: when it is given, and what it says of agents that are silent or cannot
 * read. */
#include "core_rig.h"
#include "message_parts.h"

static void
must_give_the_verdict_as_soon_as_the_last_record_is_durable(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, "PUT 1");
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, true);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    assert_int_equal(rig.state.n_waiting_for, 1);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, true);
    must_hear(&rig, "RUN_STATE 2 > 9"); /* a repeat changes nothing */
    s_heartbeat(&rig, 1, 0, 1, 1, 3, true);
    must_hear(&rig, ""); /* answered with the commit that is under way */
    s_data(&rig, 1, 1, 3, 3, 0);
    must_hear(&rig, "PUT 3");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, false);
    must_hear(&rig, "ACK 1 > 1");
    rig.now += 30 * MS;
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 3, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    assert_int_equal(rig.state.verdict_after_ns, 30 * MS);
    assert_int_equal(rig.state.streams_done, 1);
    rig.now += 999 * MS;
    s_tick(&rig);
    must_hear(&rig, "");
    rig.now += 1 * MS;
    s_tick(&rig);
    must_hear(&rig, "RUN_SEAL 0"); /* again until it is answered */
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                               .sealed = {.run_id = body_id(s_run),
                                          .path = "/x.h5",
                                          .verdict = "COMPLETE",
                                          .error = "",
                                          .revision = 1}});
    must_hear(&rig, "FENCE 7 > 1, RUN_STATE 4 > 9");
    assert_string_equal(rig.state.path, "/x.h5");
    s_heartbeat(&rig, 1, 0, 1, 0, 0, false);
    must_hear(&rig, "ACK 0 > 1, FENCE 7 > 1"); /* it may not have heard it */
    crema_msg_t bye = {.type = CREMA_MSG_BYE, .session = SESSION};
    s_peer(&rig, 1, &bye);
    must_hear(&rig, "ACK 0 > 1");
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false);
    must_hear(&rig, "RUN_STATE 4 > 9");
    assert_int_equal(rig.state.agents, 0); /* at once: its collector waits for that */
    s_peer(&rig, 1, &bye);
    must_hear(&rig, "FENCE 8 > 1");
    agg_core_destroy(&rig.core);
}

/* A run whose verdict was given, and that the sink could not seal. */
static rig_t
s_failed_rig(void)
{
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                               .sealed = {.run_id = body_id(s_run), .error = "no room"}});
    must_hear(&rig, "RUN_STATE 5 > 9");
    return rig;
}

static void
must_ask_a_new_sink_for_a_file_that_could_not_be_made(void **state)
{
    (void)state;
    rig_t rig = s_failed_rig();
    crema_stream_row_t row = {
        .stream_id = s_stream(1), .committed = 2, .flags = CREMA_STREAM_FLAG_CLOSED};
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE,
                               .session = BOOT + 1,
                               .state.table = body_table(1, &row)});
    s_heard(&rig);
    rig.now += 50 * MS;
    s_tick(&rig);
    assert_non_null(strstr(s_heard(&rig), "RUN_SEAL 0"));
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_SEALED,
                         .session = BOOT + 1,
                         .sealed = {.run_id = body_id(s_run), .path = "/x.h5", .revision = 1}});
    must_hear(&rig, "RUN_STATE 4 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_ask_now_and_then_for_a_file_that_could_not_be_made(void **state)
{
    (void)state;
    rig_t rig = s_failed_rig();
    unsigned asked = 0;
    for (int i = 0; i < 200; i++) {
        rig.now += S;
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_tick(&rig);
        if (!strstr(s_heard(&rig), "RUN_SEAL 0"))
            continue;
        asked++;
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                                   .sealed = {.run_id = body_id(s_run), .error = "no room"}});
        assert_null(strstr(s_heard(&rig), "RUN_STATE")); /* it was told so */
    }
    assert_int_equal(asked, 3);
    agg_core_destroy(&rig.core);
}

static void
must_give_the_verdict_anew_if_an_older_store_was_put_back(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED, .session = BOOT + 1});
    must_hear(&rig, "ACK 1 > 1, OPEN 1, RUN_OPEN 0, RUN_WRITERS 0");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                               .session = BOOT + 1,
                               .run_listed = {.run_id = crema_id_field(&s_run), .parts = 1}});
    must_hear(&rig, "RUN_STATE 3 > 9");
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, ""); /* it has not said yet what it holds */
    crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .committed = 1};
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE,
                               .session = BOOT + 1,
                               .state.table = body_table(1, &row)});
    must_hear(&rig, "ACK 1 > 1, REPLAY 2 > 1");
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, "RUN_STATE 2 > 9");
    s_data(&rig, 1, 1, 2, 2, 0);
    must_hear(&rig, "PUT 2");
    row.committed = 2;
    row.flags = CREMA_STREAM_FLAG_CLOSED;
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED,
                               .session = BOOT + 1,
                               .committed.table = body_table(1, &row)});
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_name_an_agent_that_stays_silent(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    int64_t end = rig.now;
    unsigned asked = 1;
    for (; rig.reason[0] == '\0' && rig.now < end + 100 * S; rig.now += 100 * MS) {
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE}); /* the sink is well */
        s_tick(&rig);
        asked += strstr(s_heard(&rig), "BARRIER") != NULL;
    }
    assert_int_equal(asked, 5);
    assert_in_range(rig.now - end, 60 * S, 61 * S); /* 2 + 4 + 8 + 16 + 30 */
    assert_string_equal(rig.reason, "agent_lost");
    assert_string_equal(rig.subject, "node1");
    assert_int_equal(rig.reason_count, 2);
    /* It returns and delivers: the verdict is taken back. */
    s_hello(&rig, 3, &s_agent, 1, 1, 2);
    must_hear(&rig, "WELCOME 1 > 3, BARRIER 1 > 3");
    s_heartbeat(&rig, 3, 0, 1, 1, 2, true);
    must_hear(&rig, "ACK 1 > 3");
    s_data(&rig, 3, 1, 1, 2, 0);
    must_hear(&rig, "PUT 1");
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    must_hear(&rig, "ACK 1 > 3, RUN_SEAL 0, RUN_STATE 3 > 9");
    agg_core_destroy(&rig.core);
}

/* A heartbeat that lists stream 1, with these flags, and says what could not be read. */
static void
s_complain_beside(rig_t *rig, uint64_t barrier_seen, const char *code, const char *file,
                  uint32_t flags)
{
    crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .hi = 2, .flags = flags};
    Crema__Reason fault = crema_reason(code, file, "Permission denied", 0);
    crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION};
    msg.heartbeat = (Crema__Heartbeat){.hb_no = 5,
                                       .hb_ivl_ms = 1000,
                                       .barrier_seen = barrier_seen,
                                       .table = body_table(1, &row),
                                       .n_faults = code ? 1 : 0,
                                       .faults = body_reasons(1, &fault)};
    s_peer(rig, 1, &msg);
}

/* The same with the stream delivered. */
static void
s_complain(rig_t *rig, uint64_t barrier_seen, const char *code, const char *file)
{
    s_complain_beside(rig, barrier_seen, code, file, CREMA_STREAM_FLAG_CLOSED);
}

/* `listed`: its writers are, so that a stream that nobody listed is not of this run. */
static void
s_end(rig_t *rig, bool listed)
{
    if (listed)
        s_say_run(rig, 9, CREMA_MSG_RUN_END, false);
    else
        s_peer(rig, 9, &(crema_msg_t){.type = CREMA_MSG_RUN_END, .run_id = body_id(s_run)});
}

/* A run whose only known stream is delivered and ended, and which is asked for its end. */
static rig_t
s_ending_rig(bool listed)
{
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_heard(&rig);
    s_complain(&rig, 0, NULL, NULL);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    s_heard(&rig);
    s_end(&rig, listed);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    return rig;
}

static const char c_unknown_file[] = "sp-77000000000000000000000000000000-0000000000000001";

/* Returns how often the agent was asked meanwhile; it complains each second until the verdict. */
static unsigned
s_wait_for_verdict(rig_t *rig, const char *code, const char *file)
{
    unsigned asked = 0;
    int64_t end = rig->now;
    for (; rig->reason[0] == '\0' && rig->now < end + 100 * S; rig->now += 100 * MS) {
        s_sink(rig, (crema_msg_t){.type = CREMA_MSG_STATE});
        if ((rig->now - end) % S == 0)
            s_complain(rig, 1, code, file);
        s_tick(rig);
        const char *heard = s_heard(rig);
        asked += strstr(heard, "BARRIER") != NULL;
        assert_null(strstr(heard, "RUN_SEAL 0"));
    }
    return asked;
}

static void
must_ask_again_for_what_an_agent_cannot_read_and_then_name_it(void **state)
{
    (void)state;
    rig_t rig = s_ending_rig(false);
    assert_int_equal(s_wait_for_verdict(&rig, CREMA_FAULT_FILE, c_unknown_file), 4);
    assert_string_equal(rig.reason, CREMA_FAULT_FILE);
    assert_string_equal(rig.subject, c_unknown_file);
    assert_non_null(strstr(rig.reason_text, "node1"));
    assert_non_null(strstr(rig.reason_text, "Permission denied"));
    s_complain(&rig, 1, NULL, NULL); /* it has become readable, and held nothing of the run */
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 1, RUN_STATE 3 > 9");
    assert_string_equal(rig.reason, "writer_unknown");
    agg_core_destroy(&rig.core);
}

/* How often the sink is asked in 200 s in which it says nothing of the file. */
static unsigned
s_asks_in_vain(rig_t *rig)
{
    unsigned asked = 0;
    for (int i = 0; i < 200; i++) {
        rig->now += S;
        s_sink(rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_tick(rig);
        asked += strstr(s_heard(rig), "RUN_SEAL 0") != NULL;
    }
    return asked;
}

static void
must_ask_a_silent_sink_every_5_s_and_for_a_failed_file_every_60(void **state)
{
    (void)state;
    rig_t failed = s_failed_rig(), rig = s_ending_rig(true);
    assert_in_range(s_asks_in_vain(&failed), 2, 4);
    agg_core_destroy(&failed.core);
    s_complain(&rig, 1, NULL, NULL);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    assert_in_range(s_asks_in_vain(&rig), 35, 45);
    agg_core_destroy(&rig.core);
}

/* What else is wrong with its streams is not hidden behind what it could not read. */
static void
must_name_an_open_stream_beside_what_could_not_be_read(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_heard(&rig);
    s_complain_beside(&rig, 0, NULL, NULL, 0);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, false);
    s_heard(&rig);
    s_end(&rig, true);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    int64_t end = rig.now;
    const char *seal = NULL;
    for (; !seal && rig.now < end + 100 * S; rig.now += 100 * MS) {
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
        if ((rig.now - end) % S == 0)
            s_complain_beside(&rig, 1, CREMA_FAULT_SPOOL, "", 0);
        s_tick(&rig);
        seal = strstr(s_heard(&rig), "RUN_SEAL");
    }
    assert_non_null(seal);
    assert_string_equal(rig.said, "ACK 1 > 1, RUN_SEAL 2, RUN_STATE 3 > 9");
    assert_string_equal(rig.reason, CREMA_FAULT_SPOOL);
    agg_core_destroy(&rig.core);
}

static void
must_be_complete_when_it_becomes_readable_in_time(void **state)
{
    (void)state;
    rig_t rig = s_ending_rig(true);
    s_complain(&rig, 1, CREMA_FAULT_SPOOL, "");
    must_hear(&rig, "ACK 1 > 1");
    rig.now += S;
    s_complain(&rig, 1, NULL, NULL);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_name_a_spool_that_cannot_be_listed(void **state)
{
    (void)state;
    rig_t rig = s_ending_rig(true);
    s_wait_for_verdict(&rig, CREMA_FAULT_SPOOL, "");
    assert_string_equal(rig.reason, CREMA_FAULT_SPOOL);
    assert_string_equal(rig.subject, "node1");
    agg_core_destroy(&rig.core);
}

/* A file that is no segment, a stream that is in no list, the stream of another run, one of this
 * run that is delivered: nobody waits. */
static void
must_not_hold_foreign_files_against_a_run(void **state)
{
    (void)state;
    static const char *const files[] = {"core", "sp-xyz", c_unknown_file,
                                        "sp-55000000000000000000000000000000-0000000000000001",
                                        "sp-01550000000000000000000000000000-0000000000000001"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        rig_t rig = s_ending_rig(true);
        crema_stream_row_t row = {.stream_id = {{0x55}}, .run_id = {{0xcc}}, .hi = 1};
        crema_msg_t msg = {.type = CREMA_MSG_STATE, .session = BOOT};
        msg.state.table = body_table(1, &row); /* another run's, as the sink tells */
        s_sink(&rig, msg);
        s_heard(&rig);
        s_complain(&rig, 1, CREMA_FAULT_FILE, files[i]);
        must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
        agg_core_destroy(&rig.core);
    }
}

/* An agent that served another run alone, and one that left before the end with a file it never
 * could read. */
static void
must_remember_what_an_agent_that_left_could_not_read(void **state)
{
    (void)state;
    for (int serves_other = 0; serves_other < 2; serves_other++) {
        rig_t rig = s_served_rig();
        s_data(&rig, 1, 1, 1, 2, 0);
        s_heard(&rig);
        s_complain(&rig, 0, NULL, NULL);
        s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
        s_heard(&rig);
        Crema__Reason fault =
            crema_reason(CREMA_FAULT_FILE, c_unknown_file, "Permission denied", 0);
        crema_msg_t msg = {.type = CREMA_MSG_HELLO};
        msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                                   .ver_max = CREMA_WIRE_VERSION,
                                   .agent_id = body_id(s_agent2),
                                   .boot = 1,
                                   .host = "node2",
                                   .hb_ivl_ms = 1000,
                                   .run_id = body_id(serves_other ? (crema_id_t){{0xcc}} : s_run),
                                   .n_faults = 1,
                                   .faults = body_reasons(1, &fault)};
        s_peer(&rig, 2, &msg);
        must_hear(&rig, "WELCOME 0 > 2");
        msg = (crema_msg_t){.type = CREMA_MSG_BYE, .session = SESSION};
        msg.bye.n_faults = 1;
        msg.bye.faults = body_reasons(1, &fault);
        s_peer(&rig, 2, &msg);
        must_hear(&rig, "ACK 0 > 2");
        s_end(&rig, false);
        must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
        s_complain(&rig, 1, NULL, NULL);
        if (serves_other) {
            must_hear(&rig, "ACK 1 > 1, RUN_SEAL 1, RUN_STATE 3 > 9");
        } else {
            must_hear(&rig, "ACK 1 > 1");
            s_wait_for_verdict(&rig, NULL, NULL);
            assert_string_equal(rig.reason, CREMA_FAULT_FILE);
        }
        agg_core_destroy(&rig.core);
    }
}

static void
must_not_take_a_table_with_a_hole_for_an_answer(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    s_heard(&rig);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    const uint16_t more = CREMA_WIRE_FLAG_MORE, second = 1 << CREMA_WIRE_PART_SHIFT;
    s_heartbeat(&rig, 1, more, 1, 1, 2, true);
    must_hear(&rig, "");
    s_heartbeat(&rig, 1, 2 * second, 1, 0, 0, false);
    must_hear(&rig, "");
    s_heartbeat(&rig, 1, second, 1, 0, 0, false);
    must_hear(&rig, "");
    s_heartbeat(&rig, 1, more, 1, 1, 2, true);
    must_hear(&rig, "");
    s_heartbeat(&rig, 1, second, 1, 0, 0, false);
    must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
    agg_core_destroy(&rig.core);
}

static void
must_not_call_complete_what_it_had_no_room_for(void **state)
{
    (void)state;
    rig_t rig = s_rig_with(1);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE});
    s_say_run(&rig, 9, CREMA_MSG_RUN_OPEN, false);
    s_hello(&rig, 1, &s_agent, 1, 2, 1);
    s_heard(&rig);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 1, true);
    crema_stream_row_t rows[2] = {{.stream_id = s_stream(1), .run_id = s_run, .hi = 1, .flags = 1},
                                  {.stream_id = s_stream(2), .run_id = s_run, .hi = 1, .flags = 1}};
    crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION};
    msg.heartbeat = (Crema__Heartbeat){
        .hb_no = 5, .hb_ivl_ms = 1000, .barrier_seen = 1, .table = body_table(2, rows)};
    s_peer(&rig, 1, &msg);
    assert_null(strstr(s_heard(&rig), "RUN_SEAL"));
    assert_true(agg_core_stats(rig.core).refused > 0);
    agg_core_destroy(&rig.core);
}

/* ---------------------------------------------------------------- agents of other runs */

static void
s_second_hello(rig_t *rig, agg_peer_t peer, const crema_principal_t *from,
               const crema_id_t *declared)
{
    crema_msg_t msg = {.type = CREMA_MSG_HELLO};
    msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                               .ver_max = CREMA_WIRE_VERSION,
                               .agent_id = crema_id_field(&s_agent2),
                               .boot = 3,
                               .host = "node2",
                               .hb_ivl_ms = 60000,
                               .run_id = crema_id_field(declared)};
    agg_core_on_peer(rig->core, peer, from, &msg, rig->now, rig->now + 1000 * S);
}

/* Agent 2 says HELLO for one run only, by what it declares or by its key; zero: for all. */
static void
s_second_agent(rig_t *rig, const crema_id_t *declared, const crema_id_t *bound)
{
    s_second_hello(rig, 2, &(crema_principal_t){.as = CREMA_AS_ANY, .run_id = *bound}, declared);
    must_hear(rig, "WELCOME 0 > 2");
}

/* The list names stream 1 with two records, and the sink has it. */
static void
s_list_stream(rig_t *rig)
{
    const ProtobufCBinaryData run_id = crema_id_field(&s_run);
    Crema__Writer writer = {.stream_id = body_id(s_stream(1)),
                            .last = 2,
                            .state = CREMA_WRITER_ENDED,
                            .name = "w",
                            .uuid = "",
                            .text = ""};
    s_peer(rig, 9,
           &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                          .run_writers = {.run_id = run_id,
                                          .parts = 1,
                                          .n_writers = 1,
                                          .writers = body_writers(1, &writer)}});
    s_heard(rig);
    s_sink(rig, (crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                              .run_listed = {.run_id = run_id, .part = 0, .parts = 1}});
    s_heard(rig);
}

static void
s_end_with_a_list(rig_t *rig)
{
    s_list_stream(rig);
    s_peer(rig, 9,
           &(crema_msg_t){.type = CREMA_MSG_RUN_END,
                          .run_end = {.run_id = crema_id_field(&s_run), .writer_parts = 1}});
}

/* All of the run is durable. */
static rig_t
s_delivered_rig(void)
{
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    s_heard(&rig);
    return rig;
}

static void
must_not_ask_an_agent_of_another_run(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}}, c_other = {{0x77}};
    for (int by_key = 0; by_key < 2; by_key++) {
        rig_t rig = s_delivered_rig();
        s_second_agent(&rig, by_key ? &c_all : &c_other, by_key ? &c_other : &c_all);
        s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
        must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
        s_second_agent(&rig, by_key ? &c_all : &c_other, by_key ? &c_other : &c_all);
        s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
        must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
        agg_core_destroy(&rig.core);
    }
}

/* Otherwise a foreign key could keep an agent out of the runs that it serves. */
static void
must_not_let_another_key_change_which_run_an_agent_serves(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}}, c_other = {{0x77}};
    const crema_principal_t stranger = {.as = CREMA_AS_AGENT, .key = {{0xbd}}, .run_id = c_other};
    rig_t rig = s_delivered_rig();
    s_second_agent(&rig, &c_all, &c_all);
    s_second_hello(&rig, 3, &stranger, &c_other);
    must_hear(&rig, "FENCE 3 > 3");
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    assert_non_null(strstr(s_heard(&rig), "BARRIER 1 > 2"));
    agg_core_destroy(&rig.core);
}

/* It serves all runs and has nothing of this one: if it is there it answers at once. */
static void
must_not_wait_for_a_silent_agent_when_the_list_is_whole(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}};
    for (int is_there = 0; is_there < 2; is_there++) {
        rig_t rig = s_delivered_rig();
        s_second_agent(&rig, &c_all, &c_all);
        s_end_with_a_list(&rig);
        assert_non_null(strstr(s_heard(&rig), "BARRIER 1 > 2"));
        s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
        s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
        rig.now += 2 * S - 50 * MS;
        if (is_there)
            s_heartbeat(&rig, 2, 0, 0, 0, 0, false); /* heard, and it has not answered yet */
        s_tick(&rig);
        assert_null(strstr(s_heard(&rig), "RUN_SEAL"));
        rig.now += 50 * MS;
        s_tick(&rig);
        if (is_there)
            assert_null(strstr(s_heard(&rig), "RUN_SEAL"));
        else
            assert_non_null(strstr(s_heard(&rig), "RUN_SEAL 0"));
        agg_core_destroy(&rig.core);
    }
}

/* Agent 2, which serves all runs, is heard each second; with faults unless `code` is NULL. */
static void
s_wait_beside_agent_2(rig_t *rig, const char *code, uint64_t barrier_seen, int64_t most_ns)
{
    Crema__Reason fault = crema_reason(code, "", "", 33);
    const crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT,
                             .session = SESSION,
                             .heartbeat = {.hb_no = 5,
                                           .hb_ivl_ms = 1000,
                                           .barrier_seen = barrier_seen,
                                           .n_faults = code ? 1 : 0,
                                           .faults = body_reasons(1, &fault)}};
    const int64_t end = rig->now;
    for (bool is_over = false; !is_over && rig->now < end + most_ns; rig->now += S) {
        s_sink(rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_peer(rig, 2, &msg);
        s_tick(rig);
        is_over = strstr(s_heard(rig), "RUN_SEAL") != NULL;
    }
}

/* Agent 2 cannot read files of others, whose names nobody has: that is nothing to a run of which
 * everything is durable. Nor is an agent that has nothing of it and never answers, once it was
 * asked as often as others are. */
static void
must_not_hold_what_has_no_name_against_a_run_that_is_durable(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}};
    static const struct {
        const char *code;
        uint64_t barrier_seen;
        int64_t most_ns;
    } c_cases[] = {
        {CREMA_FAULT_MORE, 1, 3 * S},
        {NULL, 0, 200 * S},
        {CREMA_FAULT_MORE, 0, 200 * S},
    };
    for (size_t i = 0; i < sizeof c_cases / sizeof *c_cases; i++) {
        rig_t rig = s_delivered_rig();
        s_second_agent(&rig, &c_all, &c_all);
        s_end_with_a_list(&rig);
        s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
        s_heard(&rig);
        s_wait_beside_agent_2(&rig, c_cases[i].code, c_cases[i].barrier_seen, c_cases[i].most_ns);
        assert_int_equal(rig.state.phase, CREMA_RUN_VERDICT);
        assert_string_equal(rig.reason, "");
        agg_core_destroy(&rig.core);
    }
}

/* While a stream that the list names is not there, it may be what nobody can read. Of an agent that
 * sees nothing of its spool it is not known what else it has. */
static void
must_name_what_has_no_name_while_something_may_be_missing(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}};
    rig_t rig = s_delivered_rig();
    s_second_agent(&rig, &c_all, &c_all);
    s_end_with_a_list(&rig);
    s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
    s_heard(&rig);
    s_wait_beside_agent_2(&rig, CREMA_FAULT_SPOOL, 1, 200 * S);
    assert_string_equal(rig.reason, CREMA_FAULT_SPOOL);
    agg_core_destroy(&rig.core);

    rig = s_served_rig();
    s_second_agent(&rig, &c_all, &c_all);
    s_end_with_a_list(&rig);
    s_heard(&rig);
    s_wait_beside_agent_2(&rig, CREMA_FAULT_MORE, 1, 200 * S);
    assert_int_equal(rig.state.phase, CREMA_RUN_VERDICT);
    assert_true(rig.state.n_reasons > 1);
    agg_core_destroy(&rig.core);
}

/* A list that leaves a writer unknown excuses nobody. */
static void
must_name_a_silent_agent_when_the_list_leaves_a_writer_open(void **state)
{
    (void)state;
    static const crema_id_t c_all = {{0}};
    rig_t rig = s_delivered_rig();
    s_second_agent(&rig, &c_all, &c_all);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false); /* its list names nobody */
    s_heard(&rig);
    s_heartbeat(&rig, 1, 0, 1, 1, 2, true);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, true);
    for (int i = 0; i < 200 && !strstr(s_heard(&rig), "RUN_SEAL"); i++) {
        rig.now += S;
        s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_COMMITTED});
        s_tick(&rig);
    }
    assert_string_equal(rig.reason, "agent_stalled"); /* with H = 60 s it counts as alive */
    agg_core_destroy(&rig.core);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_give_the_verdict_as_soon_as_the_last_record_is_durable),
        cmocka_unit_test(must_ask_a_new_sink_for_a_file_that_could_not_be_made),
        cmocka_unit_test(must_ask_now_and_then_for_a_file_that_could_not_be_made),
        cmocka_unit_test(must_give_the_verdict_anew_if_an_older_store_was_put_back),
        cmocka_unit_test(must_name_an_agent_that_stays_silent),
        cmocka_unit_test(must_ask_again_for_what_an_agent_cannot_read_and_then_name_it),
        cmocka_unit_test(must_name_an_open_stream_beside_what_could_not_be_read),
        cmocka_unit_test(must_ask_a_silent_sink_every_5_s_and_for_a_failed_file_every_60),
        cmocka_unit_test(must_be_complete_when_it_becomes_readable_in_time),
        cmocka_unit_test(must_name_a_spool_that_cannot_be_listed),
        cmocka_unit_test(must_not_hold_foreign_files_against_a_run),
        cmocka_unit_test(must_remember_what_an_agent_that_left_could_not_read),
        cmocka_unit_test(must_not_take_a_table_with_a_hole_for_an_answer),
        cmocka_unit_test(must_not_call_complete_what_it_had_no_room_for),
        cmocka_unit_test(must_not_ask_an_agent_of_another_run),
        cmocka_unit_test(must_not_let_another_key_change_which_run_an_agent_serves),
        cmocka_unit_test(must_not_wait_for_a_silent_agent_when_the_list_is_whole),
        cmocka_unit_test(must_not_hold_what_has_no_name_against_a_run_that_is_durable),
        cmocka_unit_test(must_name_what_has_no_name_while_something_may_be_missing),
        cmocka_unit_test(must_name_a_silent_agent_when_the_list_leaves_a_writer_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
