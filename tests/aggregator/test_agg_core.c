/* agg_core: conversations. Each test says something and must hear exactly what follows, as one line of text. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core.h"
#include "crema_frame.h"

#define MS 1000000ll
#define S (1000 * MS)
#define SESSION 42u
#define BOOT 7u /* of the sink */

static const crema_id_t s_run = {{0xee}}, s_agent = {{0xa1}}, s_agent2 = {{0xa2}};

typedef struct {
    agg_core_t *core;
    int64_t now;
    char said[1024];
    uint64_t credit; /* of the last WELCOME or ACK */
    crema_ack_t ack;
    crema_stream_row_t row; /* the first of the last table */
    crema_data_t put;
    crema_run_state_t state;
    crema_clock_sample_t clock;
    uint64_t barrier_id;
    char reason[64], subject[64], reason_text[256];
    uint64_t reason_count;
} rig_t;

static crema_id_t
s_stream(uint8_t n)
{
    return (crema_id_t){{n, 0x55}};
}

static const crema_stream_table_t *
s_table(const crema_msg_t *msg)
{
    static const crema_stream_table_t none;
    return msg->type == CREMA_MSG_WELCOME ? &msg->welcome.table
           : msg->type == CREMA_MSG_ACK   ? &msg->ack.table
           : msg->type == CREMA_MSG_OPEN  ? &msg->table
                                          : &none;
}

static void
s_note(rig_t *rig, const crema_msg_t *msg, char *text, size_t size)
{
    const crema_stream_table_t *table = s_table(msg);
    unsigned long long detail = table->n;
    if (table->n)
        rig->row = table->rows[0];
    if (msg->type == CREMA_MSG_WELCOME) {
        rig->credit = msg->welcome.credit_total_b;
        detail = msg->welcome.retry_after_ms ? msg->welcome.retry_after_ms : table->n;
    } else if (msg->type == CREMA_MSG_ACK) {
        rig->credit = msg->ack.credit_total_b;
        rig->ack = msg->ack;
    } else if (msg->type == CREMA_MSG_FENCE) {
        detail = msg->fence.reason;
    } else if (msg->type == CREMA_MSG_REPLAY) {
        detail = msg->replay.from_seq;
    } else if (msg->type == CREMA_MSG_BARRIER) {
        detail = rig->barrier_id = msg->barrier.barrier_id;
    } else if (msg->type == CREMA_MSG_PUT) {
        rig->put = msg->data;
        detail = msg->data.first_seq;
    } else if (msg->type == CREMA_MSG_RUN_STATE) {
        rig->state = msg->run_state;
        detail = msg->run_state.phase;
    } else if (msg->type == CREMA_MSG_CLOCK) {
        rig->clock = msg->clock;
    } else if (msg->type == CREMA_MSG_RUN_SEAL) {
        detail = msg->run.n_reasons;
        if (msg->run.n_reasons) {
            snprintf(rig->reason, sizeof rig->reason, "%s", msg->run.reasons[0].code);
            snprintf(rig->subject, sizeof rig->subject, "%s", msg->run.reasons[0].subject);
            snprintf(rig->reason_text, sizeof rig->reason_text, "%s", msg->run.reasons[0].text);
            rig->reason_count = msg->run.reasons[0].count;
        }
    }
    snprintf(text, size, "%s %llu", crema_msg_name(msg->type), detail);
}

/* Takes all actions; events are left out. */
static const char *
s_heard(rig_t *rig)
{
    agg_action_t action;
    size_t n = 0;
    rig->said[0] = '\0';
    while (agg_core_next(rig->core, rig->now, &action)) {
        char text[64];
        if (action.type == AGG_EVENT)
            continue;
        s_note(rig, action.msg, text, sizeof text);
        if (action.type == AGG_TO_PEER)
            assert_int_equal(action.msg->session, SESSION);
        n += (size_t)snprintf(rig->said + n, sizeof rig->said - n, "%s%s", n ? ", " : "", text);
        if (action.type == AGG_TO_PEER)
            n += (size_t)snprintf(rig->said + n, sizeof rig->said - n, " > %llu",
                                  (unsigned long long)action.peer);
        assert_true(n < sizeof rig->said);
    }
    return rig->said;
}

#define must_hear(rig, text) assert_string_equal(s_heard(rig), text)

static void
s_peer(rig_t *rig, agg_peer_t peer, const crema_msg_t *msg)
{
    static const crema_principal_t c_anybody;
    agg_core_on_peer(rig->core, peer, &c_anybody, msg, rig->now, rig->now + 1000 * S);
}

static void
s_sink(rig_t *rig, crema_msg_t msg)
{
    if (msg.session == 0)
        msg.session = BOOT;
    agg_core_on_sink(rig->core, &msg, rig->now, rig->now + 1000 * S);
}

static void
s_tick(rig_t *rig)
{
    agg_core_on_tick(rig->core, rig->now, rig->now + 1000 * S);
}

static void
s_sink_row(rig_t *rig, crema_msg_type_t type, uint8_t stream, uint64_t committed, bool closed)
{
    crema_stream_row_t row = {.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .committed = committed,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_STATE) {
        msg.state.table = (crema_stream_table_t){1, &row};
        msg.state.free_b = 1000;
    } else {
        msg.table = (crema_stream_table_t){1, &row};
    }
    s_sink(rig, msg);
}

/* streams: how many rows, numbered from 1, all with that hi. */
static void
s_hello(rig_t *rig, agg_peer_t peer, const crema_id_t *agent_id, uint64_t boot, uint8_t streams,
        uint64_t hi)
{
    crema_stream_row_t rows[8];
    for (uint8_t i = 0; i < streams; i++)
        rows[i] = (crema_stream_row_t){
            .stream_id = s_stream((uint8_t)(i + 1)), .run_id = s_run, .first_avail = 1, .hi = hi};
    crema_msg_t msg = {.type = CREMA_MSG_HELLO};
    msg.hello = (crema_hello_t){.ver_min = CREMA_WIRE_VERSION_MIN,
                                .ver_max = CREMA_WIRE_VERSION,
                                .agent_id = *agent_id,
                                .boot = boot,
                                .host = "node1",
                                .hb_ivl_ms = 1000,
                                .table = {streams, rows}};
    s_peer(rig, peer, &msg);
}

static void
s_heartbeat(rig_t *rig, agg_peer_t peer, uint16_t flags, uint64_t barrier_seen, uint8_t stream,
            uint64_t hi, bool closed)
{
    crema_stream_row_t row = {.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .hi = hi,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION, .flags = flags};
    msg.heartbeat = (crema_heartbeat_t){.hb_no = 5,
                                        .hb_ivl_ms = 1000,
                                        .barrier_seen = barrier_seen,
                                        .t1_mono_ns = rig->now - MS,
                                        .table = {stream ? 1 : 0, &row}};
    s_peer(rig, peer, &msg);
}

/* One frame a number; type LOSS for the one called `loss`, which stands for all up to itself. */
static void
s_data(rig_t *rig, agg_peer_t peer, uint8_t stream, uint64_t first, uint64_t last, uint64_t loss)
{
    static uint8_t frames[64 * CREMA_FRAME_HEADER_BYTES];
    crema_msg_t msg = {.type = CREMA_MSG_DATA, .session = SESSION};
    msg.data = (crema_data_t){.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .first_seq = first,
                              .hi = last,
                              .frames = frames};
    for (uint64_t seq = loss && loss > first ? loss : first; seq <= last; seq++) {
        crema_frame_t frame = {.seq = seq,
                               .type = seq == loss ? CREMA_RECORD_LOSS : CREMA_RECORD_BATCH};
        crema_frame_encode(&frame, frames + msg.data.frames_bytes);
        msg.data.frames_bytes += CREMA_FRAME_HEADER_BYTES;
        msg.data.n++;
    }
    s_peer(rig, peer, &msg);
}

/* An empty list of writers, and that the sink has it: what its parts say is the matter of test_agg_writers. */
static void
s_say_list(rig_t *rig, agg_peer_t peer)
{
    crema_writers_msg_t list = {.run_id = s_run, .part = 0, .parts = 1};
    s_peer(rig, peer, &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .writers = list});
    s_heard(rig);
    s_sink(rig, (crema_msg_t){.type = CREMA_MSG_RUN_LISTED, .writers = list});
    s_heard(rig);
}

static void
s_say_run(rig_t *rig, agg_peer_t peer, crema_msg_type_t type, bool dismiss)
{
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_RUN_END)
        s_say_list(rig, peer);
    if (type == CREMA_MSG_RUN_QUERY)
        msg.query = s_run;
    else
        msg.run = (crema_run_msg_t){.run_id = s_run, .dismiss = dismiss, .writer_parts = 1};
    s_peer(rig, peer, &msg);
}

static rig_t
s_rig_with(size_t streams_max)
{
    rig_t rig = {.now = 100 * S};
    const agg_config_t config = {
        .session = SESSION,
        .credit_pool_b = 64 << 20,
        .sink_silence_ns = 2 * S,
        .barrier_retries = 5,
        .barrier_cap_ns = 30 * S,
        .agents_max = 4,
        .streams_max = streams_max,
        .runs_max = 2,
        .abandon_after_ns = 60 * S,
        .owner_runs_max = 2,
        .owner_bytes_max = 1 << 20,
    };
    must(agg_core_new(&config, &rig.core));
    return rig;
}

/* A sink that is up and knows nothing. */
static rig_t
s_rig(void)
{
    rig_t rig = s_rig_with(8);
    s_tick(&rig);
    must_hear(&rig, "OPEN 0");
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 1000});
    must_hear(&rig, "");
    return rig;
}

/* Peer 1 is an agent with stream 1, placed at 1, of an opened run. */
static rig_t
s_served_rig(void)
{
    rig_t rig = s_rig();
    s_say_run(&rig, 9, CREMA_MSG_RUN_OPEN, false);
    must_hear(&rig, "RUN_OPEN 0, RUN_STATE 1 > 9");
    s_hello(&rig, 1, &s_agent, 1, 1, 2);
    must_hear(&rig, "WELCOME 1 > 1, OPEN 1");
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 0, false);
    must_hear(&rig, "ACK 1 > 1, REPLAY 1 > 1");
    return rig;
}

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
    assert_int_equal(rig.credit, 32 << 10);
    agg_core_destroy(&rig.core);
    assert_null(rig.core);
}

static void
must_pass_on_what_continues_and_acknowledge_what_is_durable(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    assert_int_equal(rig.ack.table.n, 1);
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, "PUT 1");
    assert_int_equal(rig.put.n, 2);
    assert_true(crema_id_equal(&rig.put.agent_id, &s_agent));
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

/* Whatever versions a peer speaks: it is let in if one of them is spoken here, else told why not. */
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
        msg.hello = (crema_hello_t){.ver_min = cases[i].min,
                                    .ver_max = cases[i].max,
                                    .agent_id = s_agent,
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
    agg_core_on_bad(rig.core, 6, CREMA_EVERSION, rig.now);
    agg_core_on_bad(rig.core, 6, CREMA_ECRC, rig.now);
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
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_NACK,
                               .nack = {.stream_id = s_stream(1), .expected_next = 1}});
    must_hear(&rig, "ACK 1 > 1, OPEN 1"); /* the agent pauses meanwhile */
    assert_int_equal(rig.row.recv_next, 0);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_NACK,
                               .nack = {.stream_id = s_stream(1), .expected_next = 1}});
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
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_STATE, .session = BOOT + 1, .state.table = {1, &row}});
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
    rig.now += 2100 * MS;
    s_tick(&rig);
    must_hear(&rig, "ACK 1 > 1, OPEN 1"); /* silent: a ping about one stream, and no credit */
    assert_int_equal(rig.credit, before);
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_STATE, .state.free_b = 51});
    must_hear(&rig, "ACK 0 > 1");
    assert_true(rig.credit > before);
    agg_core_destroy(&rig.core);
}

static void
must_give_the_verdict_as_soon_as_the_last_record_is_durable(void **state)
{
    (void)state;
    rig_t rig = s_served_rig();
    s_data(&rig, 1, 1, 1, 2, 0);
    must_hear(&rig, "PUT 1");
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, true);
    must_hear(&rig, "BARRIER 1 > 1, RUN_STATE 2 > 9");
    assert_int_equal(rig.state.n_waiting, 1);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, true);
    must_hear(&rig, "RUN_STATE 2 > 9"); /* a repeat changes nothing */
    s_heartbeat(&rig, 1, 0, 1, 1, 3, true);
    must_hear(&rig, "ACK 1 > 1");
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
    must_hear(&rig, "OPEN 1");
    rig.now += 1 * MS;
    s_tick(&rig);
    must_hear(&rig, "RUN_SEAL 0"); /* again until it is answered */
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                               .sealed = {.run_id = s_run,
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
                               .sealed = {.run_id = s_run, .error = "no room"}});
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
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_STATE, .session = BOOT + 1, .state.table = {1, &row}});
    s_heard(&rig);
    rig.now += 50 * MS;
    s_tick(&rig);
    assert_non_null(strstr(s_heard(&rig), "RUN_SEAL 0"));
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                               .session = BOOT + 1,
                               .sealed = {.run_id = s_run, .path = "/x.h5", .revision = 1}});
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
                                   .sealed = {.run_id = s_run, .error = "no room"}});
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
                               .writers = {.run_id = s_run, .parts = 1}});
    must_hear(&rig, "RUN_STATE 3 > 9");
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, ""); /* it has not said yet what it holds */
    crema_stream_row_t row = {.stream_id = s_stream(1), .run_id = s_run, .committed = 1};
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_STATE, .session = BOOT + 1, .state.table = {1, &row}});
    must_hear(&rig, "ACK 1 > 1, REPLAY 2 > 1");
    rig.now += 50 * MS;
    s_tick(&rig);
    must_hear(&rig, "RUN_STATE 2 > 9");
    s_data(&rig, 1, 1, 2, 2, 0);
    must_hear(&rig, "PUT 2");
    row.committed = 2;
    row.flags = CREMA_STREAM_FLAG_CLOSED;
    s_sink(&rig,
           (crema_msg_t){.type = CREMA_MSG_COMMITTED, .session = BOOT + 1, .table = {1, &row}});
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

/* A heartbeat that lists stream 1 as delivered, and says what could not be read. */
static void
s_complain(rig_t *rig, uint64_t barrier_seen, const char *code, const char *file)
{
    crema_stream_row_t row = {
        .stream_id = s_stream(1), .run_id = s_run, .hi = 2, .flags = CREMA_STREAM_FLAG_CLOSED};
    crema_reason_t fault = {code, file, "Permission denied", 0};
    crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION};
    msg.heartbeat = (crema_heartbeat_t){.hb_no = 5,
                                        .hb_ivl_ms = 1000,
                                        .barrier_seen = barrier_seen,
                                        .table = {1, &row},
                                        .faults = {code ? 1 : 0, &fault}};
    s_peer(rig, 1, &msg);
}

/* `listed`: its writers are, so that a stream that nobody listed is not of this run. */
static void
s_end(rig_t *rig, bool listed)
{
    if (listed)
        s_say_run(rig, 9, CREMA_MSG_RUN_END, false);
    else
        s_peer(rig, 9, &(crema_msg_t){.type = CREMA_MSG_RUN_END, .run = {.run_id = s_run}});
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

/* A file that is no segment, a stream that is in no list, the stream of another run, one of this run that is delivered: nobody waits. */
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
        msg.state.table = (crema_stream_table_t){1, &row}; /* another run's, as the sink tells */
        s_sink(&rig, msg);
        s_heard(&rig);
        s_complain(&rig, 1, CREMA_FAULT_FILE, files[i]);
        must_hear(&rig, "ACK 1 > 1, RUN_SEAL 0, RUN_STATE 3 > 9");
        agg_core_destroy(&rig.core);
    }
}

/* An agent that served another run alone, and one that left before the end with a file it never could read. */
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
        crema_reason_t fault = {CREMA_FAULT_FILE, c_unknown_file, "Permission denied", 0};
        crema_msg_t msg = {.type = CREMA_MSG_HELLO};
        msg.hello = (crema_hello_t){.ver_min = CREMA_WIRE_VERSION_MIN,
                                    .ver_max = CREMA_WIRE_VERSION,
                                    .agent_id = s_agent2,
                                    .boot = 1,
                                    .host = "node2",
                                    .hb_ivl_ms = 1000,
                                    .run_id = serves_other ? (crema_id_t){{0xcc}} : s_run,
                                    .faults = {1, &fault}};
        s_peer(&rig, 2, &msg);
        must_hear(&rig, "WELCOME 0 > 2");
        msg = (crema_msg_t){.type = CREMA_MSG_BYE, .session = SESSION};
        msg.bye.faults = (crema_faults_t){1, &fault};
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
    msg.heartbeat =
        (crema_heartbeat_t){.hb_no = 5, .hb_ivl_ms = 1000, .barrier_seen = 1, .table = {2, rows}};
    s_peer(&rig, 1, &msg);
    assert_null(strstr(s_heard(&rig), "RUN_SEAL"));
    assert_true(agg_core_stats(rig.core).refused > 0);
    agg_core_destroy(&rig.core);
}

/* It was not there when the run was opened: agents may come back for 10 s, and the sink may have sealed it already. */
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
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 4, true); /* all that the sink has heard of is there */
    s_heard(&rig);
    s_say_run(&rig, 9, CREMA_MSG_RUN_END, false);
    must_hear(&rig, "RUN_STATE 2 > 9");
    assert_int_equal(rig.state.n_waiting, 1);
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
    s_sink(&rig, (crema_msg_t){.type = CREMA_MSG_SEALED, .sealed = {.run_id = s_run, .path = "x"}});
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
    assert_true(crema_id_equal(&rig.state.run_id, &s_run));
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
        /* The agent's host booted 5 s after this one and its wall clock is 20 s fast; 1 ms each way. */
        int64_t here = rig.now - 5 * S;
        msg.heartbeat = (crema_heartbeat_t){.hb_no = (uint64_t)i + 1,
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
    assert_true(crema_id_equal(&rig.clock.run_id, &s_run));
    assert_true(crema_id_equal(&rig.clock.agent_id, &s_agent));
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
s_sealed(rig_t *rig, const char *verdict, const char *code)
{
    const crema_reason_t reason = {code, "", "", 0};
    s_sink(rig, (crema_msg_t){.type = CREMA_MSG_SEALED,
                              .sealed = {.run_id = s_run,
                                         .path = "/x.h5",
                                         .verdict = verdict,
                                         .error = "",
                                         .n_reasons = code != NULL,
                                         .reasons = &reason,
                                         .revision = 1}});
}

/* A client that was killed: its run is sealed without its end, a minute after the last record and its last word. */
static rig_t
s_abandoned_rig(void)
{
    rig_t rig = s_served_rig();
    assert_null(strstr(s_wait(&rig, 50 * S), "BARRIER"));
    s_say_run(&rig, 9, CREMA_MSG_RUN_QUERY, false); /* it is there */
    assert_null(strstr(s_wait(&rig, 50 * S), "BARRIER"));
    s_data(&rig, 1, 1, 1, 2, 0); /* and its workers are */
    s_heard(&rig);
    s_sink_row(&rig, CREMA_MSG_COMMITTED, 1, 2, false);
    assert_null(strstr(s_wait(&rig, 59 * S), "BARRIER"));
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

/* Neither clock nor verdict: a run that this aggregator only knows from a list of streams is asked about when nothing came of it. */
static void
must_ask_for_the_end_of_a_run_it_did_not_see_opened(void **state)
{
    (void)state;
    rig_t rig = s_rig();
    s_hello(&rig, 1, &s_agent, 1, 1, 4); /* one of its agents came here */
    s_sink_row(&rig, CREMA_MSG_STATE, 1, 4, true);
    s_heard(&rig);
    s_wait(&rig, 59 * S);
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
        msg.heartbeat = (crema_heartbeat_t){.hb_no = (uint64_t)i + 1,
                                            .hb_ivl_ms = 1000,
                                            .t1_mono_ns = rig->now,
                                            .t1_real_ns = rig->now + 1000 * S,
                                            .echo_t1_mono_ns = rig->now - 90 * MS,
                                            .echo_t2_mono_ns = rig->now - 89 * MS,
                                            .echo_t3_mono_ns = rig->now - 89 * MS,
                                            .echo_t4_mono_ns = rig->now - 88 * MS,
                                            .table = {1, &row}};
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
    bye.bye.table = (crema_stream_table_t){1, &row};
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
    agg_core_note_split(rig.core, &s_run, 1, 2); /* nor does its split matter */
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

/* Agents that speak each second are not looked at each tick, and one that falls silent is noticed as soon as before. */
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_look_only_at_agents_that_are_due),
        cmocka_unit_test(must_admit_nobody_before_the_sink_has_spoken),
        cmocka_unit_test(must_pass_on_what_continues_and_acknowledge_what_is_durable),
        cmocka_unit_test(must_send_a_loss_alone),
        cmocka_unit_test(must_agree_on_a_version_or_refuse),
        cmocka_unit_test(must_fence_whom_it_does_not_know),
        cmocka_unit_test(must_ask_a_new_sink_about_everything),
        cmocka_unit_test(must_close_credit_while_the_sink_is_full_or_silent),
        cmocka_unit_test(must_give_the_verdict_as_soon_as_the_last_record_is_durable),
        cmocka_unit_test(must_ask_a_new_sink_for_a_file_that_could_not_be_made),
        cmocka_unit_test(must_ask_now_and_then_for_a_file_that_could_not_be_made),
        cmocka_unit_test(must_give_the_verdict_anew_if_an_older_store_was_put_back),
        cmocka_unit_test(must_name_an_agent_that_stays_silent),
        cmocka_unit_test(must_ask_again_for_what_an_agent_cannot_read_and_then_name_it),
        cmocka_unit_test(must_be_complete_when_it_becomes_readable_in_time),
        cmocka_unit_test(must_name_a_spool_that_cannot_be_listed),
        cmocka_unit_test(must_not_hold_foreign_files_against_a_run),
        cmocka_unit_test(must_remember_what_an_agent_that_left_could_not_read),
        cmocka_unit_test(must_not_take_a_table_with_a_hole_for_an_answer),
        cmocka_unit_test(must_not_call_complete_what_it_had_no_room_for),
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
