/* Messages: each survives its own bytes, and no other bytes are taken for one. */
#include "must.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "arena_fixture.h"
#include "crema_bytes.h"
#include "message_parts.h"
#include "proto_samples.h"

static void
s_same_table(const Crema__StreamTable *table, const Crema__StreamTable *other)
{
    assert_int_equal(crema_stream_table_rows(table), crema_stream_table_rows(other));
    for (size_t i = 0; i < crema_stream_table_rows(table); i++) {
        const crema_stream_row_t a = crema_stream_table_row(table, i);
        const crema_stream_row_t b = crema_stream_table_row(other, i);
        assert_true(crema_id_equal(&a.stream_id, &b.stream_id));
        assert_true(crema_id_equal(&a.run_id, &b.run_id));
        assert_true(a.first_avail == b.first_avail);
        assert_true(a.hi == b.hi);
        assert_true(a.committed == b.committed);
        assert_true(a.recv_next == b.recv_next);
        assert_int_equal(a.flags, b.flags);
        assert_int_equal(a.user, b.user);
    }
}

static void
s_same_id(ProtobufCBinaryData a, ProtobufCBinaryData b)
{
    assert_int_equal(a.len, b.len);
    assert_true(crema_id_equal(crema_id_of(a), crema_id_of(b)));
}

static void
s_same_texts(size_t n, char *const *a, char *const *b)
{
    for (size_t i = 0; i < n; i++)
        assert_string_equal(a[i], b[i]);
}

static void
s_same_reasons(size_t n, Crema__Reason *const *a, Crema__Reason *const *b)
{
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(a[i]->code, b[i]->code);
        assert_string_equal(a[i]->subject, b[i]->subject ? b[i]->subject : "");
        assert_string_equal(a[i]->text, b[i]->text ? b[i]->text : "");
        assert_true(a[i]->count == b[i]->count);
    }
}

/* Encodes again what was decoded: equal bytes mean that nothing was lost on the way. */
static void
s_encodes_to(const crema_msg_t *msg, const uint8_t *bytes, size_t size)
{
    uint8_t *again;
    size_t again_size;
    must(crema_wire_encode(msg, &again, &again_size));
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    free(again);
}

static void
s_through(const crema_msg_t *msg, crema_msg_t *ret_back, crema_err_t want)
{
    uint8_t *bytes;
    size_t size;
    must(crema_wire_encode(msg, &bytes, &size));
    assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, ret_back), want);
    free(bytes);
}

static void
test_every_message_survives(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i);
        crema_msg_t back = {0};
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        must(crema_wire_decode(bytes, size, fixture_arena, &back));
        assert_int_equal(back.type, msg.type);
        assert_int_equal(back.flags, msg.flags);
        assert_true(back.session == msg.session);
        s_encodes_to(&back, bytes, size);
        free(bytes);
    }
}

/* The check above would miss a field that neither side writes, so the fields of the big ones are
 * looked at. */
static void
test_fields_arrive_where_they_belong(void **state)
{
    (void)state;
    crema_msg_t back = {0};
    uint8_t *bytes;
    size_t size;

    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i);
        must(crema_wire_encode(&msg, &bytes, &size));
        must(crema_wire_decode(bytes, size, fixture_arena, &back));
        switch (msg.type) {
        case CREMA_MSG_HELLO:
            s_same_id(back.hello.agent_id, msg.hello.agent_id);
            assert_int_equal(back.hello.ver_max, CREMA_WIRE_VERSION);
            assert_int_equal(back.hello.boot, 99);
            assert_int_equal(back.hello.pid, -42);
            assert_string_equal(back.hello.host, "node-1");
            assert_string_equal(back.hello.version, "0.1.0");
            s_same_table(back.hello.table, msg.hello.table);
            s_same_id(back.hello.run_id, msg.hello.run_id);
            assert_int_equal(back.hello.n_faults, 2);
            s_same_reasons(2, back.hello.faults, msg.hello.faults);
            break;
        case CREMA_MSG_DATA:
            assert_int_equal(back.data.frames.len, msg.data.frames.len);
            assert_memory_equal(back.data.frames.data, msg.data.frames.data, msg.data.frames.len);
            assert_true(back.data.hi == msg.data.hi && back.data.first_seq == 9);
            assert_int_equal(back.data.n, 2);
            assert_int_equal(back.data.flags, msg.data.flags);
            break;
        case CREMA_MSG_PUT:
            assert_int_equal(back.put.frames.len, msg.put.frames.len);
            assert_memory_equal(back.put.frames.data, msg.put.frames.data, msg.put.frames.len);
            assert_int_equal(back.put.first_seq, 9);
            assert_int_equal(back.put.n, 2);
            s_same_id(back.put.agent_id, msg.put.agent_id);
            break;
        case CREMA_MSG_HEARTBEAT:
            assert_int_equal(back.heartbeat.hb_no, 12);
            assert_int_equal(back.heartbeat.t1_mono_ns, -5);
            assert_int_equal(back.heartbeat.echo_t1_mono_ns, 10);
            assert_int_equal(back.heartbeat.echo_t4_mono_ns, 40);
            s_same_table(back.heartbeat.table, msg.heartbeat.table);
            assert_int_equal(back.heartbeat.n_faults, 2);
            s_same_reasons(2, back.heartbeat.faults, msg.heartbeat.faults);
            break;
        case CREMA_MSG_ACK:
            assert_int_equal(back.ack.t3_mono_ns, 7);
            s_same_table(back.ack.table, msg.ack.table);
            break;
        case CREMA_MSG_CLOCK:
            assert_true(back.clock.drift_ppb == -12.5);
            assert_int_equal(back.clock.offset_ns, -1500000);
            break;
        case CREMA_MSG_RUN_END:
            assert_true(back.run_end.dismiss);
            break;
        case CREMA_MSG_RUN_SEAL:
            assert_int_equal(back.run_seal.n_keys, 2);
            s_same_texts(2, back.run_seal.keys, msg.run_seal.keys);
            s_same_texts(2, back.run_seal.values, msg.run_seal.values);
            s_same_texts(2, back.run_seal.processor_prefixes, msg.run_seal.processor_prefixes);
            assert_int_equal(back.run_seal.n_reasons, 2);
            s_same_reasons(2, back.run_seal.reasons, msg.run_seal.reasons);
            break;
        case CREMA_MSG_RUN_STATE:
            assert_int_equal(back.run_state.phase, CREMA_RUN_SEALED);
            assert_int_equal(back.run_state.n_waiting_for, 2);
            s_same_texts(2, back.run_state.waiting_for, msg.run_state.waiting_for);
            assert_int_equal(back.run_state.n_reasons, 2);
            s_same_reasons(2, back.run_state.reasons, msg.run_state.reasons);
            assert_true(back.run_state.processor_s == 12.5);
            assert_true(back.run_state.overhead_s == 0.25);
            break;
        default:
            break;
        }
        free(bytes);
    }
}

/* Full of one run is another matter than full. */
static void
test_full_may_be_of_one_run(void **state)
{
    (void)state;
    for (uint8_t run = 0; run < 2; run++) {
        crema_msg_t msg = {.type = CREMA_MSG_FULL}, back = {0};
        uint8_t *bytes;
        size_t size;
        const crema_id_t run_id = {{0, 0, 0, run}};
        msg.full.run_id = crema_id_field(&run_id);
        must(crema_wire_encode(&msg, &bytes, &size));
        must(crema_wire_decode(bytes, size, fixture_arena, &back));
        assert_int_equal(crema_id_of(back.full.run_id)->bytes[3], run);
        assert_true((back.full.run_id.len == 0) == (run == 0));
        free(bytes);
    }
}

static void
test_names_are_those_of_the_protocol(void **state)
{
    (void)state;
    assert_string_equal(crema_msg_name(CREMA_MSG_HELLO), "HELLO");
    assert_string_equal(crema_msg_name(CREMA_MSG_RUN_STATE), "RUN_STATE");
    assert_string_equal(crema_msg_name((crema_msg_type_t)200), "?");
}

static void
test_a_table_may_have_4096_rows_and_no_more(void **state)
{
    (void)state;
    static crema_stream_row_t rows[CREMA_WIRE_TABLE_ROWS_MAX + 1];
    for (size_t i = 0; i <= CREMA_WIRE_TABLE_ROWS_MAX; i++)
        rows[i] = (crema_stream_row_t){
            .stream_id = sample_id(1), .hi = i, .committed = 100000, .user = (uint32_t)i};
    crema_msg_t msg = {.type = CREMA_MSG_COMMITTED,
                       .committed.table = body_table(CREMA_WIRE_TABLE_ROWS_MAX, rows)};
    crema_msg_t back;
    uint8_t *bytes;
    size_t size;
    must(crema_wire_encode(&msg, &bytes, &size));
    must(crema_wire_decode(bytes, size, fixture_arena, &back));
    s_same_table(back.committed.table, msg.committed.table);
    free(bytes);
    Crema__StreamTable *larger;
    assert_int_equal(crema_stream_table_new(CREMA_WIRE_TABLE_ROWS_MAX + 1, &larger), CREMA_ELIMIT);
    uint8_t *ids = calloc(CREMA_WIRE_TABLE_ROWS_MAX + 1, CREMA_ID_BYTES);
    msg.committed.table->stream_ids =
        (ProtobufCBinaryData){(CREMA_WIRE_TABLE_ROWS_MAX + 1) * CREMA_ID_BYTES, ids};
    msg.committed.table->n_committed = msg.committed.table->n_hi = 0;
    msg.committed.table->n_users = 0;
    must(crema_wire_encode(&msg, &bytes, &size));
    assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, &back), CREMA_EPROTO);
    free(bytes);
    free(ids);
}

static void
test_the_rows_that_are_sent_at_once_fit_whatever_their_numbers(void **state)
{
    (void)state;
    static crema_stream_row_t rows[CREMA_WIRE_TABLE_ROWS_SENT];
    for (size_t i = 0; i < CREMA_WIRE_TABLE_ROWS_SENT; i++)
        rows[i] = (crema_stream_row_t){
            .stream_id = sample_id(1),
            .run_id = sample_id(2),
            .first_avail = UINT64_MAX,
            .hi = UINT64_MAX,
            .committed = UINT64_MAX,
            .recv_next = UINT64_MAX,
            .flags = UINT32_MAX,
            .user = UINT32_MAX,
        };
    static char subject[64], text[64];
    memset(subject, 's', sizeof subject - 1);
    memset(text, 't', sizeof text - 1);
    const size_t n = CREMA_WIRE_FAULTS_MAX;
    Crema__Reason fault_rows[CREMA_WIRE_FAULTS_MAX];
    for (size_t i = 0; i < n; i++)
        fault_rows[i] = crema_reason(CREMA_FAULT_SPOOL, subject, text, UINT64_MAX);
    Crema__Reason **faults = body_reasons(n, fault_rows);
    Crema__StreamTable *table = body_table(CREMA_WIRE_TABLE_ROWS_SENT, rows);
    const crema_msg_t messages[] = {
        {.type = CREMA_MSG_OPEN, .open = {.table = table}},
        {.type = CREMA_MSG_ACK, .ack = {.table = table}},
        {.type = CREMA_MSG_HEARTBEAT,
         .heartbeat = {.table = table, .n_faults = n, .faults = faults}},
        {.type = CREMA_MSG_HELLO,
         .hello = {.host = text, .version = text, .table = table, .n_faults = n, .faults = faults}},
        {.type = CREMA_MSG_STATE, .state = {.table = table}},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&messages[i], &bytes, &size));
        free(bytes);
    }
}

static void
test_an_empty_table_is_one(void **state)
{
    (void)state;
    crema_msg_t msg = {.type = CREMA_MSG_OPEN};
    crema_msg_t back = {.open.table = body_table(1, &(crema_stream_row_t){.hi = 1})};
    uint8_t *bytes;
    size_t size;
    must(crema_wire_encode(&msg, &bytes, &size));
    assert_int_equal(size, CREMA_WIRE_HEADER_BYTES);
    must(crema_wire_decode(bytes, size, fixture_arena, &back));
    assert_int_equal(crema_stream_table_rows(back.open.table), 0);
    free(bytes);
}

static void
test_a_full_batch_fits_and_a_larger_one_does_not(void **state)
{
    (void)state;
    uint8_t *frames = calloc(1, CREMA_WIRE_BATCH_MAX + 1);
    crema_msg_t msg = sample_message(1);
    crema_msg_t back;
    uint8_t *bytes;
    size_t size;
    msg.data.frames = (ProtobufCBinaryData){CREMA_WIRE_BATCH_MAX, frames};
    must(crema_wire_encode(&msg, &bytes, &size));
    must(crema_wire_decode(bytes, size, fixture_arena, &back));
    assert_int_equal(back.data.frames.len, CREMA_WIRE_BATCH_MAX);
    free(bytes);
    msg.data.frames.len++;
    assert_int_equal(crema_wire_encode(&msg, &bytes, &size), CREMA_ELIMIT);
    free(frames);
}

static void
test_a_message_over_the_limit_is_not_made(void **state)
{
    (void)state;
    char *text = malloc(CREMA_WIRE_MESSAGE_MAX + 1);
    memset(text, 'x', CREMA_WIRE_MESSAGE_MAX);
    text[CREMA_WIRE_MESSAGE_MAX] = '\0';
    crema_msg_t msg = {.type = CREMA_MSG_SEALED,
                       .sealed = {.run_id = body_id(sample_id(1)), .path = text}};
    uint8_t *bytes = NULL;
    size_t size = 5;
    assert_int_equal(crema_wire_encode(&msg, &bytes, &size), CREMA_ELIMIT);
    assert_null(bytes);
    assert_int_equal(size, 5);
    free(text);
}

/* What is wrong with an envelope, and what is said about it. */
static void
test_a_bad_envelope_is_named(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t xor ;
        crema_err_t want;
    } steps[] = {
        {0, 1, CREMA_EMAGIC}, {3, 0x80, CREMA_EMAGIC}, {4, 8, CREMA_EVERSION}, {5, 1, CREMA_ECRC},
        {6, 1, CREMA_ECRC},   {8, 1, CREMA_EPROTO},    {11, 1, CREMA_EPROTO},  {12, 1, CREMA_ECRC},
        {16, 1, CREMA_ECRC},  {23, 1, CREMA_ECRC},     {24, 1, CREMA_ECRC},
    };
    crema_msg_t msg = sample_message(0);
    crema_msg_t back = {0};
    uint8_t *bytes;
    size_t size;
    must(crema_wire_encode(&msg, &bytes, &size));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bytes[steps[i].at] ^= steps[i].xor ;
        assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, &back), steps[i].want);
        bytes[steps[i].at] ^= steps[i].xor ;
    }
    bytes[4] = CREMA_WIRE_VERSION_MIN - 1;
    assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, &back), CREMA_EVERSION);
    bytes[4] = 9;
    assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, &back), CREMA_EVERSION);
    assert_int_equal(back.type, CREMA_MSG_HELLO);
    free(bytes);
}

/* An envelope with a right checksum around a body of our own. */
static crema_err_t
s_decode_body(crema_msg_type_t type, const char *body, size_t len, crema_msg_t *ret)
{
    uint8_t bytes[4096] = {0};
    memcpy(bytes + CREMA_WIRE_HEADER_BYTES, body, len);
    crema_put_u32(bytes, CREMA_WIRE_MAGIC);
    bytes[4] = CREMA_WIRE_VERSION;
    bytes[5] = (uint8_t)type;
    crema_put_u32(bytes + 8, (uint32_t)len);
    uLong crc = crc32(crc32(0, bytes, 12), bytes + 16, (uInt)(8 + len));
    crema_put_u32(bytes + 12, (uint32_t)crc);
    return crema_wire_decode(bytes, CREMA_WIRE_HEADER_BYTES + len, fixture_arena, ret);
}

#define ID16                                                                                       \
    "\x10"                                                                                         \
    "0123456789abcdef"

static void
test_bodies_that_break_a_rule_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        crema_msg_type_t type;
        const char *body;
        size_t len;
        crema_err_t want;
    } steps[] = {
#define BODY(text) text, sizeof text - 1
        {"a query with an id", CREMA_MSG_RUN_QUERY, BODY("\x0a" ID16), CREMA_OK},
        {"a query with a key", CREMA_MSG_RUN_QUERY,
         BODY("\x0a" ID16 "\x12\x20"
              "0123456789abcdef0123456789abcdef"),
         CREMA_OK},
        {"a key of 31", CREMA_MSG_RUN_QUERY,
         BODY("\x0a" ID16 "\x12\x1f"
              "0123456789abcdef0123456789abcde"),
         CREMA_EPROTO},
        {"no id", CREMA_MSG_RUN_QUERY, BODY(""), CREMA_EPROTO},
        {"an id of 15", CREMA_MSG_RUN_QUERY,
         BODY("\x0a\x0f"
              "0123456789abcde"),
         CREMA_EPROTO},
        {"a zero id", CREMA_MSG_RUN_QUERY, BODY("\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
         CREMA_EPROTO},
        {"no type", (crema_msg_type_t)15, BODY(""), CREMA_EPROTO},
        {"not protobuf", CREMA_MSG_RUN_QUERY, BODY("\xff\xff\xff"), CREMA_EPROTO},
        {"a length beyond the end", CREMA_MSG_RUN_QUERY,
         BODY("\x0a\x7f"
              "01"),
         CREMA_EPROTO},
        {"an open table", CREMA_MSG_OPEN, BODY("\x0a\x12\x0a" ID16), CREMA_OK},
        {"17 bytes of ids", CREMA_MSG_OPEN,
         BODY("\x0a\x13\x0a\x11"
              "0123456789abcdefX"),
         CREMA_EPROTO},
        {"one hi for one stream", CREMA_MSG_OPEN, BODY("\x0a\x15\x0a" ID16 "\x22\x01\x05"),
         CREMA_OK},
        {"two hi for one stream", CREMA_MSG_OPEN, BODY("\x0a\x16\x0a" ID16 "\x22\x02\x05\x06"),
         CREMA_EPROTO},
        {"hi without streams", CREMA_MSG_OPEN, BODY("\x0a\x03\x22\x01\x05"), CREMA_EPROTO},
        {"replay from 0", CREMA_MSG_REPLAY, BODY("\x0a" ID16), CREMA_EPROTO},
        {"replay from 1", CREMA_MSG_REPLAY, BODY("\x0a" ID16 "\x10\x01"), CREMA_OK},
        {"keys without values", CREMA_MSG_RUN_OPEN, BODY("\x0a" ID16 "\x1a\x01k"), CREMA_EPROTO},
        {"keys and values", CREMA_MSG_RUN_OPEN, BODY("\x0a" ID16 "\x1a\x01k\x22\x01v"), CREMA_OK},
        {"text not UTF-8", CREMA_MSG_RUN_OPEN, BODY("\x0a" ID16 "\x1a\x01\xff\x22\x01v"),
         CREMA_EPROTO},
        {"prefix not UTF-8", CREMA_MSG_RUN_OPEN, BODY("\x0a" ID16 "\x2a\x02\xc3("), CREMA_EPROTO},
        {"reason not UTF-8", CREMA_MSG_SEALED, BODY("\x0a" ID16 "\x2a\x03\x0a\x01\x80"),
         CREMA_EPROTO},
        {"data without frames", CREMA_MSG_DATA, BODY("\x0a" ID16 "\x12" ID16 "\x18\x01\x20\x01"),
         CREMA_EPROTO},
        {"data with an unknown field", CREMA_MSG_FULL, BODY("\xa2\x06\x01x"), CREMA_OK},
#undef BODY
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        crema_msg_t back = {.flags = 0xbeef};
        crema_err_t err = s_decode_body(steps[i].type, steps[i].body, steps[i].len, &back);
        if (err != steps[i].want)
            fail_msg("%s: %s", steps[i].what, crema_err_text(err));
        if (err != CREMA_OK)
            assert_int_equal(back.flags, 0xbeef); /* untouched */
    }
}

static bool
s_may_lack(crema_msg_type_t type, const char *name)
{
    bool is_run = strcmp(name, "run_id") == 0;
    return strcmp(name, "owner") == 0 || strcmp(name, "agent_key") == 0 ||
           (type == CREMA_MSG_PUT && strcmp(name, "agent_id") == 0) ||
           (is_run && (type == CREMA_MSG_HELLO || type == CREMA_MSG_BARRIER ||
                       type == CREMA_MSG_FENCE || type == CREMA_MSG_FULL));
}

/* Each id in turn is left out of the sample of its type, is zero, and is a byte too short. */
static void
test_ids_are_there_where_they_must_be(void **state)
{
    (void)state;
    static uint8_t zeros[CREMA_WIRE_KEY_BYTES];
    unsigned needed = 0, optional = 0;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t whole, msg = sample_message(i);
        s_through(&msg, &whole, CREMA_OK);
        const ProtobufCMessageDescriptor *descriptor = whole.base.descriptor;
        for (unsigned k = 0; k < descriptor->n_fields; k++) {
            const ProtobufCFieldDescriptor *field = &descriptor->fields[k];
            if (field->type != PROTOBUF_C_TYPE_BYTES || strcmp(field->name, "frames") == 0)
                continue;
            msg = sample_message(i);
            ProtobufCBinaryData *id = (ProtobufCBinaryData *)((uint8_t *)&msg + field->offset);
            bool may_lack = s_may_lack(msg.type, field->name);
            size_t size = strcmp(field->name, "agent_key") == 0 ? sizeof zeros : CREMA_ID_BYTES;
            crema_err_t want = may_lack ? CREMA_OK : CREMA_EPROTO;
            crema_msg_t back;
            *id = (ProtobufCBinaryData){0, NULL};
            s_through(&msg, &back, want);
            *id = (ProtobufCBinaryData){size, zeros};
            s_through(&msg, &back, want);
            if (may_lack) /* so that nobody takes it for one */
                assert_int_equal(((ProtobufCBinaryData *)((uint8_t *)&back + field->offset))->len,
                                 0);
            *id = (ProtobufCBinaryData){size - 1, zeros};
            s_through(&msg, &back, CREMA_EPROTO);
            needed += !may_lack;
            optional += may_lack;
        }
    }
    assert_int_equal(needed, 17);
    assert_int_equal(optional, 11);
}

/* A field that only a newer peer knows, in a row too, ends here. */
static void
test_unknown_fields_are_not_passed_on(void **state)
{
    (void)state;
    crema_msg_t back;
    uint8_t *bytes;
    size_t size;
    static const char body[] = "\x0a" ID16 "\x2a\x07\x0a\x01r\xa2\x06\x01x\xa2\x06\x01x";
    must(s_decode_body(CREMA_MSG_SEALED, body, sizeof body - 1, &back));
    assert_string_equal(back.sealed.reasons[0]->code, "r");
    must(crema_wire_encode(&back, &bytes, &size));
    assert_int_equal(size, CREMA_WIRE_HEADER_BYTES + sizeof body - 1 - 8);
    free(bytes);
}

static void
test_numbers_of_data_must_not_wrap(void **state)
{
    (void)state;
    crema_msg_t msg = sample_message(1);
    crema_msg_t back;
    uint8_t *bytes;
    size_t size;
    const struct {
        uint64_t first;
        uint32_t n;
        crema_err_t want;
    } steps[] = {
        {1, 1, CREMA_OK},
        {1, 2, CREMA_OK},
        {1, 3, CREMA_EPROTO}, /* 80 bytes hold two headers at most */
        {0, 1, CREMA_EPROTO},
        {1, 0, CREMA_EPROTO},
        {UINT64_MAX - 2, 2, CREMA_OK},
        {UINT64_MAX - 1, 2, CREMA_EPROTO},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        msg.data.first_seq = steps[i].first;
        msg.data.n = steps[i].n;
        must(crema_wire_encode(&msg, &bytes, &size));
        assert_int_equal(crema_wire_decode(bytes, size, fixture_arena, &back), steps[i].want);
        free(bytes);
    }
}

/* 100,000 empty reasons are 200 kB on the wire and would be 20 MB as structs. */
static void
test_a_bomb_is_refused(void **state)
{
    (void)state;
    enum { REASONS = 100000, BODY = 18 + 2 * REASONS };
    uint8_t *bytes = calloc(1, CREMA_WIRE_HEADER_BYTES + BODY);
    uint8_t *body = bytes + CREMA_WIRE_HEADER_BYTES;
    memcpy(body, "\x0a" ID16, 18);
    for (size_t i = 0; i < REASONS; i++)
        body[18 + 2 * i] = 0x2a;
    crema_put_u32(bytes, CREMA_WIRE_MAGIC);
    bytes[4] = CREMA_WIRE_VERSION;
    bytes[5] = CREMA_MSG_SEALED;
    crema_put_u32(bytes + 8, BODY);
    crema_put_u32(bytes + 12, (uint32_t)crc32(crc32(0, bytes, 12), bytes + 16, 8 + BODY));
    crema_msg_t back;
    assert_int_equal(crema_wire_decode(bytes, CREMA_WIRE_HEADER_BYTES + BODY, fixture_arena, &back),
                     CREMA_ELIMIT);
    assert_true(crema_arena_used(fixture_arena) <= CREMA_WIRE_ARENA_BYTES);
    free(bytes);
}

static void
test_a_number_that_is_no_type_is_not_encoded(void **state)
{
    (void)state;
    crema_msg_t msg = {.type = (crema_msg_type_t)5};
    uint8_t *bytes = NULL;
    size_t size;
    assert_int_equal(crema_wire_encode(&msg, &bytes, &size), CREMA_EINVAL);
    assert_null(bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_survives),
        cmocka_unit_test(test_fields_arrive_where_they_belong),
        cmocka_unit_test(test_full_may_be_of_one_run),
        cmocka_unit_test(test_names_are_those_of_the_protocol),
        cmocka_unit_test(test_a_table_may_have_4096_rows_and_no_more),
        cmocka_unit_test(test_the_rows_that_are_sent_at_once_fit_whatever_their_numbers),
        cmocka_unit_test(test_an_empty_table_is_one),
        cmocka_unit_test(test_a_full_batch_fits_and_a_larger_one_does_not),
        cmocka_unit_test(test_a_message_over_the_limit_is_not_made),
        cmocka_unit_test(test_a_bad_envelope_is_named),
        cmocka_unit_test(test_bodies_that_break_a_rule_are_refused),
        cmocka_unit_test(test_ids_are_there_where_they_must_be),
        cmocka_unit_test(test_unknown_fields_are_not_passed_on),
        cmocka_unit_test(test_numbers_of_data_must_not_wrap),
        cmocka_unit_test(test_a_bomb_is_refused),
        cmocka_unit_test(test_a_number_that_is_no_type_is_not_encoded),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
