/* Records: each survives its own bytes, rows come out of batches as the file wants them. */
#include "must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena_fixture.h"
#include "message_parts.h"
#include "proto_samples.h"

static void
test_every_record_survives(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_RECORDS; i++) {
        const char *name;
        crema_record_t record = sample_record(i, &name), back;
        uint8_t bytes[1024], again[1024];
        size_t size, again_size;
        crema_frame_t frame;
        must(crema_record_encode(&record, SAMPLE_SEQ, SAMPLE_T_NS, bytes, sizeof bytes, &size));
        must(crema_frame_decode(bytes, size, &frame));
        assert_true(frame.seq == SAMPLE_SEQ && frame.t_ns == SAMPLE_T_NS);
        must(crema_record_decode(&frame, fixture_arena, &back));
        assert_int_equal(back.type, record.type);
        must(crema_record_encode(&back, SAMPLE_SEQ, SAMPLE_T_NS, again, sizeof again, &again_size));
        assert_int_equal(again_size, size);
        assert_memory_equal(again, bytes, size);
    }
}

static crema_record_t
s_through(const crema_record_t *record, uint64_t seq)
{
    static uint8_t bytes[CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX];
    size_t size;
    crema_frame_t frame;
    crema_record_t back;
    must(crema_record_encode(record, seq, 1, bytes, sizeof bytes, &size));
    must(crema_frame_decode(bytes, size, &frame));
    must(crema_record_decode(&frame, fixture_arena, &back));
    return back;
}

static void
test_fields_of_the_first_record(void **state)
{
    (void)state;
    const char *name;
    crema_record_t record = sample_record(0, &name);
    Crema__StreamInfo info = s_through(&record, 1).stream;
    assert_true(crema_id_equal(crema_id_of(info.run_id), crema_id_of(record.stream.run_id)));
    assert_true(crema_id_equal(crema_id_of(info.agent_id), crema_id_of(record.stream.agent_id)));
    assert_int_equal(info.kind, CREMA_STREAM_AGENT);
    assert_int_equal(info.pid, 4711);
    assert_int_equal(info.memory_limit_b, -1);
    assert_string_equal(info.worker_name, "node-1:4711");
    assert_int_equal(info.n_attribute_keys, 2);
    assert_string_equal(info.attribute_keys[1], "user");
    assert_string_equal(info.attribute_values[0], "Mü");
}

static void
test_fields_of_a_dictionary(void **state)
{
    (void)state;
    const char *name;
    crema_record_t record = sample_record(1, &name);
    crema_record_t back = s_through(&record, 2);
    assert_int_equal(back.dict.n_entries, 2);
    assert_string_equal(back.dict.entries[0]->uuid, "Worker-4f1c");
    assert_int_equal(back.dict.entries[0]->pid, -1);
    assert_int_equal(back.dict.entries[0]->nthreads, 4);
    assert_int_equal(back.dict.entries[1]->kind, CREMA_DICT_FILE);
    assert_int_equal(back.dict.entries[1]->id, 3);
    assert_int_equal(back.dict.entries[1]->parent, 1);
    assert_int_equal(back.dict.entries[1]->size_b, -1);
    assert_string_equal(back.dict.entries[1]->text, "root://eos/é.root");
}

static void
test_end_and_loss(void **state)
{
    (void)state;
    const char *name;
    crema_record_t end = sample_record(4, &name), loss = sample_record(5, &name);
    Crema__End end_back = s_through(&end, 2).end;
    assert_int_equal(end_back.reason, CREMA_END_WRITER_GONE);
    assert_int_equal(end_back.torn_bytes, 17);
    assert_int_equal(end_back.dropped, 3);
    Crema__Loss loss_back = s_through(&loss, SAMPLE_SEQ).loss;
    assert_int_equal(loss_back.first, 5);
    assert_int_equal(loss_back.last, SAMPLE_SEQ);
    assert_int_equal(loss_back.reason, CREMA_LOSS_CORRUPT);
    assert_int_equal(loss_back.bytes, 400);
}

/* 10,000 short distinct names as they come, in as few full records as hold them: none may be
 * refused. */
static void
test_a_full_record_of_the_shortest_names_passes(void **state)
{
    (void)state;
    enum { NAMES = 5000 };
    static char texts[NAMES][8];
    static Crema__DictEntry entries[NAMES];
    for (size_t i = 0; i < NAMES; i++) {
        for (size_t k = 0, left = i; k < 3; k++, left /= 26)
            texts[i][k] = (char)('a' + left % 26);
        entries[i] = (Crema__DictEntry){.kind = CREMA_DICT_SECTION, .id = (uint32_t)i};
        entries[i].text = texts[i];
    }
    crema_record_t record = {.type = CREMA_RECORD_DICT,
                             .dict = {.n_entries = NAMES, .entries = body_entries(NAMES, entries)}};
    crema_record_t back = s_through(&record, 2);
    assert_int_equal(back.dict.n_entries, NAMES);
    assert_string_equal(back.dict.entries[NAMES - 1]->text, texts[NAMES - 1]);
}

static crema_err_t
s_decode(crema_record_type_t type, const char *body, size_t len)
{
    crema_frame_t frame = {.seq = 7, .type = (uint16_t)type, .len = (uint32_t)len};
    frame.body = (const uint8_t *)body;
    crema_record_t back;
    return crema_record_decode(&frame, fixture_arena, &back);
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
        crema_record_type_t type;
        const char *body;
        size_t len;
        crema_err_t want;
    } steps[] = {
#define BODY(text) text, sizeof text - 1
        {"a stream", CREMA_RECORD_STREAM, BODY("\x0a" ID16), CREMA_OK},
        {"a stream of no run", CREMA_RECORD_STREAM, BODY(""), CREMA_EPROTO},
        {"a run id of 3", CREMA_RECORD_STREAM,
         BODY("\x0a\x03"
              "abc"),
         CREMA_EPROTO},
        {"an unknown writer", CREMA_RECORD_STREAM, BODY("\x0a" ID16 "\x10\x04"), CREMA_EPROTO},
        {"host not UTF-8", CREMA_RECORD_STREAM, BODY("\x0a" ID16 "\x1a\x01\xff"), CREMA_EPROTO},
        {"a key without value", CREMA_RECORD_STREAM, BODY("\x0a" ID16 "\x62\x01k"), CREMA_EPROTO},
        {"no entry", CREMA_RECORD_DICT, BODY(""), CREMA_OK},
        {"an entry", CREMA_RECORD_DICT, BODY("\x0a\x03\x1a\x01x"), CREMA_OK},
        {"a name not UTF-8", CREMA_RECORD_DICT, BODY("\x0a\x03\x1a\x01\xe9"), CREMA_EPROTO},
        {"an unknown dictionary", CREMA_RECORD_DICT, BODY("\x0a\x02\x08\x63"), CREMA_OK},
        {"one row, one column", CREMA_RECORD_BATCH, BODY("\x10\x01\x1a\x01\x02"), CREMA_OK},
        {"no row", CREMA_RECORD_BATCH, BODY(""), CREMA_EPROTO},
        {"4,096 rows and no column", CREMA_RECORD_BATCH, BODY("\x10\x80\x20"), CREMA_EPROTO},
        {"no row, one value", CREMA_RECORD_BATCH, BODY("\x1a\x01\x02"), CREMA_EPROTO},
        {"two rows, three values", CREMA_RECORD_BATCH, BODY("\x10\x02\x1a\x03\x02\x02\x02"),
         CREMA_EPROTO},
        {"two rows, one real", CREMA_RECORD_BATCH, BODY("\x10\x02\x22\x08\0\0\0\0\0\0\0\0"),
         CREMA_EPROTO},
        {"fixed integers", CREMA_RECORD_BATCH, BODY("\x10\x01\x32\x08\x02\0\0\0\0\0\0\0"),
         CREMA_OK},
        {"two rows, one fixed integer", CREMA_RECORD_BATCH,
         BODY("\x10\x02\x32\x08\x02\0\0\0\0\0\0\0"), CREMA_EPROTO},
        {"half a fixed integer", CREMA_RECORD_BATCH, BODY("\x10\x01\x32\x04\x02\0\0\0"),
         CREMA_EPROTO},
        {"integers twice", CREMA_RECORD_BATCH,
         BODY("\x10\x01\x1a\x01\x02\x32\x08\x02\0\0\0\0\0\0\0"), CREMA_EPROTO},
        {"a table that never travels", CREMA_RECORD_BATCH, BODY("\x08\x09\x10\x01"), CREMA_EPROTO},
        {"no such table", CREMA_RECORD_BATCH, BODY("\x08\x7f\x10\x01"), CREMA_EPROTO},
        {"4097 rows", CREMA_RECORD_BATCH, BODY("\x10\x81\x20"), CREMA_ELIMIT},
        {"an end", CREMA_RECORD_END, BODY(""), CREMA_OK},
        {"a loss", CREMA_RECORD_LOSS, BODY("\x08\x05\x10\x07"), CREMA_OK},
        {"a loss from 0", CREMA_RECORD_LOSS, BODY("\x10\x07"), CREMA_EPROTO},
        {"a loss backwards", CREMA_RECORD_LOSS, BODY("\x08\x08\x10\x07"), CREMA_EPROTO},
        {"a loss in another's place", CREMA_RECORD_LOSS, BODY("\x08\x05\x10\x06"), CREMA_EPROTO},
        {"no such type", (crema_record_type_t)6, BODY(""), CREMA_EPROTO},
        {"a journal's type", (crema_record_type_t)66, BODY(""), CREMA_EPROTO},
        {"not protobuf", CREMA_RECORD_END, BODY("\xff"), CREMA_EPROTO},
        {"a group", CREMA_RECORD_END, BODY("\x0b\x0b\x0b\x0c\x0c\x0c"), CREMA_EPROTO},
#undef BODY
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        crema_err_t err = s_decode(steps[i].type, steps[i].body, steps[i].len);
        if (err != steps[i].want)
            fail_msg("%s: %s", steps[i].what, crema_err_text(err));
    }
}

static void
test_a_bomb_is_refused(void **state)
{
    (void)state;
    static char body[CREMA_RECORD_BODY_MAX + 1]; /* 32,768 empty entries: 7 MB as structs */
    for (size_t i = 0; i < sizeof body; i += 2)
        body[i] = 0x0a;
    assert_int_equal(s_decode(CREMA_RECORD_DICT, body, CREMA_RECORD_BODY_MAX), CREMA_ELIMIT);
    assert_int_equal(s_decode(CREMA_RECORD_END, body, CREMA_RECORD_BODY_MAX + 1), CREMA_ELIMIT);
}

static void
test_a_record_that_does_not_fit_is_not_made(void **state)
{
    (void)state;
    const char *name;
    uint8_t bytes[1024];
    size_t size;
    for (size_t i = 0; i < SAMPLE_RECORDS; i++) {
        crema_record_t record = sample_record(i, &name);
        must(crema_record_encode(&record, 7, 1, bytes, sizeof bytes, &size));
        size_t whole = size;
        size = 12345;
        assert_int_equal(crema_record_encode(&record, 7, 1, bytes, whole - 1, &size), CREMA_ELIMIT);
        assert_int_equal(crema_record_encode(&record, 7, 1, bytes, 0, &size), CREMA_ELIMIT);
        assert_int_equal(size, 12345);
        must(crema_record_encode(&record, 7, 1, bytes, whole, &size));
    }
    static double reals[CREMA_BATCH_ROWS_MAX];
    crema_record_t record = {.type = CREMA_RECORD_BATCH};
    record.batch = (crema_batch_t){.table = crema_table(CREMA_TABLE_HEARTBEATS),
                                   .rows = CREMA_BATCH_ROWS_MAX + 1,
                                   .reals = reals};
    assert_int_equal(crema_record_encode(&record, 7, 1, bytes, sizeof bytes, &size), CREMA_ELIMIT);
    record.batch.rows = 1;
    record.batch.n_real_columns = 3;
    assert_int_equal(crema_record_encode(&record, 7, 1, bytes, sizeof bytes, &size), CREMA_EINVAL);
    record.batch.n_real_columns = 1;
    record.batch.table = crema_table(CREMA_TABLE_GAPS);
    assert_int_equal(crema_record_encode(&record, 7, 1, bytes, sizeof bytes, &size), CREMA_EINVAL);
}

/* A run's worker ids are 100 more than this stream's. */
static uint32_t
s_map(void *context, crema_dict_t kind, int64_t local_id)
{
    *(crema_dict_t *)context = kind;
    return (uint32_t)local_id + 100;
}

static void
test_a_row_of_a_batch(void **state)
{
    (void)state;
    const char *name;
    crema_record_t record = sample_record(2, &name);
    crema_batch_t batch = s_through(&record, 2).batch;
    const crema_table_t *table = batch.table;
    uint8_t row[256];
    crema_dict_t kind = CREMA_DICT_COUNT;
    assert_true(crema_table_row_bytes(table) <= sizeof row);
    crema_row_clear(table, row);
    crema_batch_rows(&batch, 1, 1, s_map, &kind, row);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "t_ns")),
                     2000);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "sent")), 6);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "dropped")),
                     -1);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "backlog")),
                     4);
    assert_true(crema_row_get_f64(table, row, (size_t)crema_table_column(table, "interval_s")) ==
                1);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "worker_id")),
                     100);
    assert_int_equal(kind, CREMA_DICT_WORKER);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "stream_id")),
                     UINT32_MAX);
    assert_int_equal(crema_batch_int(&batch, 0, 1, -7), 5);
    assert_true(crema_batch_real(&batch, 0, 4, -7) == 0.5);
    assert_int_equal(crema_batch_int(&batch, 0, (size_t)crema_table_column(table, "seq"), -7), -7);
}

/* Only t_ns and sent, as a writer from before the other columns would send. */
static void
test_an_older_writer_leaves_unknowns(void **state)
{
    (void)state;
    const char *name;
    crema_record_t record = sample_record(2, &name);
    record.batch.n_int_columns = 2;
    record.batch.n_real_columns = 0;
    crema_batch_t batch = s_through(&record, 2).batch;
    const crema_table_t *table = batch.table;
    uint8_t row[256];
    crema_dict_t kind = CREMA_DICT_COUNT;
    assert_int_equal(batch.n_int_columns, 2);
    crema_row_clear(batch.table, row);
    crema_batch_rows(&batch, 0, 1, s_map, &kind, row);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "sent")), 5);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "backlog")),
                     -1);
    assert_int_equal(crema_row_get_i64(table, row, (size_t)crema_table_column(table, "worker_id")),
                     UINT32_MAX);
    assert_int_equal(kind, CREMA_DICT_COUNT); /* nothing was mapped */
    assert_true(
        isnan(crema_row_get_f64(table, row, (size_t)crema_table_column(table, "interval_s"))));
    assert_int_equal(crema_batch_int(&batch, 0, 3, -7), -7);
    assert_true(crema_batch_real(&batch, 0, 4, -7) == -7);
}

/* Eight integer columns where this build knows six. */
static void
test_a_newer_writer_is_understood(void **state)
{
    (void)state;
    assert_int_equal(s_decode(CREMA_RECORD_BATCH,
                              "\x08\x04\x10\x01\x1a\x08\x02\x04\x06\x08\x0a\x0c\x0e\x10", 14),
                     CREMA_OK);
    crema_frame_t frame = {.seq = 7, .type = CREMA_RECORD_BATCH, .len = 14};
    frame.body = (const uint8_t *)"\x08\x04\x10\x01\x1a\x08\x02\x04\x06\x08\x0a\x0c\x0e\x10";
    crema_record_t back;
    must(crema_record_decode(&frame, fixture_arena, &back));
    assert_int_equal(back.batch.n_int_columns, 6);
    assert_int_equal(crema_batch_int(&back.batch, 0, 1, -7), 2);
}

/* Fixed integers are the same numbers as the others. */
static void
test_fixed_integers(void **state)
{
    (void)state;
    crema_frame_t frame = {.seq = 7, .type = CREMA_RECORD_BATCH, .len = 22};
    frame.body = (const uint8_t *)"\x08\x04\x10\x01\x32\x10\x00\xca\x9a\x3b\0\0\0\0"
                                  "\xff\xff\xff\xff\xff\xff\xff\xff";
    crema_record_t back;
    must(crema_record_decode(&frame, fixture_arena, &back));
    assert_int_equal(back.batch.n_int_columns, 2);
    assert_int_equal(crema_batch_int(&back.batch, 0, 0, -7), 1000000000);
    assert_int_equal(crema_batch_int(&back.batch, 0, 1, -7), -1);
}

/* A batch of one row of a heartbeat with these integers: as writers send it, and with an unknown
 * field behind it, which protobuf-c reads. */
static void
must_decode_both_ways(const uint8_t *ints, size_t size, crema_err_t want, int64_t first)
{
    uint8_t body[64] = "\x08\x04\x10\x01\x1a";
    body[5] = (uint8_t)size;
    memcpy(body + 6, ints, size);
    memcpy(body + 6 + size, "\x7a", 2);
    for (int way = 0; way < 2; way++) {
        const crema_frame_t frame = {.seq = 7,
                                     .type = CREMA_RECORD_BATCH,
                                     .len = (uint32_t)(6 + size) + (way ? 2 : 0),
                                     .body = body};
        crema_record_t back;
        assert_int_equal(crema_record_decode(&frame, fixture_arena, &back), want);
        if (want == CREMA_OK)
            assert_int_equal(crema_batch_int(&back.batch, 0, 0, -7), first);
    }
}

static void
test_integers_of_every_length(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 64; bits++) {
        for (unsigned more = 0; more <= 12; more += 4) { /* small ones behind it */
            const uint64_t value = UINT64_C(0xb5a3c7e91d2f4685) >> bits;
            uint8_t ints[24] = {0};
            size_t n = 0;
            for (uint64_t left = value; left > 0 || n == 0; left >>= 7)
                ints[n++] = (uint8_t)(left & 0x7f) | (left >= 0x80 ? 0x80 : 0);
            must_decode_both_ways(ints, n + more, CREMA_OK, (int64_t)(value >> 1 ^ -(value & 1)));
        }
    }
}

static void
test_damaged_integers(void **state)
{
    (void)state;
    uint8_t endless[12];
    memset(endless, 0xff, sizeof endless);
    for (size_t n = 1; n <= sizeof endless; n++)
        must_decode_both_ways(endless, n, CREMA_EPROTO, 0);
    endless[9] = 0x7f; /* of its bits, one counts */
    must_decode_both_ways(endless, 10, CREMA_OK, INT64_MIN);
}

static void
test_an_id_that_says_none_is_not_mapped(void **state)
{
    (void)state;
    const int64_t ints[] = {1, 2, 3, 4, -1};
    const double reals[] = {1};
    crema_batch_t batch = {.table = crema_table(CREMA_TABLE_HEARTBEATS),
                           .rows = 1,
                           .n_int_columns = 5,
                           .n_real_columns = 1,
                           .ints = ints,
                           .reals = reals};
    uint8_t row[256];
    crema_dict_t kind = CREMA_DICT_COUNT;
    crema_row_clear(batch.table, row);
    crema_batch_rows(&batch, 0, 1, s_map, &kind, row);
    assert_int_equal(kind, CREMA_DICT_COUNT);
    assert_int_equal(
        crema_row_get_i64(batch.table, row, (size_t)crema_table_column(batch.table, "worker_id")),
        UINT32_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_record_survives),
        cmocka_unit_test(test_fields_of_the_first_record),
        cmocka_unit_test(test_fields_of_a_dictionary),
        cmocka_unit_test(test_end_and_loss),
        cmocka_unit_test(test_a_full_record_of_the_shortest_names_passes),
        cmocka_unit_test(test_bodies_that_break_a_rule_are_refused),
        cmocka_unit_test(test_a_bomb_is_refused),
        cmocka_unit_test(test_a_record_that_does_not_fit_is_not_made),
        cmocka_unit_test(test_a_row_of_a_batch),
        cmocka_unit_test(test_an_older_writer_leaves_unknowns),
        cmocka_unit_test(test_a_newer_writer_is_understood),
        cmocka_unit_test(test_fixed_integers),
        cmocka_unit_test(test_integers_of_every_length),
        cmocka_unit_test(test_damaged_integers),
        cmocka_unit_test(test_an_id_that_says_none_is_not_mapped),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
