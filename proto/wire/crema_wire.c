#include "crema_wire.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "crema.pb-c.h"
#include "crema_bytes.h"
#include "crema_protobuf.h"

/* Offsets of the envelope's fields. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 5,
    AT_FLAGS = 6,
    AT_BODY_LEN = 8,
    AT_CRC = 12,
    AT_SESSION = 16,
    AT_AGENT_IDX = 24,
    AT_RESERVED = 28,
    AT_SEND_MONO_NS = 32,
};

/* ---- the messages, field by field: offsets in protobuf-c's struct and in the plain one */

typedef enum {
    WORD,    /* 4 bytes, any type */
    LONG,    /* 8 bytes, any type */
    FLAG,    /* bool */
    ID,      /* a zero id is encoded as an empty field */
    NEED_ID, /* a zero id is refused */
    KEY,     /* a public key of 32 bytes; zeros are encoded as an empty field */
    TEXT,
    FRAMES,     /* bytes with their size */
    TEXTS,      /* a list of texts with its length */
    SAME_TEXTS, /* another list of the same length as the one before */
    REASONS,
    WRITERS,
    TABLE,
} how_t;

typedef struct {
    how_t how;
    uint16_t wire, plain;     /* offsets of the field */
    uint16_t wire_n, plain_n; /* offsets of its length */
} field_t;

/* 0; does not compile if the two fields differ in size. */
#define SAME_SIZE(message, field, name)                                                            \
    (0 * sizeof(char[sizeof((message *)0)->field == sizeof((crema_msg_t *)0)->name ? 1 : -1]))
#define AT(how, message, field, name)                                                              \
    {                                                                                              \
        how, offsetof(message, field), offsetof(crema_msg_t, name), 0, 0                           \
    }
#define NUMBER(how, message, field, name)                                                          \
    {                                                                                              \
        how, offsetof(message, field) + SAME_SIZE(message, field, name),                           \
            offsetof(crema_msg_t, name), 0, 0                                                      \
    }
#define LIST(how, message, field, name, n_name)                                                    \
    {                                                                                              \
        how, offsetof(message, field), offsetof(crema_msg_t, name), offsetof(message, n_##field),  \
            offsetof(crema_msg_t, n_name)                                                          \
    }
#define BYTES(message, field, name, n_name)                                                        \
    {                                                                                              \
        FRAMES, offsetof(message, field), offsetof(crema_msg_t, name), 0,                          \
            offsetof(crema_msg_t, n_name)                                                          \
    }

static const field_t s_hello[] = {
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
    LIST(REASONS, Crema__Hello, faults, hello.faults.rows, hello.faults.n),
};

static const field_t s_data[] = {
    AT(NEED_ID, Crema__Data, stream_id, data.stream_id),
    AT(NEED_ID, Crema__Data, run_id, data.run_id),
    NUMBER(LONG, Crema__Data, first_seq, data.first_seq),
    NUMBER(WORD, Crema__Data, n, data.n),
    NUMBER(LONG, Crema__Data, hi, data.hi),
    NUMBER(WORD, Crema__Data, flags, data.flags),
    BYTES(Crema__Data, frames, data.frames, data.frames_bytes),
};

static const field_t s_put[] = {
    AT(NEED_ID, Crema__Put, stream_id, data.stream_id),
    AT(NEED_ID, Crema__Put, run_id, data.run_id),
    NUMBER(LONG, Crema__Put, first_seq, data.first_seq),
    NUMBER(WORD, Crema__Put, n, data.n),
    BYTES(Crema__Put, frames, data.frames, data.frames_bytes),
    AT(ID, Crema__Put, agent_id, data.agent_id),
};

static const field_t s_heartbeat[] = {
    NUMBER(LONG, Crema__Heartbeat, hb_no, heartbeat.hb_no),
    NUMBER(WORD, Crema__Heartbeat, hb_ivl_ms, heartbeat.hb_ivl_ms),
    NUMBER(LONG, Crema__Heartbeat, barrier_seen, heartbeat.barrier_seen),
    NUMBER(LONG, Crema__Heartbeat, spool_b, heartbeat.spool_b),
    NUMBER(LONG, Crema__Heartbeat, spool_cap_b, heartbeat.spool_cap_b),
    NUMBER(LONG, Crema__Heartbeat, evicted, heartbeat.evicted),
    NUMBER(LONG, Crema__Heartbeat, t1_mono_ns, heartbeat.t1_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, t1_real_ns, heartbeat.t1_real_ns),
    AT(TABLE, Crema__Heartbeat, table, heartbeat.table),
    NUMBER(LONG, Crema__Heartbeat, echo_t1_mono_ns, heartbeat.echo_t1_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t2_mono_ns, heartbeat.echo_t2_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t3_mono_ns, heartbeat.echo_t3_mono_ns),
    NUMBER(LONG, Crema__Heartbeat, echo_t4_mono_ns, heartbeat.echo_t4_mono_ns),
    LIST(REASONS, Crema__Heartbeat, faults, heartbeat.faults.rows, heartbeat.faults.n),
};

static const field_t s_bye[] = {
    NUMBER(WORD, Crema__Bye, reason, bye.reason),
    AT(TABLE, Crema__Bye, table, bye.table),
    LIST(REASONS, Crema__Bye, faults, bye.faults.rows, bye.faults.n),
};

static const field_t s_welcome[] = {
    NUMBER(LONG, Crema__Welcome, credit_total_b, welcome.credit_total_b),
    NUMBER(WORD, Crema__Welcome, max_batch_b, welcome.max_batch_b),
    NUMBER(WORD, Crema__Welcome, retry_after_ms, welcome.retry_after_ms),
    AT(TABLE, Crema__Welcome, table, welcome.table),
};

static const field_t s_ack[] = {
    AT(TABLE, Crema__Ack, table, ack.table),
    NUMBER(LONG, Crema__Ack, credit_total_b, ack.credit_total_b),
    NUMBER(LONG, Crema__Ack, hb_no, ack.hb_no),
    NUMBER(LONG, Crema__Ack, t1_mono_ns, ack.t1_mono_ns),
    NUMBER(LONG, Crema__Ack, t2_mono_ns, ack.t2_mono_ns),
    NUMBER(LONG, Crema__Ack, t3_mono_ns, ack.t3_mono_ns),
};

static const field_t s_replay[] = {
    AT(NEED_ID, Crema__Replay, stream_id, replay.stream_id),
    NUMBER(LONG, Crema__Replay, from_seq, replay.from_seq),
    NUMBER(WORD, Crema__Replay, attempt, replay.attempt),
};

static const field_t s_barrier[] = {
    NUMBER(LONG, Crema__Barrier, barrier_id, barrier.barrier_id),
    AT(ID, Crema__Barrier, run_id, barrier.run_id),
};

static const field_t s_fence[] = {
    NUMBER(WORD, Crema__Fence, reason, fence.reason),
    NUMBER(WORD, Crema__Fence, retry_after_ms, fence.retry_after_ms),
    AT(ID, Crema__Fence, run_id, fence.run_id),
};

static const field_t s_open[] = {AT(TABLE, Crema__Open, table, table)};
static const field_t s_committed[] = {AT(TABLE, Crema__Committed, table, table)};

static const field_t s_clock[] = {
    AT(NEED_ID, Crema__ClockSample, run_id, clock.run_id),
    AT(NEED_ID, Crema__ClockSample, agent_id, clock.agent_id),
    NUMBER(LONG, Crema__ClockSample, t_ns, clock.t_ns),
    NUMBER(LONG, Crema__ClockSample, offset_ns, clock.offset_ns),
    NUMBER(LONG, Crema__ClockSample, uncertainty_ns, clock.uncertainty_ns),
    NUMBER(LONG, Crema__ClockSample, rtt_ns, clock.rtt_ns),
    NUMBER(LONG, Crema__ClockSample, drift_ppb, clock.drift_ppb),
};

static const field_t s_state[] = {
    AT(TABLE, Crema__State, table, state.table),
    NUMBER(LONG, Crema__State, free_b, state.free_b),
};

static const field_t s_nack[] = {
    AT(NEED_ID, Crema__Nack, stream_id, nack.stream_id),
    NUMBER(LONG, Crema__Nack, expected_next, nack.expected_next),
};

static const field_t s_full[] = {
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

static const field_t s_run_open[] = {
    RUN_FIELDS(Crema__RunOpen),
    AT(KEY, Crema__RunOpen, agent_key, run.agent_key),
    AT(ID, Crema__RunOpen, owner, run.owner),
    NUMBER(LONG, Crema__RunOpen, t_end_ns, run.t_end_ns),
};

static const field_t s_run_end[] = {
    RUN_FIELDS(Crema__RunEnd),
    AT(ID, Crema__RunEnd, owner, run.owner),
    NUMBER(LONG, Crema__RunEnd, t_end_ns, run.t_end_ns),
    AT(FLAG, Crema__RunEnd, dismiss, run.dismiss),
    NUMBER(WORD, Crema__RunEnd, writer_parts, run.writer_parts),
};

static const field_t s_run_seal[] = {
    RUN_FIELDS(Crema__RunSeal),
    AT(ID, Crema__RunSeal, owner, run.owner),
    NUMBER(LONG, Crema__RunSeal, t_end_ns, run.t_end_ns),
    NUMBER(LONG, Crema__RunSeal, t_verdict_ns, run.t_verdict_ns),
    LIST(REASONS, Crema__RunSeal, reasons, run.reasons, run.n_reasons),
    NUMBER(WORD, Crema__RunSeal, writer_parts, run.writer_parts),
};

static const field_t s_run_writers[] = {
    AT(NEED_ID, Crema__RunWriters, run_id, writers.run_id),
    NUMBER(WORD, Crema__RunWriters, part, writers.part),
    NUMBER(WORD, Crema__RunWriters, parts, writers.parts),
    LIST(WRITERS, Crema__RunWriters, writers, writers.writers, writers.n),
    AT(ID, Crema__RunWriters, owner, writers.owner),
};

static const field_t s_run_listed[] = {
    AT(NEED_ID, Crema__RunListed, run_id, writers.run_id),
    NUMBER(WORD, Crema__RunListed, part, writers.part),
    NUMBER(WORD, Crema__RunListed, parts, writers.parts),
};

static const field_t s_run_query[] = {
    AT(NEED_ID, Crema__RunQuery, run_id, query),
    AT(KEY, Crema__RunQuery, agent_key, query_key),
};

static const field_t s_sealed[] = {
    AT(NEED_ID, Crema__Sealed, run_id, sealed.run_id),
    AT(TEXT, Crema__Sealed, path, sealed.path),
    AT(TEXT, Crema__Sealed, verdict, sealed.verdict),
    AT(TEXT, Crema__Sealed, error, sealed.error),
    NUMBER(LONG, Crema__Sealed, revision, sealed.revision),
    LIST(REASONS, Crema__Sealed, reasons, sealed.reasons, sealed.n_reasons),
};

static const field_t s_run_state[] = {
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
    LIST(REASONS, Crema__RunState, reasons, run_state.reasons, run_state.n_reasons),
    NUMBER(LONG, Crema__RunState, revision, run_state.revision),
    NUMBER(LONG, Crema__RunState, verdict_after_ns, run_state.verdict_after_ns),
    NUMBER(LONG, Crema__RunState, t_now_ns, run_state.t_now_ns),
    NUMBER(LONG, Crema__RunState, processor_s, run_state.processor_s),
    NUMBER(LONG, Crema__RunState, overhead_s, run_state.overhead_s),
    NUMBER(WORD, Crema__RunState, writers_kept, run_state.writers_kept),
};

/* Further checks: n frames from first on, each at least a header long, and numbers that do not
 * wrap. */
static bool
s_check_data(const crema_msg_t *msg)
{
    const crema_data_t *data = &msg->data;
    uint64_t end;
    return data->first_seq >= 1 && data->n >= 1 &&
           data->n <= data->frames_bytes / CREMA_FRAME_HEADER_BYTES &&
           !__builtin_add_overflow(data->first_seq, data->n, &end);
}

static bool
s_check_replay(const crema_msg_t *msg)
{
    return msg->replay.from_seq >= 1;
}

static bool
s_check_nack(const crema_msg_t *msg)
{
    return msg->nack.expected_next >= 1;
}

static bool
s_check_writers(const crema_msg_t *msg)
{
    return msg->writers.part < msg->writers.parts &&
           msg->writers.parts <= CREMA_WIRE_WRITER_PARTS_MAX;
}

typedef struct {
    crema_msg_type_t type;
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    const field_t *fields;
    size_t n_fields;
    bool (*check)(const crema_msg_t *msg); /* NULL: no further checks */
} kind_t;

#define KIND(type, descriptor, fields, check)                                                      \
    {                                                                                              \
        CREMA_MSG_##type, #type, &descriptor, fields, sizeof fields / sizeof fields[0], check      \
    }

static const kind_t s_kinds[] = {
    KIND(HELLO, crema__hello__descriptor, s_hello, NULL),
    KIND(DATA, crema__data__descriptor, s_data, s_check_data),
    KIND(HEARTBEAT, crema__heartbeat__descriptor, s_heartbeat, NULL),
    KIND(BYE, crema__bye__descriptor, s_bye, NULL),
    KIND(WELCOME, crema__welcome__descriptor, s_welcome, NULL),
    KIND(ACK, crema__ack__descriptor, s_ack, NULL),
    KIND(REPLAY, crema__replay__descriptor, s_replay, s_check_replay),
    KIND(BARRIER, crema__barrier__descriptor, s_barrier, NULL),
    KIND(FENCE, crema__fence__descriptor, s_fence, NULL),
    KIND(OPEN, crema__open__descriptor, s_open, NULL),
    KIND(PUT, crema__put__descriptor, s_put, s_check_data),
    KIND(RUN_SEAL, crema__run_seal__descriptor, s_run_seal, NULL),
    KIND(CLOCK, crema__clock_sample__descriptor, s_clock, NULL),
    KIND(STATE, crema__state__descriptor, s_state, NULL),
    KIND(COMMITTED, crema__committed__descriptor, s_committed, NULL),
    KIND(NACK, crema__nack__descriptor, s_nack, s_check_nack),
    KIND(FULL, crema__full__descriptor, s_full, NULL),
    KIND(SEALED, crema__sealed__descriptor, s_sealed, NULL),
    KIND(RUN_LISTED, crema__run_listed__descriptor, s_run_listed, s_check_writers),
    KIND(RUN_OPEN, crema__run_open__descriptor, s_run_open, NULL),
    KIND(RUN_END, crema__run_end__descriptor, s_run_end, NULL),
    KIND(RUN_QUERY, crema__run_query__descriptor, s_run_query, NULL),
    KIND(RUN_STATE, crema__run_state__descriptor, s_run_state, NULL),
    KIND(RUN_WRITERS, crema__run_writers__descriptor, s_run_writers, s_check_writers),
};

/* Pointers are copied as bytes since their types differ, at least in const. */
static void *
s_load(const void *at)
{
    void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    return pointer;
}

static void
s_store(void *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof pointer);
}

/* ---- decoding a field: false refuses the message */

static bool
s_are_texts(size_t n, char *const *texts)
{
    for (size_t i = 0; i < n; i++)
        if (!crema_protobuf_is_text(texts[i]))
            return false;
    return true;
}

/* A column is as long as the table, or missing. */
static bool
s_fits(size_t column, size_t rows)
{
    return column == 0 || column == rows;
}

static bool
s_get_table(const Crema__StreamTable *in, crema_arena_t *arena, crema_stream_table_t *ret)
{
    if (!in)
        return true;
    size_t n = in->stream_ids.len / CREMA_ID_BYTES;
    if (in->stream_ids.len % CREMA_ID_BYTES != 0 || n > CREMA_WIRE_TABLE_ROWS_MAX ||
        !s_fits(in->run_ids.len, n * CREMA_ID_BYTES) || !s_fits(in->n_first_avail, n) ||
        !s_fits(in->n_hi, n) || !s_fits(in->n_committed, n) || !s_fits(in->n_recv_next, n) ||
        !s_fits(in->n_flags, n) || !s_fits(in->n_users, n))
        return false;
    crema_stream_row_t *rows = crema_arena_take(arena, n * sizeof *rows);
    if (!rows)
        return false;
    for (size_t i = 0; i < n; i++) {
        memcpy(rows[i].stream_id.bytes, in->stream_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
        if (in->run_ids.len)
            memcpy(rows[i].run_id.bytes, in->run_ids.data + i * CREMA_ID_BYTES, CREMA_ID_BYTES);
        rows[i].first_avail = in->n_first_avail ? in->first_avail[i] : 0;
        rows[i].hi = in->n_hi ? in->hi[i] : 0;
        rows[i].committed = in->n_committed ? in->committed[i] : 0;
        rows[i].recv_next = in->n_recv_next ? in->recv_next[i] : 0;
        rows[i].flags = in->n_flags ? in->flags[i] : 0;
        rows[i].user = in->n_users ? in->users[i] : 0;
    }
    ret->n = n;
    ret->rows = rows;
    return true;
}

static bool
s_get_reasons(size_t n, Crema__Reason *const *in, crema_arena_t *arena, size_t *ret_n,
              const crema_reason_t **ret_reasons)
{
    crema_reason_t *reasons = crema_arena_take(arena, n * sizeof *reasons);
    if (!reasons)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!crema_protobuf_is_text(in[i]->code) || !crema_protobuf_is_text(in[i]->subject) ||
            !crema_protobuf_is_text(in[i]->text))
            return false;
        reasons[i] = (crema_reason_t){
            .code = in[i]->code,
            .subject = in[i]->subject,
            .text = in[i]->text,
            .count = in[i]->count,
        };
    }
    *ret_n = n;
    *ret_reasons = reasons;
    return true;
}

static bool
s_get_key(const ProtobufCBinaryData *wire, uint8_t plain[CREMA_WIRE_KEY_BYTES])
{
    if (wire->len == CREMA_WIRE_KEY_BYTES)
        memcpy(plain, wire->data, CREMA_WIRE_KEY_BYTES);
    return wire->len == 0 || wire->len == CREMA_WIRE_KEY_BYTES;
}

static bool
s_get_writers(size_t n, Crema__Writer *const *in, crema_arena_t *arena, size_t *ret_n,
              const crema_writer_t **ret_writers)
{
    crema_writer_t *writers = crema_arena_take(arena, n * sizeof *writers);
    if (!writers)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!crema_protobuf_is_text(in[i]->name) || !crema_protobuf_is_text(in[i]->uuid) ||
            !crema_protobuf_is_text(in[i]->text))
            return false;
        writers[i] = (crema_writer_t){
            .last = in[i]->last,
            .dropped = in[i]->dropped,
            .kind = in[i]->kind,
            .state = in[i]->state,
            .name = in[i]->name,
            .uuid = in[i]->uuid,
            .text = in[i]->text,
        };
        if (!crema_protobuf_take_id(&in[i]->stream_id, &writers[i].stream_id))
            return false;
    }
    *ret_n = n;
    *ret_writers = writers;
    return true;
}

static bool
s_get_field(const field_t *field, const uint8_t *body, crema_arena_t *arena, uint8_t *msg)
{
    const void *wire = body + field->wire;
    void *plain = msg + field->plain;
    const size_t *wire_n = (const size_t *)(body + field->wire_n);
    size_t *plain_n = (size_t *)(msg + field->plain_n);
    switch (field->how) {
    case WORD:
        memcpy(plain, wire, 4);
        return true;
    case LONG:
        memcpy(plain, wire, 8);
        return true;
    case FLAG:
        *(bool *)plain = *(const protobuf_c_boolean *)wire != 0;
        return true;
    case ID:
        return crema_protobuf_take_id(wire, plain);
    case NEED_ID:
        return crema_protobuf_take_id(wire, plain) && !crema_id_is_zero(plain);
    case KEY:
        return s_get_key(wire, plain);
    case TEXT:
        s_store(plain, s_load(wire));
        return crema_protobuf_is_text(s_load(wire));
    case FRAMES:
        s_store(plain, ((const ProtobufCBinaryData *)wire)->data);
        *plain_n = ((const ProtobufCBinaryData *)wire)->len;
        return *plain_n <= CREMA_WIRE_BATCH_MAX;
    case SAME_TEXTS:
        if (*wire_n != *plain_n)
            return false;
        /* fall through */
    case TEXTS:
        s_store(plain, s_load(wire));
        *plain_n = *wire_n;
        return s_are_texts(*wire_n, s_load(wire));
    case REASONS:
        return s_get_reasons(*wire_n, s_load(wire), arena, plain_n, plain);
    case WRITERS:
        return s_get_writers(*wire_n, s_load(wire), arena, plain_n, plain);
    case TABLE:
        return s_get_table(s_load(wire), arena, plain);
    }
    return false;
}

/* ---- encoding a field: protobuf-c's structs borrow what they can, hence the casts that drop
 * const; the rest is in the scratch arena, sized for the table or list of reasons at the start
 * of a message and the faults that may follow */

#define FAULTS_BYTES (CREMA_WIRE_FAULTS_MAX * (sizeof(Crema__Reason) + sizeof(Crema__Reason *)))

typedef struct {
    crema_arena_t *scratch; /* NULL until needed */
    crema_err_t err;        /* the first error */
} encoder_t;

static void *
s_scratch(encoder_t *self, size_t bytes)
{
    void *memory = NULL;
    if (self->err == CREMA_OK && !self->scratch)
        self->err = crema_arena_new(bytes + FAULTS_BYTES + 64, &self->scratch);
    if (self->err == CREMA_OK)
        memory = crema_arena_take(self->scratch, bytes);
    return memory;
}

/* Length of a column: one that is entirely zero is omitted. */
static size_t
s_column_length(uint64_t any, size_t n)
{
    return any ? n : 0;
}

static Crema__StreamTable *
s_put_table(encoder_t *self, const crema_stream_table_t *in)
{
    const size_t n = in->n;
    const size_t row_bytes = 2 * CREMA_ID_BYTES + 4 * sizeof(uint64_t) + 2 * sizeof(uint32_t);
    if (n > CREMA_WIRE_TABLE_ROWS_MAX)
        self->err = CREMA_ELIMIT;
    if (n == 0 || self->err != CREMA_OK)
        return NULL;
    Crema__StreamTable *out = s_scratch(self, sizeof *out + n * row_bytes);
    if (!out)
        return NULL;
    crema__stream_table__init(out);
    out->first_avail = (uint64_t *)(out + 1);
    out->hi = out->first_avail + n;
    out->committed = out->hi + n;
    out->recv_next = out->committed + n;
    out->flags = (uint32_t *)(out->recv_next + n);
    out->users = out->flags + n;
    out->stream_ids.data = (uint8_t *)(out->users + n);
    out->run_ids.data = out->stream_ids.data + n * CREMA_ID_BYTES;
    crema_stream_row_t any = {0};
    bool any_run = false;
    for (size_t i = 0; i < n; i++) {
        const crema_stream_row_t *row = &in->rows[i];
        memcpy(out->stream_ids.data + i * CREMA_ID_BYTES, row->stream_id.bytes, CREMA_ID_BYTES);
        memcpy(out->run_ids.data + i * CREMA_ID_BYTES, row->run_id.bytes, CREMA_ID_BYTES);
        any_run |= !crema_id_is_zero(&row->run_id);
        any.first_avail |= out->first_avail[i] = row->first_avail;
        any.hi |= out->hi[i] = row->hi;
        any.committed |= out->committed[i] = row->committed;
        any.recv_next |= out->recv_next[i] = row->recv_next;
        any.flags |= out->flags[i] = row->flags;
        any.user |= out->users[i] = row->user;
    }
    out->stream_ids.len = n * CREMA_ID_BYTES;
    out->run_ids.len = any_run ? n * CREMA_ID_BYTES : 0;
    out->n_first_avail = s_column_length(any.first_avail, n);
    out->n_hi = s_column_length(any.hi, n);
    out->n_committed = s_column_length(any.committed, n);
    out->n_recv_next = s_column_length(any.recv_next, n);
    out->n_flags = s_column_length(any.flags, n);
    out->n_users = s_column_length(any.user, n);
    return out;
}

static Crema__Reason **
s_put_reasons(encoder_t *self, size_t n, const crema_reason_t *in)
{
    if (n > CREMA_WIRE_MESSAGE_MAX) /* a reason takes at least two bytes */
        self->err = CREMA_ELIMIT;
    if (n == 0 || self->err != CREMA_OK)
        return NULL;
    Crema__Reason **pointers = s_scratch(self, n * (sizeof **pointers + sizeof *pointers));
    if (!pointers)
        return NULL;
    Crema__Reason *out = (Crema__Reason *)(pointers + n);
    for (size_t i = 0; i < n; i++) {
        crema__reason__init(&out[i]);
        out[i].code = crema_protobuf_text(in[i].code);
        out[i].subject = crema_protobuf_text(in[i].subject);
        out[i].text = crema_protobuf_text(in[i].text);
        out[i].count = in[i].count;
        pointers[i] = &out[i];
    }
    return pointers;
}

static Crema__Writer **
s_put_writers(encoder_t *self, size_t n, const crema_writer_t *in)
{
    if (n > CREMA_WIRE_MESSAGE_MAX) /* a writer takes at least two bytes */
        self->err = CREMA_ELIMIT;
    if (n == 0 || self->err != CREMA_OK)
        return NULL;
    Crema__Writer **pointers = s_scratch(self, n * (sizeof **pointers + sizeof *pointers));
    if (!pointers)
        return NULL;
    Crema__Writer *out = (Crema__Writer *)(pointers + n);
    for (size_t i = 0; i < n; i++) {
        crema__writer__init(&out[i]);
        out[i].stream_id = crema_protobuf_id(&in[i].stream_id);
        out[i].last = in[i].last;
        out[i].dropped = in[i].dropped;
        out[i].kind = in[i].kind;
        out[i].state = in[i].state;
        out[i].name = crema_protobuf_text(in[i].name);
        out[i].uuid = crema_protobuf_text(in[i].uuid);
        out[i].text = crema_protobuf_text(in[i].text);
        pointers[i] = &out[i];
    }
    return pointers;
}

bool
crema_wire_is_key(const uint8_t key[CREMA_WIRE_KEY_BYTES])
{
    static const uint8_t c_none[CREMA_WIRE_KEY_BYTES];
    return memcmp(key, c_none, sizeof c_none) != 0;
}

static void
s_put_key(const uint8_t plain[CREMA_WIRE_KEY_BYTES], ProtobufCBinaryData *wire)
{
    bool any = crema_wire_is_key(plain);
    wire->data = any ? (uint8_t *)plain : NULL;
    wire->len = any ? CREMA_WIRE_KEY_BYTES : 0;
}

static void
s_put_field(encoder_t *self, const field_t *field, const uint8_t *msg, uint8_t *body)
{
    const void *plain = msg + field->plain;
    void *wire = body + field->wire;
    const size_t *plain_n = (const size_t *)(msg + field->plain_n);
    size_t *wire_n = (size_t *)(body + field->wire_n);
    switch (field->how) {
    case WORD:
        memcpy(wire, plain, 4);
        break;
    case LONG:
        memcpy(wire, plain, 8);
        break;
    case FLAG:
        *(protobuf_c_boolean *)wire = *(const bool *)plain;
        break;
    case ID:
    case NEED_ID:
        *(ProtobufCBinaryData *)wire = crema_protobuf_id(plain);
        break;
    case KEY:
        s_put_key(plain, wire);
        break;
    case TEXT:
        s_store(wire, crema_protobuf_text(s_load(plain)));
        break;
    case FRAMES:
        if (*plain_n > CREMA_WIRE_BATCH_MAX)
            self->err = CREMA_ELIMIT;
        ((ProtobufCBinaryData *)wire)->data = s_load(plain);
        ((ProtobufCBinaryData *)wire)->len = *plain_n;
        break;
    case TEXTS:
    case SAME_TEXTS:
        s_store(wire, s_load(plain));
        *wire_n = *plain_n;
        break;
    case REASONS:
        s_store(wire, s_put_reasons(self, *plain_n, s_load(plain)));
        *wire_n = s_load(wire) ? *plain_n : 0;
        break;
    case WRITERS:
        s_store(wire, s_put_writers(self, *plain_n, s_load(plain)));
        *wire_n = s_load(wire) ? *plain_n : 0;
        break;
    case TABLE:
        s_store(wire, s_put_table(self, plain));
        break;
    }
}

/* ---- the envelope */

static const kind_t *
s_kind(crema_msg_type_t type)
{
    for (size_t i = 0; i < sizeof s_kinds / sizeof s_kinds[0]; i++)
        if (s_kinds[i].type == type)
            return &s_kinds[i];
    return NULL;
}

const char *
crema_msg_name(crema_msg_type_t type)
{
    const kind_t *kind = s_kind(type);
    return kind ? kind->name : "?";
}

static uint32_t
s_crc(const uint8_t *bytes, size_t size)
{
    uint32_t crc = libdeflate_crc32(0, bytes, AT_CRC);
    return libdeflate_crc32(crc, bytes + AT_SESSION, size - AT_SESSION);
}

static void
s_put_envelope(const crema_msg_t *msg, uint8_t *out, size_t body_len)
{
    crema_put_u32(out + AT_MAGIC, CREMA_WIRE_MAGIC);
    out[AT_VERSION] = CREMA_WIRE_VERSION;
    out[AT_TYPE] = (uint8_t)msg->type;
    crema_put_u16(out + AT_FLAGS, msg->flags);
    crema_put_u32(out + AT_BODY_LEN, (uint32_t)body_len);
    crema_put_u64(out + AT_SESSION, msg->session);
    crema_put_u32(out + AT_AGENT_IDX, msg->agent_idx);
    crema_put_u32(out + AT_RESERVED, 0);
    crema_put_u64(out + AT_SEND_MONO_NS, (uint64_t)msg->send_mono_ns);
    crema_put_u32(out + AT_CRC, s_crc(out, CREMA_WIRE_HEADER_BYTES + body_len));
}

/* Any of these messages before packing. */
typedef union {
    ProtobufCMessage base;
    Crema__Hello hello;
    Crema__Data data;
    Crema__Heartbeat heartbeat;
    Crema__Bye bye;
    Crema__Welcome welcome;
    Crema__Ack ack;
    Crema__Replay replay;
    Crema__Barrier barrier;
    Crema__Fence fence;
    Crema__Open open;
    Crema__Put put;
    Crema__RunSeal run_seal;
    Crema__ClockSample clock;
    Crema__State state;
    Crema__Committed committed;
    Crema__Nack nack;
    Crema__Full full;
    Crema__Sealed sealed;
    Crema__RunOpen run_open;
    Crema__RunEnd run_end;
    Crema__RunQuery run_query;
    Crema__RunState run_state;
    Crema__RunWriters run_writers;
    Crema__RunListed run_listed;
} body_t;

crema_err_t
crema_wire_encode(const crema_msg_t *msg, uint8_t **ret_bytes, size_t *ret_size)
{
    const kind_t *kind = s_kind(msg->type);
    if (!kind)
        return CREMA_EINVAL;
    encoder_t encoder = {0};
    body_t body;
    protobuf_c_message_init(kind->descriptor, &body.base);
    for (size_t i = 0; i < kind->n_fields; i++)
        s_put_field(&encoder, &kind->fields[i], (const uint8_t *)msg, (uint8_t *)&body);
    uint8_t *bytes = NULL;
    size_t body_len = 0;
    if (encoder.err == CREMA_OK) {
        body_len = protobuf_c_message_get_packed_size(&body.base);
        if (body_len > CREMA_WIRE_MESSAGE_MAX - CREMA_WIRE_HEADER_BYTES)
            encoder.err = CREMA_ELIMIT;
    }
    if (encoder.err == CREMA_OK) {
        bytes = malloc(CREMA_WIRE_HEADER_BYTES + body_len);
        encoder.err = bytes ? CREMA_OK : CREMA_ENOMEM;
    }
    if (bytes) {
        protobuf_c_message_pack(&body.base, bytes + CREMA_WIRE_HEADER_BYTES);
        s_put_envelope(msg, bytes, body_len);
        *ret_bytes = bytes;
        *ret_size = CREMA_WIRE_HEADER_BYTES + body_len;
    }
    crema_arena_destroy(&encoder.scratch);
    return encoder.err;
}

static crema_err_t
s_decode_body(const kind_t *kind, const uint8_t *body, size_t len, crema_arena_t *arena,
              crema_msg_t *ret)
{
    ProtobufCAllocator allocator = crema_protobuf_allocator(arena);
    crema_arena_begin(arena, len);
    ProtobufCMessage *message = protobuf_c_message_unpack(kind->descriptor, &allocator, len, body);
    bool sound = message != NULL;
    for (size_t i = 0; sound && i < kind->n_fields; i++)
        sound = s_get_field(&kind->fields[i], (const uint8_t *)message, arena, (uint8_t *)ret);
    if (sound && (!kind->check || kind->check(ret)))
        return CREMA_OK;
    return crema_arena_refused(arena) ? CREMA_ELIMIT : CREMA_EPROTO;
}

static crema_err_t
s_decode(const uint8_t *bytes, size_t size, uint8_t version_min, crema_arena_t *arena,
         crema_msg_t *ret_msg)
{
    if (size < CREMA_WIRE_HEADER_BYTES || crema_get_u32(bytes + AT_MAGIC) != CREMA_WIRE_MAGIC)
        return CREMA_EMAGIC;
    crema_msg_t msg = {.type = (crema_msg_type_t)bytes[AT_TYPE]};
    if (bytes[AT_VERSION] < version_min || bytes[AT_VERSION] > CREMA_WIRE_VERSION) {
        ret_msg->type = msg.type;
        return CREMA_EVERSION;
    }
    if (size > CREMA_WIRE_MESSAGE_MAX)
        return CREMA_ELIMIT;
    size_t body_len = size - CREMA_WIRE_HEADER_BYTES;
    if (crema_get_u32(bytes + AT_BODY_LEN) != body_len)
        return CREMA_EPROTO;
    if (crema_get_u32(bytes + AT_CRC) != s_crc(bytes, size))
        return CREMA_ECRC;
    const kind_t *kind = s_kind(msg.type);
    if (!kind)
        return CREMA_EPROTO;
    msg.flags = crema_get_u16(bytes + AT_FLAGS);
    msg.session = crema_get_u64(bytes + AT_SESSION);
    msg.agent_idx = crema_get_u32(bytes + AT_AGENT_IDX);
    msg.send_mono_ns = (int64_t)crema_get_u64(bytes + AT_SEND_MONO_NS);
    crema_err_t err = s_decode_body(kind, bytes + CREMA_WIRE_HEADER_BYTES, body_len, arena, &msg);
    if (err == CREMA_OK)
        *ret_msg = msg;
    return err;
}

crema_err_t
crema_wire_decode(const uint8_t *bytes, size_t size, crema_arena_t *arena, crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, CREMA_WIRE_VERSION_MIN, arena, ret_msg);
}

crema_err_t
crema_wire_decode_kept(const uint8_t *bytes, size_t size, crema_arena_t *arena,
                       crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, CREMA_WIRE_VERSION_KEPT_MIN, arena, ret_msg);
}
