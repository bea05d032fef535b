/* The table of columns: the rules that every declaration keeps, and rows in memory. */
#include "must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "crema_columns.h"
#include "row_cell.h"
#include "table_by_path.h"

typedef void (*visit_t)(const crema_table_t *table, size_t i);

static void
s_for_each_column(visit_t visit)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        for (size_t i = 0; i < table->n_columns; i++)
            visit(table, i);
    }
}

static bool
s_is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

static bool
s_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static void
s_check_column(const crema_table_t *table, size_t i)
{
    static const char *const units[] = {"ns",    "s",      "B",    "1",       "%",    "1/s",
                                        "count", "Gbit/s", "bits", "unit_id", "unit", NULL};
    static const size_t sizes[] = {
        [CREMA_T_I64] = 8, [CREMA_T_F64] = 8, [CREMA_T_I32] = 4, [CREMA_T_U32] = 4,
        [CREMA_T_U16] = 2, [CREMA_T_U8] = 1,  [CREMA_T_ENUM] = 1};
    const crema_column_t *column = &table->columns[i];
    assert_int_equal(strspn(column->name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                     strlen(column->name));
    assert_int_equal(crema_table_column(table, column->name), i); /* no name twice */
    assert_true(s_is_one_of(column->units, units));
    assert_int_equal(column->labels != NULL, column->type == CREMA_T_ENUM);
    /* They must fit /schema/columns. */
    assert_true(strlen(column->name) <= 64 && strlen(column->meaning) <= 192);
    assert_true(!column->labels || strlen(column->labels) <= 256);
    if (column->origin == CREMA_FROM_WIRE_ONLY)
        assert_int_equal(column->size, 0);
    else if (column->type != CREMA_T_STR)
        assert_int_equal(column->size, sizes[column->type]);
    else
        assert_true(column->size > 0);
    if (column->origin == CREMA_FROM_DICT) {
        const crema_table_t *dict = crema_table(crema_dict_table(column->dict));
        char want[96];
        snprintf(want, sizeof want, "/%s", dict->path);
        assert_int_equal(column->type, CREMA_T_U32);
        assert_non_null(strstr(column->meaning, want));
    } else {
        assert_int_equal(column->dict, 0);
    }
    if (column->origin != CREMA_FROM_SINK)
        assert_true(table->id < CREMA_TABLE_WIRE_COUNT && column->type != CREMA_T_STR);
    /* The suffix is the unit. */
    if (s_ends_with(column->name, "_ns"))
        assert_string_equal(column->units, "ns");
    if (s_ends_with(column->name, "_b") && table->id != CREMA_TABLE_WORKFLOW)
        assert_string_equal(column->units, "B");
    if (s_ends_with(column->name, "_s"))
        assert_string_equal(column->units, "s");
    if (s_ends_with(column->name, "_hz"))
        assert_string_equal(column->units, "1/s");
}

static void
test_every_column_keeps_the_rules(void **state)
{
    (void)state;
    s_for_each_column(s_check_column);
}

static void
test_summaries_are_written_once_and_in_one_piece(void **state)
{
    (void)state;
    for (int id = 0; id < CREMA_TABLE_COUNT; id++) {
        const crema_table_t *table = crema_table((crema_table_id_t)id);
        bool is_summary = table->kind == CREMA_KIND_SUMMARY;
        assert_int_equal(table->live_chunk_rows == 0, is_summary);
        assert_int_equal(table->final_chunk_rows == 0, is_summary);
    }
}

static void
test_stream_tables_end_with_who_when_and_which(void **state)
{
    (void)state;
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        assert_int_equal(table->id, t);
        assert_ptr_equal(table_by_path(table->path), table);
        assert_true(strlen(table->path) <= 64);
        assert_int_equal(table->kind == CREMA_KIND_STREAM, t < CREMA_TABLE_WIRE_COUNT);
        assert_int_equal(table->kind == CREMA_KIND_SUMMARY, table->live_chunk_rows == 0);
        assert_true(crema_table_row_bytes(table) * table->final_chunk_rows <= 512 << 10);
        if (table->kind != CREMA_KIND_STREAM)
            continue;
        const crema_column_t *last = table->columns + table->n_columns - 3;
        assert_string_equal(last[0].name, "seq");
        assert_string_equal(last[1].name, "t_recv_ns");
        assert_string_equal(last[2].name, "stream_id");
        assert_string_equal(table->columns[0].units, "ns");
    }
    assert_null(crema_table(CREMA_TABLE_COUNT));
    assert_int_equal(crema_table_column(crema_table(CREMA_TABLE_CHUNKS), "nothing"), -1);
}

static void
test_rows_are_packed(void **state)
{
    (void)state;
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        size_t at = 0;
        for (size_t i = 0; i < table->n_columns; i++) {
            assert_int_equal(crema_table_offset(table, i), at);
            at += table->columns[i].size;
        }
        assert_int_equal(crema_table_offset(table, table->n_columns), at);
        assert_int_equal(crema_table_row_bytes(table), at);
    }
    assert_int_equal(crema_table_row_bytes(crema_table(CREMA_TABLE_CHUNKS)), 368);
}

static void
test_wire_columns_are_numbered_by_kind(void **state)
{
    (void)state;
    size_t ints, reals;
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        int next[2] = {0, 0};
        for (size_t i = 0; i < table->n_columns; i++) {
            bool real = table->columns[i].type == CREMA_T_F64;
            bool sent = table->columns[i].origin != CREMA_FROM_SINK;
            assert_int_equal(crema_table_wire_index(table, i), sent ? next[real]++ : -1);
        }
        crema_table_wire_columns(table, &ints, &reals);
        assert_int_equal(ints, next[0]);
        assert_int_equal(reals, next[1]);
    }
    crema_table_wire_columns(crema_table(CREMA_TABLE_CHUNKS), &ints, &reals);
    assert_true(ints == 25 && reals == 24);
    crema_table_wire_columns(crema_table(CREMA_TABLE_GAPS), &ints, &reals);
    assert_true(ints == 0 && reals == 0);
}

static void
test_dictionaries_have_their_tables(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "dict/worker", "dict/task_prefix", "dict/activity", "dict/unit",    "dict/metric",
        "dict/span",   "dict/dataset",     "dict/file",     "dict/section", "dict/branch",
        "dict/place",  "dict/frame",       "dict/stack",    "dict/stream"};
    for (int kind = 0; kind <= CREMA_DICT_STREAM; kind++)
        assert_string_equal(crema_table(crema_dict_table((crema_dict_t)kind))->path, paths[kind]);
}

static size_t
s_column(crema_table_id_t id, const char *name)
{
    int column = crema_table_column(crema_table(id), name);
    assert_true(column >= 0);
    return (size_t)column;
}

static void
test_unknowns(void **state)
{
    (void)state;
    static const struct {
        crema_table_id_t table;
        const char *column;
        int64_t want;
    } steps[] = {
        {CREMA_TABLE_CHUNKS, "t_start_ns", 0},
        {CREMA_TABLE_CHUNKS, "n_events", -1},
        {CREMA_TABLE_CHUNKS, "bytes_read_b", -1},
        {CREMA_TABLE_CHUNKS, "n_branches", -1},
        {CREMA_TABLE_CHUNKS, "chunk_id", 0},
        {CREMA_TABLE_CHUNKS, "task_key", 0},
        {CREMA_TABLE_CHUNKS, "worker_id", UINT32_MAX},
        {CREMA_TABLE_CHUNKS, "thread", UINT16_MAX},
        {CREMA_TABLE_CHUNKS, "status", 0},
        {CREMA_TABLE_CHUNKS, "quality", 0},
        {CREMA_TABLE_CHUNKS, "stream_id", UINT32_MAX},
        {CREMA_TABLE_GAPS, "n_lost", -1},
        {CREMA_TABLE_TASK_DEPS, "dep_key", 0},
        {CREMA_TABLE_DICT_FILE, "hash", 0},
        {CREMA_TABLE_DICT_FILE, "id", UINT32_MAX},
    };
    uint8_t row[1024];
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const crema_table_t *table = crema_table(steps[i].table);
        memset(row, 0x77, sizeof row);
        crema_row_clear(table, row);
        int64_t value = crema_row_get_i64(table, row, s_column(steps[i].table, steps[i].column));
        if (value != steps[i].want)
            fail_msg("%s: %lld", steps[i].column, (long long)value);
        assert_int_equal(row[crema_table_row_bytes(table)], 0x77); /* not a byte more */
    }
    const crema_table_t *chunks = crema_table(CREMA_TABLE_CHUNKS);
    const crema_table_t *files = crema_table(CREMA_TABLE_DICT_FILE);
    crema_row_clear(chunks, row);
    assert_true(isnan(crema_row_get_f64(chunks, row, s_column(CREMA_TABLE_CHUNKS, "wall_s"))));
    crema_row_clear(files, row);
    assert_string_equal(cell_text(files, row, "name"), "");
}

static void
test_numbers_of_many_rows(void **state)
{
    (void)state;
    enum { N = 3 };
    static const char *const columns[] = {"t_start_ns", "n_branches", "worker_id", "thread",
                                          "status"};
    static const int64_t values[N] = {3, 5, 7};
    const crema_table_t *table = crema_table(CREMA_TABLE_CHUNKS);
    const size_t size = crema_table_row_bytes(table);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        uint8_t rows[N * 512] = {0};
        size_t column = s_column(CREMA_TABLE_CHUNKS, columns[i]);
        assert_true(size <= 512);
        crema_rows_set_i64(table, rows, column, values, N);
        for (size_t r = 0; r < N; r++)
            assert_true(crema_row_get_i64(table, rows + r * size, column) == values[r]);
    }
}

/* Each field takes what it can hold, says "unknown" for the rest, and leaves its neighbours
 * alone. */
static void
test_numbers_in_and_out(void **state)
{
    (void)state;
    static const struct {
        const char *column;
        int64_t value, want;
    } steps[] = {
        {"t_start_ns", INT64_MIN, INT64_MIN},
        {"t_start_ns", INT64_MAX, INT64_MAX},
        {"n_branches", -2, -2},
        {"n_branches", INT32_MAX, INT32_MAX},
        {"n_branches", (int64_t)INT32_MAX + 1, -1},
        {"n_branches", INT64_MIN, -1},
        {"worker_id", 7, 7},
        {"worker_id", -1, UINT32_MAX},
        {"worker_id", (int64_t)UINT32_MAX + 1, UINT32_MAX},
        {"thread", 65534, 65534},
        {"thread", -1, 65535},
        {"thread", 65536, 65535},
        {"status", 4, 4},
        {"status", 200, 200}, /* a label that this build does not know */
        {"status", -1, 255},
        {"quality", 256, 255},
    };
    const crema_table_t *table = crema_table(CREMA_TABLE_CHUNKS);
    uint8_t row[256], before[256];
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t column = s_column(CREMA_TABLE_CHUNKS, steps[i].column);
        memset(row, 0x11, sizeof row);
        memcpy(before, row, sizeof row);
        crema_row_set_i64(table, row, column, steps[i].value);
        assert_true(crema_row_get_i64(table, row, column) == steps[i].want);
        memset(row + crema_table_offset(table, column), 0x11, table->columns[column].size);
        assert_memory_equal(row, before, sizeof row);
    }
    crema_row_set_i64(table, row, 0, 0x0102030405060708);
    assert_memory_equal(row, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    size_t wall = s_column(CREMA_TABLE_CHUNKS, "wall_s");
    cell_set_real(table, row, "wall_s", -0.5);
    assert_true(crema_row_get_f64(table, row, wall) == -0.5);
    assert_memory_equal(row + crema_table_offset(table, wall), "\0\0\0\0\0\0\xe0\xbf", 8);
}

static void
test_sides_have_the_labels_of_their_columns(void **state)
{
    (void)state;
    char joined[256] = "";
    for (int side = 0; side < CREMA_SIDE_COUNT; side++) {
        strcat(joined, side ? "," : "");
        strcat(joined, crema_side_name((crema_side_t)side));
    }
    const crema_table_t *table = crema_table(CREMA_TABLE_ACTIVITIES);
    assert_string_equal(table->columns[s_column(CREMA_TABLE_ACTIVITIES, "side")].labels, joined);
    assert_string_equal(crema_side_name(CREMA_SIDE_COUNT), "?");
    assert_string_equal(crema_side_name(CREMA_SIDE_WASTED), "wasted");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_column_keeps_the_rules),
        cmocka_unit_test(test_summaries_are_written_once_and_in_one_piece),
        cmocka_unit_test(test_stream_tables_end_with_who_when_and_which),
        cmocka_unit_test(test_rows_are_packed),
        cmocka_unit_test(test_wire_columns_are_numbered_by_kind),
        cmocka_unit_test(test_dictionaries_have_their_tables),
        cmocka_unit_test(test_unknowns),
        cmocka_unit_test(test_numbers_in_and_out),
        cmocka_unit_test(test_numbers_of_many_rows),
        cmocka_unit_test(test_sides_have_the_labels_of_their_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
