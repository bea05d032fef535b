/* Old bytes stay readable: tests/golden/ holds the bytes of every sample, as hex, and the columns
 * of the file.
 *
 * CREMA_GOLDEN=write makes the files anew. That is right after something was added; a file that
 * *changes* means that agents, spools, journals or run files from before can no longer be
 * understood, and needs a new version number instead. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena_fixture.h"
#include "crema_columns_doc.h"
#include "proto_samples.h"
#include "table_by_path.h"

static FILE *
s_open(const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s", CREMA_TESTS_DIR, name);
    FILE *file = fopen(path, mode);
    if (!file)
        fail_msg("%s cannot be opened", path);
    return file;
}

static bool
s_shall_write(void)
{
    const char *word = getenv("CREMA_GOLDEN");
    return word && strcmp(word, "write") == 0;
}

static void
s_write_hex(const char *name, const uint8_t *bytes, size_t size)
{
    FILE *file = s_open(name, "w");
    for (size_t i = 0; i < size; i++)
        fprintf(file, "%02x%s", bytes[i], i % 32 == 31 || i + 1 == size ? "\n" : "");
    assert_int_equal(fclose(file), 0);
}

static size_t
s_read_hex(const char *name, uint8_t *ret_bytes, size_t max)
{
    FILE *file = s_open(name, "r");
    unsigned byte;
    size_t size = 0;
    while (size < max && fscanf(file, "%2x", &byte) == 1)
        ret_bytes[size++] = (uint8_t)byte;
    fclose(file);
    return size;
}

static void
test_messages(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i), back;
        char name[64];
        uint8_t *bytes, *again, golden[4096];
        size_t size, again_size;
        snprintf(name, sizeof name, "message_%s.hex", crema_msg_name(msg.type));
        must(crema_wire_encode(&msg, &bytes, &size));
        if (s_shall_write())
            s_write_hex(name, bytes, size);
        size_t golden_size = s_read_hex(name, golden, sizeof golden);
        must(crema_wire_decode(golden, golden_size, fixture_arena, &back));
        must(crema_wire_encode(&back, &again, &again_size));
        assert_int_equal(again_size, size);
        assert_memory_equal(again, bytes, size);
        assert_int_equal(golden_size, size);
        assert_memory_equal(golden, bytes, size);
        free(bytes);
        free(again);
    }
}

/* What a journal holds, envelope and all. The files of an earlier version, which a peer may no
 * longer speak, would be beside these. */
static void
test_kept_messages(void **state)
{
    (void)state;
    size_t kept = 0;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i), back;
        if (msg.type != CREMA_MSG_RUN_OPEN && msg.type != CREMA_MSG_RUN_END &&
            msg.type != CREMA_MSG_RUN_SEAL && msg.type != CREMA_MSG_RUN_WRITERS &&
            msg.type != CREMA_MSG_CLOCK)
            continue;
        char name[64];
        uint8_t golden[4096], *again;
        size_t again_size;
        snprintf(name, sizeof name, "message_%s.hex", crema_msg_name(msg.type));
        size_t size = s_read_hex(name, golden, sizeof golden);
        must(crema_wire_decode_kept(golden, size, fixture_arena, &back));
        must(crema_wire_encode(&back, &again, &again_size));
        assert_int_equal(again_size, size);
        assert_memory_equal(again, golden, size);
        free(again);
        golden[4] = CREMA_WIRE_VERSION_KEPT_MIN - 1;
        assert_int_equal(crema_wire_decode_kept(golden, size, fixture_arena, &back),
                         CREMA_EVERSION);
        kept++;
    }
    assert_int_equal(kept, 5);
}

static void
test_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_RECORDS; i++) {
        const char *sample_name;
        crema_record_t record = sample_record(i, &sample_name), back;
        char name[64];
        uint8_t bytes[1024], again[1024], golden[4096];
        size_t size, again_size;
        crema_frame_t frame;
        snprintf(name, sizeof name, "record_%s.hex", sample_name);
        must(crema_record_encode(&record, SAMPLE_SEQ, SAMPLE_T_NS, bytes, sizeof bytes, &size));
        if (s_shall_write())
            s_write_hex(name, bytes, size);
        size_t golden_size = s_read_hex(name, golden, sizeof golden);
        must(crema_frame_decode(golden, golden_size, &frame));
        assert_int_equal(crema_frame_bytes(&frame), golden_size);
        must(crema_record_decode(&frame, fixture_arena, &back));
        must(crema_record_encode(&back, frame.seq, frame.t_ns, again, sizeof again, &again_size));
        assert_int_equal(again_size, size);
        assert_memory_equal(again, bytes, size);
        assert_int_equal(golden_size, size);
        assert_memory_equal(golden, bytes, size);
    }
}

/* "/chunks status enum 1 ok,error": what a column must stay. */
static void
s_print_columns(FILE *file)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        for (size_t i = 0; i < table->n_columns; i++) {
            const crema_column_t *column = &table->columns[i];
            char dtype[CREMA_DTYPE_TEXT];
            fprintf(file, "%s %s %s %d %s %s\n", table->path, column->name,
                    crema_column_dtype(column, dtype), crema_table_wire_index(table, i),
                    column->units, column->labels ? column->labels : "-");
        }
    }
}

/* Columns may be added and labels appended; a column that was there keeps its name, type, unit,
 * place on the wire and place among the old ones. */
static void
test_columns(void **state)
{
    (void)state;
    if (s_shall_write()) {
        FILE *file = s_open("columns.txt", "w");
        s_print_columns(file);
        assert_int_equal(fclose(file), 0);
    }
    FILE *file = s_open("columns.txt", "r");
    char path[64], name[64], dtype[32], units[32], labels[512], last_path[64] = "";
    int wire, last_column = -1;
    size_t read = 0;
    while (fscanf(file, "%63s %63s %31s %d %31s %511s", path, name, dtype, &wire, units, labels) ==
           6) {
        const crema_table_t *table = table_by_path(path);
        int column = table ? crema_table_column(table, name) : -1;
        if (!table || column < 0) {
            fail_msg("%s of /%s is gone", name, path);
            break;
        }
        char have[CREMA_DTYPE_TEXT];
        assert_string_equal(crema_column_dtype(&table->columns[column], have), dtype);
        assert_string_equal(table->columns[column].units, units);
        assert_int_equal(crema_table_wire_index(table, (size_t)column), wire);
        if (strcmp(labels, "-") != 0)
            assert_memory_equal(table->columns[column].labels, labels, strlen(labels));
        if (strcmp(path, last_path) == 0)
            assert_true(column > last_column);
        strcpy(last_path, path);
        last_column = column;
        read++;
    }
    fclose(file);
    assert_true(read > 300);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_kept_messages),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
