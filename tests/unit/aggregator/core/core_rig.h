/* core_rig - a core with a sink and agents played by the test: what goes in and comes out, one
 * text per action. */
#ifndef CORE_RIG_H
#define CORE_RIG_H

#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agg_core.h"
#include "crema_frame.h"
#include "message_parts.h"

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
    Crema__Ack ack;
    size_t ack_rows;
    crema_stream_row_t row; /* the first of the last table */
    Crema__Put put;
    Crema__RunState state;
    Crema__ClockSample clock;
    uint64_t barrier_id;
    char reason[64], subject[64], reason_text[256];
    uint64_t reason_count;
} rig_t;

static inline crema_id_t
s_stream(uint8_t n)
{
    return (crema_id_t){{n, 0x55}};
}

static inline const Crema__StreamTable *
s_table(const crema_msg_t *msg)
{
    return msg->type == CREMA_MSG_WELCOME ? msg->welcome.table
           : msg->type == CREMA_MSG_ACK   ? msg->ack.table
           : msg->type == CREMA_MSG_OPEN  ? msg->open.table
                                          : NULL;
}

/* The id of a message that is kept. */
static inline ProtobufCBinaryData
s_keep_id(ProtobufCBinaryData id)
{
    return body_id(*crema_id_of(id));
}

static inline void
s_note(rig_t *rig, const crema_msg_t *msg, char *text, size_t size)
{
    const size_t n_rows = crema_stream_table_rows(s_table(msg));
    unsigned long long detail = n_rows;
    if (n_rows)
        rig->row = crema_stream_table_row(s_table(msg), 0);
    if (msg->type == CREMA_MSG_WELCOME) {
        rig->credit = msg->welcome.credit_total_b;
        detail = msg->welcome.retry_after_ms ? msg->welcome.retry_after_ms : n_rows;
    } else if (msg->type == CREMA_MSG_ACK) {
        rig->credit = msg->ack.credit_total_b;
        rig->ack = msg->ack;
        rig->ack_rows = n_rows;
    } else if (msg->type == CREMA_MSG_FENCE) {
        detail = msg->fence.reason;
    } else if (msg->type == CREMA_MSG_REPLAY) {
        detail = msg->replay.from_seq;
    } else if (msg->type == CREMA_MSG_BARRIER) {
        detail = rig->barrier_id = msg->barrier.barrier_id;
    } else if (msg->type == CREMA_MSG_PUT) {
        rig->put = msg->put;
        rig->put.agent_id = s_keep_id(msg->put.agent_id);
        detail = msg->put.first_seq;
    } else if (msg->type == CREMA_MSG_RUN_STATE) {
        rig->state = msg->run_state;
        rig->state.run_id = s_keep_id(msg->run_id);
        detail = msg->run_state.phase;
    } else if (msg->type == CREMA_MSG_CLOCK) {
        rig->clock = msg->clock;
        rig->clock.run_id = s_keep_id(msg->clock.run_id);
        rig->clock.agent_id = s_keep_id(msg->clock.agent_id);
    } else if (msg->type == CREMA_MSG_RUN_SEAL) {
        const Crema__Reason *reason = msg->run_seal.n_reasons ? msg->run_seal.reasons[0] : NULL;
        detail = msg->run_seal.n_reasons;
        if (reason) {
            snprintf(rig->reason, sizeof rig->reason, "%s", reason->code);
            snprintf(rig->subject, sizeof rig->subject, "%s", reason->subject);
            snprintf(rig->reason_text, sizeof rig->reason_text, "%s", reason->text);
            rig->reason_count = reason->count;
        }
    }
    snprintf(text, size, "%s %llu", crema_msg_name(msg->type), detail);
}

/* Takes all actions; events are left out. */
static inline const char *
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

static inline void
s_peer(rig_t *rig, agg_peer_t peer, const crema_msg_t *msg)
{
    static const crema_principal_t c_anybody;
    agg_core_on_peer(rig->core, peer, &c_anybody, msg, rig->now, rig->now + 1000 * S);
}

static inline void
s_sink(rig_t *rig, crema_msg_t msg)
{
    if (msg.session == 0)
        msg.session = BOOT;
    agg_core_on_sink(rig->core, &msg, rig->now, rig->now + 1000 * S);
}

static inline void
s_tick(rig_t *rig)
{
    agg_core_on_tick(rig->core, rig->now, rig->now + 1000 * S);
}

static inline void
s_sink_row(rig_t *rig, crema_msg_type_t type, uint8_t stream, uint64_t committed, bool closed)
{
    crema_stream_row_t row = {.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .committed = committed,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = type};
    if (type == CREMA_MSG_STATE) {
        msg.state.table = body_table(1, &row);
        msg.state.free_b = 1000;
    } else {
        msg.committed.table = body_table(1, &row);
    }
    s_sink(rig, msg);
}

/* streams: how many rows, numbered from 1, all with that hi. */
static inline void
s_hello(rig_t *rig, agg_peer_t peer, const crema_id_t *agent_id, uint64_t boot, uint8_t streams,
        uint64_t hi)
{
    crema_stream_row_t rows[8];
    for (uint8_t i = 0; i < streams; i++)
        rows[i] = (crema_stream_row_t){
            .stream_id = s_stream((uint8_t)(i + 1)), .run_id = s_run, .first_avail = 1, .hi = hi};
    crema_msg_t msg = {.type = CREMA_MSG_HELLO};
    msg.hello = (Crema__Hello){.ver_min = CREMA_WIRE_VERSION_MIN,
                               .ver_max = CREMA_WIRE_VERSION,
                               .agent_id = crema_id_field(agent_id),
                               .boot = boot,
                               .host = "node1",
                               .hb_ivl_ms = 1000,
                               .table = body_table(streams, rows)};
    s_peer(rig, peer, &msg);
}

static inline void
s_heartbeat(rig_t *rig, agg_peer_t peer, uint16_t flags, uint64_t barrier_seen, uint8_t stream,
            uint64_t hi, bool closed)
{
    crema_stream_row_t row = {.stream_id = s_stream(stream),
                              .run_id = s_run,
                              .hi = hi,
                              .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0};
    crema_msg_t msg = {.type = CREMA_MSG_HEARTBEAT, .session = SESSION, .flags = flags};
    msg.heartbeat = (Crema__Heartbeat){.hb_no = 5,
                                       .hb_ivl_ms = 1000,
                                       .barrier_seen = barrier_seen,
                                       .t1_mono_ns = rig->now - MS,
                                       .table = body_table(stream ? 1 : 0, &row)};
    s_peer(rig, peer, &msg);
}

/* One frame a number; type LOSS for the one called `loss`, which stands for all up to itself. */
static inline void
s_data(rig_t *rig, agg_peer_t peer, uint8_t stream, uint64_t first, uint64_t last, uint64_t loss)
{
    static uint8_t frames[64 * CREMA_FRAME_HEADER_BYTES];
    crema_msg_t msg = {.type = CREMA_MSG_DATA, .session = SESSION};
    msg.data = (Crema__Data){.stream_id = body_id(s_stream(stream)),
                             .run_id = crema_id_field(&s_run),
                             .first_seq = first,
                             .hi = last,
                             .frames.data = frames};
    for (uint64_t seq = loss && loss > first ? loss : first; seq <= last; seq++) {
        crema_frame_t frame = {.seq = seq,
                               .type = seq == loss ? CREMA_RECORD_LOSS : CREMA_RECORD_BATCH};
        crema_frame_encode(&frame, frames + msg.data.frames.len);
        msg.data.frames.len += CREMA_FRAME_HEADER_BYTES;
        msg.data.n++;
    }
    s_peer(rig, peer, &msg);
}

/* An empty list of writers, and that the sink has it: what its parts say is the matter of
 * test_agg_writers. */
static inline void
s_say_list(rig_t *rig, agg_peer_t peer)
{
    const ProtobufCBinaryData run_id = crema_id_field(&s_run);
    s_peer(rig, peer,
           &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS,
                          .run_writers = {.run_id = run_id, .part = 0, .parts = 1}});
    s_heard(rig);
    s_sink(rig, (crema_msg_t){.type = CREMA_MSG_RUN_LISTED,
                              .run_listed = {.run_id = run_id, .part = 0, .parts = 1}});
    s_heard(rig);
}

static inline void
s_say_run(rig_t *rig, agg_peer_t peer, crema_msg_type_t type, bool dismiss)
{
    crema_msg_t msg = {.type = type, .run_id = crema_id_field(&s_run)};
    if (type == CREMA_MSG_RUN_END) {
        s_say_list(rig, peer);
        msg.run_end.dismiss = dismiss;
        msg.run_end.writer_parts = 1;
    }
    s_peer(rig, peer, &msg);
}

static inline rig_t
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
static inline rig_t
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
static inline rig_t
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

#endif
