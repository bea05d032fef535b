/* sink_rows: rows in memory and in a file, and their order. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"
#include "row_cell.h"
#include "rows_fixture.h"
#include "sink_rows.h"
#include "sink_scratch.h"

static void
must_keep_rows_beyond_memory_in_a_file_that_is_gone(void **state)
{
    (void)state;
    const char *dir = scratch_dir("rows");
    assert_int_equal(mkdir(dir, 0700), 0);
    sink_rows_t *rows;
    uint8_t row[1000];
    size_t n = SINK_SCRATCH_MEMORY / sizeof row + 5000;
    must(sink_rows_new(sizeof row, dir, &rows));
    for (size_t i = 0; i < n; i++) {
        memset(row, (int)(i % 251), sizeof row);
        memcpy(row, &i, sizeof i);
        must(sink_rows_add(rows, row));
    }
    assert_int_equal(sink_rows_count(rows), n);
    for (size_t i = 0; i < n; i += 997) {
        size_t number;
        memcpy(&number, sink_rows_at(rows, i), sizeof number);
        assert_int_equal(number, i);
        assert_int_equal(((uint8_t *)sink_rows_at(rows, i))[999], i % 251);
    }
    struct dirent *entry;
    DIR *stream = opendir(dir);
    while ((entry = readdir(stream)))
        assert_int_equal(entry->d_name[0] == '.' && entry->d_name[1] != 'c', 1);
    closedir(stream);
    sink_rows_destroy(&rows);
    assert_null(rows);
    rmdir(dir);
}

static void
must_say_when_it_cannot_spill(void **state)
{
    (void)state;
    sink_rows_t *rows;
    static uint8_t row[1 << 20];
    crema_err_t err = CREMA_OK;
    must(sink_rows_new(sizeof row, "/proc/0/dir", &rows));
    for (size_t i = 0; i < 100 && err == CREMA_OK; i++)
        err = sink_rows_add(rows, row);
    assert_int_equal(err, CREMA_ENOENT);
    assert_int_equal(sink_rows_count(rows) * sizeof row, SINK_SCRATCH_MEMORY);
    sink_rows_destroy(&rows);
    assert_int_equal(sink_rows_new(0, NULL, &rows), CREMA_EINVAL);
}

static void
s_add(sink_rows_t *rows, int64_t t, int64_t stream, int64_t seq, int64_t mark)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_CUSTOM);
    uint8_t row[CREMA_ROW_BYTES_MAX];
    crema_row_clear(table, row);
    cell_set(table, row, "t_ns", t);
    cell_set(table, row, "stream_id", stream);
    cell_set(table, row, "seq", seq);
    cell_set(table, row, "chunk_id", mark);
    must(sink_rows_add(rows, row));
}

static void
must_order_by_first_column_stream_seq_and_arrival(void **state)
{
    (void)state;
    const crema_table_t *table = crema_table(CREMA_TABLE_CUSTOM);
    sink_rows_t *rows;
    must(sink_rows_new(crema_table_row_bytes(table), NULL, &rows));
    s_add(rows, 20, 0, 1, 6);
    s_add(rows, 10, 1, 9, 4);
    s_add(rows, 10, 0, 9, 2);
    s_add(rows, 10, 0, 9, 3);
    s_add(rows, 10, 0, 2, 1);
    s_add(rows, 10, 2, 1, 5);
    s_add(rows, -5, 7, 1, 0);
    must(sink_rows_sort(rows, table));
    assert_int_equal(sink_rows_count(rows), 7);
    for (int64_t i = 0; i < 7; i++)
        assert_int_equal(cell_int(table, sink_rows_at(rows, (size_t)i), "chunk_id"), i);
    sink_rows_destroy(&rows);
}

static void
must_leave_dictionaries_as_they_are(void **state)
{
    (void)state;
    const crema_table_t *table = crema_table(CREMA_TABLE_DICT_UNIT);
    uint8_t row[CREMA_ROW_BYTES_MAX];
    sink_rows_t *rows;
    must(sink_rows_new(crema_table_row_bytes(table), NULL, &rows));
    for (int64_t id = 3; id >= 1; id--) {
        crema_row_clear(table, row);
        cell_set(table, row, "id", id);
        must(sink_rows_add(rows, row));
    }
    must(sink_rows_sort(rows, table));
    assert_int_equal(cell_int(table, sink_rows_at(rows, 0), "id"), 3);
    sink_rows_destroy(&rows);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_keep_rows_beyond_memory_in_a_file_that_is_gone),
        cmocka_unit_test(must_say_when_it_cannot_spill),
        cmocka_unit_test(must_order_by_first_column_stream_seq_and_arrival),
        cmocka_unit_test(must_leave_dictionaries_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
