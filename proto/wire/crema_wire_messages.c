/* The messages, field by field. */
#include "crema_wire_private.h"

#define PLAIN crema_reason_t
static const crema_wire_field_t s_reason[] = {
    AT(TEXT, Crema__Reason, code, code),
    AT(TEXT, Crema__Reason, subject, subject),
    AT(TEXT, Crema__Reason, text, text),
    NUMBER(LONG, Crema__Reason, count, count),
};
static const crema_wire_layout_t c_reason = LAYOUT(crema__reason__descriptor, s_reason);
#undef PLAIN

#define PLAIN crema_writer_t
static const crema_wire_field_t s_writer[] = {
    AT(ID, Crema__Writer, stream_id, stream_id),   NUMBER(LONG, Crema__Writer, last, last),
    NUMBER(LONG, Crema__Writer, dropped, dropped), NUMBER(WORD, Crema__Writer, kind, kind),
    NUMBER(WORD, Crema__Writer, state, state),     AT(TEXT, Crema__Writer, name, name),
    AT(TEXT, Crema__Writer, uuid, uuid),           AT(TEXT, Crema__Writer, text, text),
};
static const crema_wire_layout_t c_writer = LAYOUT(crema__writer__descriptor, s_writer);
#undef PLAIN

#define PLAIN crema_msg_t
#define BYTES(message, field, name, n_name)                                                        \
    {                                                                                              \
        .how = FRAMES, .wire = offsetof(message, field), .plain = offsetof(PLAIN, name),           \
        .plain_n = offsetof(PLAIN, n_name)                                                         \
    }

static const crema_wire_field_t s_hello[] = {
    NUMBER(WORD, Crema__Hello, ver_min, hello.ver_min),
    NUMBER(WORD, Crema__Hello, ver_max, hello.ver_max),
    AT(NEED_ID, Crema__Hello, agent_id, hello.agent_id),
    NUMBER(LONG, Crema__Hello, boot, hello.boot),
    AT(TEXT, Crema__Hello, host, hello.host),
    NUMBER(WORD, Crema__Hello, pid, hello.pid),
    NUMBER(WORD, Crema__Hello, hb_ivl_ms, hello.hb_ivl_ms),
    AT(TABLE, Crema__Hello, table, hello.table),
    AT(TEXT, Crema__Hello, version, hello.version),
    AT(ID, Crema__Hello, run_id, hello.run_id),
    LIST(ROWS, Crema__Hello, faults, hello.faults.rows, hello.faults.n, .rows = &c_reason),
};

static const crema_wire_field_t s_data[] = {
    AT(NEED_ID, Crema__Data, stream_id, data.stream_id),
    AT(NEED_ID, Crema__Data, run_id, data.run_id),
    NUMBER(LONG, Crema__Data, first_seq, data.first_seq),
    NUMBER(WORD, Crema__Data, n, data.n),
    NUMBER(LONG, Crema__Data, hi, data.hi),
    NUMBER(WORD, Crema__Data, flags, data.flags),
    BYTES(Crema__Data, frames, data.frames, data.frames_bytes),
};

static const crema_wire_field_t s_put[] = {
    AT(NEED_ID, Crema__Put, stream_id, data.stream_id),
    AT(NEED_ID, Crema__Put, run_id, data.run_id),
    NUMBER(LONG, Crema__Put, first_seq, data.first_seq),
    NUMBER(WORD, Crema__Put, n, data.n),
    BYTES(Crema__Put, frames, data.frames, data.frames_bytes),
    AT(ID, Crema__Put, agent_id, data.agent_id),
};

static const crema_wire_field_t s_heartbeat[] = {
    NUMBER(LONG, Crema__Heartbeat, hb_no, heartbeat.hb_no),
    NUMBER(WORD, Crema__Heartbeat, hb_ivl_ms, heartbeat.hb_ivl_ms),
    NUMBER(LONG, Crema__Heartbeat, barrier_seen, heartbeat.barrier_seen),
    NUMBER(LONG, Crema__Heartbeat, t1_mono_ns, heartbeat.t1_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, t1_real_ns, heartbeat.t1_real_ns),
    AT(TABLE, Crema__Heartbeat, table, heartbeat.table),
    NUMBER(LONG, Crema__Heartbeat, echo_t1_mono_ns, heartbeat.echo_t1_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t2_mono_ns, heartbeat.echo_t2_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t3_mono_ns, heartbeat.echo_t3_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t4_mono_ns, heartbeat.echo_t4_mono_ns),
    LIST(ROWS, Crema__Heartbeat, faults, heartbeat.faults.rows, heartbeat.faults.n,
         .rows = &c_reason),
};

static const crema_wire_field_t s_bye[] = {
    NUMBER(WORD, Crema__Bye, reason, bye.reason),
    AT(TABLE, Crema__Bye, table, bye.table),
    LIST(ROWS, Crema__Bye, faults, bye.faults.rows, bye.faults.n, .rows = &c_reason),
};

static const crema_wire_field_t s_welcome[] = {
    NUMBER(LONG, Crema__Welcome, credit_total_b, welcome.credit_total_b),
    NUMBER(WORD, Crema__Welcome, max_batch_b, welcome.max_batch_b),
    NUMBER(WORD, Crema__Welcome, retry_after_ms, welcome.retry_after_ms),
    AT(TABLE, Crema__Welcome, table, welcome.table),
};

static const crema_wire_field_t s_ack[] = {
    AT(TABLE, Crema__Ack, table, ack.table),
    NUMBER(LONG, Crema__Ack, credit_total_b, ack.credit_total_b),
    NUMBER(LONG, Crema__Ack, hb_no, ack.hb_no),
    NUMBER(LONG, Crema__Ack, t1_mono_ns, ack.t1_mono_ns),
    NUMBER(LONG, Crema__Ack, t2_mono_ns, ack.t2_mono_ns),
    NUMBER(LONG, Crema__Ack, t3_mono_ns, ack.t3_mono_ns),
};

static const crema_wire_field_t s_replay[] = {
    AT(NEED_ID, Crema__Replay, stream_id, replay.stream_id),
    NUMBER(LONG, Crema__Replay, from_seq, replay.from_seq),
};

static const crema_wire_field_t s_barrier[] = {
    NUMBER(LONG, Crema__Barrier, barrier_id, barrier.barrier_id),
    AT(ID, Crema__Barrier, run_id, barrier.run_id),
};

static const crema_wire_field_t s_fence[] = {
    NUMBER(WORD, Crema__Fence, reason, fence.reason),
    NUMBER(WORD, Crema__Fence, retry_after_ms, fence.retry_after_ms),
    AT(ID, Crema__Fence, run_id, fence.run_id),
};

static const crema_wire_field_t s_open[] = {AT(TABLE, Crema__Open, table, table)};
static const crema_wire_field_t s_committed[] = {AT(TABLE, Crema__Committed, table, table)};

static const crema_wire_field_t s_clock_sample[] = {
    AT(NEED_ID, Crema__ClockSample, run_id, clock.run_id),
    AT(NEED_ID, Crema__ClockSample, agent_id, clock.agent_id),
    NUMBER(LONG, Crema__ClockSample, t_ns, clock.t_ns),
    NUMBER(LONG, Crema__ClockSample, offset_ns, clock.offset_ns),
    NUMBER(LONG, Crema__ClockSample, uncertainty_ns, clock.uncertainty_ns),
    NUMBER(LONG, Crema__ClockSample, rtt_ns, clock.rtt_ns),
    NUMBER(LONG, Crema__ClockSample, drift_ppb, clock.drift_ppb),
};

static const crema_wire_field_t s_state[] = {
    AT(TABLE, Crema__State, table, state.table),
    NUMBER(LONG, Crema__State, free_b, state.free_b),
};

static const crema_wire_field_t s_nack[] = {
    AT(NEED_ID, Crema__Nack, stream_id, nack.stream_id),
};

static const crema_wire_field_t s_full[] = {
    NUMBER(WORD, Crema__Full, retry_after_ms, full.retry_after_ms),
    NUMBER(LONG, Crema__Full, free_b, full.free_b),
    AT(TEXT, Crema__Full, why, full.why),
    AT(ID, Crema__Full, run_id, full.run_id),
};

#define RUN_FIELDS(message)                                                                        \
    AT(NEED_ID, message, run_id, run.run_id), NUMBER(LONG, message, t_start_ns, run.t_start_ns),   \
        LIST(TEXTS, message, keys, run.keys, run.n_attributes),                                    \
        LIST(SAME_TEXTS, message, values, run.values, run.n_attributes),                           \
        LIST(TEXTS, message, processor_prefixes, run.processor_prefixes, run.n_prefixes)

static const crema_wire_field_t s_run_open[] = {
    RUN_FIELDS(Crema__RunOpen),
    AT(KEY, Crema__RunOpen, agent_key, run.agent_key),
    AT(ID, Crema__RunOpen, owner, run.owner),
    NUMBER(LONG, Crema__RunOpen, t_end_ns, run.t_end_ns),
};

static const crema_wire_field_t s_run_end[] = {
    RUN_FIELDS(Crema__RunEnd),
    AT(ID, Crema__RunEnd, owner, run.owner),
    NUMBER(LONG, Crema__RunEnd, t_end_ns, run.t_end_ns),
    AT(FLAG, Crema__RunEnd, dismiss, run.dismiss),
    NUMBER(WORD, Crema__RunEnd, writer_parts, run.writer_parts),
};

static const crema_wire_field_t s_run_seal[] = {
    RUN_FIELDS(Crema__RunSeal),
    AT(ID, Crema__RunSeal, owner, run.owner),
    NUMBER(LONG, Crema__RunSeal, t_end_ns, run.t_end_ns),
    NUMBER(LONG, Crema__RunSeal, t_verdict_ns, run.t_verdict_ns),
    LIST(ROWS, Crema__RunSeal, reasons, run.reasons, run.n_reasons, .rows = &c_reason),
    NUMBER(WORD, Crema__RunSeal, writer_parts, run.writer_parts),
};

static const crema_wire_field_t s_run_writers[] = {
    AT(NEED_ID, Crema__RunWriters, run_id, writers.run_id),
    NUMBER(WORD, Crema__RunWriters, part, writers.part),
    NUMBER(WORD, Crema__RunWriters, parts, writers.parts),
    LIST(ROWS, Crema__RunWriters, writers, writers.writers, writers.n, .rows = &c_writer),
    AT(ID, Crema__RunWriters, owner, writers.owner),
};

static const crema_wire_field_t s_run_listed[] = {
    AT(NEED_ID, Crema__RunListed, run_id, writers.run_id),
    NUMBER(WORD, Crema__RunListed, part, writers.part),
    NUMBER(WORD, Crema__RunListed, parts, writers.parts),
};

static const crema_wire_field_t s_run_query[] = {
    AT(NEED_ID, Crema__RunQuery, run_id, query),
    AT(KEY, Crema__RunQuery, agent_key, query_key),
};

static const crema_wire_field_t s_sealed[] = {
    AT(NEED_ID, Crema__Sealed, run_id, sealed.run_id),
    AT(TEXT, Crema__Sealed, path, sealed.path),
    AT(TEXT, Crema__Sealed, verdict, sealed.verdict),
    AT(TEXT, Crema__Sealed, error, sealed.error),
    NUMBER(LONG, Crema__Sealed, revision, sealed.revision),
    LIST(ROWS, Crema__Sealed, reasons, sealed.reasons, sealed.n_reasons, .rows = &c_reason),
};

static const crema_wire_field_t s_run_state[] = {
    AT(NEED_ID, Crema__RunState, run_id, run_state.run_id),
    NUMBER(WORD, Crema__RunState, phase, run_state.phase),
    NUMBER(WORD, Crema__RunState, refusal, run_state.refusal),
    AT(TEXT, Crema__RunState, trouble, run_state.trouble),
    NUMBER(WORD, Crema__RunState, streams, run_state.streams),
    NUMBER(WORD, Crema__RunState, streams_done, run_state.streams_done),
    NUMBER(WORD, Crema__RunState, agents, run_state.agents),
    NUMBER(LONG, Crema__RunState, committed, run_state.committed),
    NUMBER(LONG, Crema__RunState, missing, run_state.missing),
    LIST(TEXTS, Crema__RunState, waiting_for, run_state.waiting_for, run_state.n_waiting),
    AT(TEXT, Crema__RunState, path, run_state.path),
    AT(TEXT, Crema__RunState, verdict, run_state.verdict),
    AT(TEXT, Crema__RunState, error, run_state.error),
    LIST(ROWS, Crema__RunState, reasons, run_state.reasons, run_state.n_reasons, .rows = &c_reason),
    NUMBER(LONG, Crema__RunState, revision, run_state.revision),
    NUMBER(LONG, Crema__RunState, verdict_after_ns, run_state.verdict_after_ns),
    NUMBER(LONG, Crema__RunState, t_now_ns, run_state.t_now_ns),
    NUMBER(LONG, Crema__RunState, processor_s, run_state.processor_s),
    NUMBER(LONG, Crema__RunState, overhead_s, run_state.overhead_s),
    NUMBER(WORD, Crema__RunState, writers_kept, run_state.writers_kept),
};

/* n frames from first on, each at least a header long, and numbers that do not wrap. */
static bool
s_is_sound_data(const crema_data_t *data)
{
    uint64_t end;
    return data->first_seq >= 1 && data->n >= 1 &&
           data->n <= data->frames_bytes / CREMA_FRAME_HEADER_BYTES &&
           !__builtin_add_overflow(data->first_seq, data->n, &end);
}

bool
crema_wire_is_sound(const crema_msg_t *msg)
{
    switch (msg->type) {
    case CREMA_MSG_DATA:
    case CREMA_MSG_PUT:
        return s_is_sound_data(&msg->data);
    case CREMA_MSG_REPLAY:
        return msg->replay.from_seq >= 1;
    case CREMA_MSG_RUN_WRITERS:
    case CREMA_MSG_RUN_LISTED:
        return msg->writers.part < msg->writers.parts &&
               msg->writers.parts <= CREMA_WIRE_WRITER_PARTS_MAX;
    default:
        return true;
    }
}

static const crema_wire_kind_t s_kinds[] = {
#define X(type, number, body)                                                                      \
    {CREMA_MSG_##type, #type, LAYOUT(crema__##body##__descriptor, s_##body)},
    CREMA_MESSAGES(X)
#undef X
};

const crema_wire_kind_t *
crema_wire_kind(crema_msg_type_t type)
{
    for (size_t i = 0; i < sizeof s_kinds / sizeof s_kinds[0]; i++)
        if (s_kinds[i].type == type)
            return &s_kinds[i];
    return NULL;
}

const char *
crema_msg_name(crema_msg_type_t type)
{
    const crema_wire_kind_t *kind = crema_wire_kind(type);
    return kind ? kind->name : "?";
}
