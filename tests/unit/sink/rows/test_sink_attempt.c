/* sink_attempt: provisional rows and their last word; numbering and superseding. */
#include <string.h>

#include "crema_record.h"
#include "must.h"
#include "row_cell.h"
#include "sink_attempt.h"

static void
s_row(uint8_t *row, int64_t chunk, int64_t start, int64_t end, int64_t status)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    crema_row_clear(t, row);
    cell_set(t, row, "chunk_id", chunk);
    cell_set(t, row, "t_start_ns", start);
    cell_set(t, row, "t_end_ns", end);
    cell_set(t, row, "status", status);
}

/* One worker, whose stream ended at that time; 0: none did. */
static sink_rows_t *
s_streams(int64_t left)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_DICT_STREAM);
    sink_rows_t *self;
    uint8_t row[CREMA_ROW_BYTES_MAX];
    must(sink_rows_new(crema_table_row_bytes(t), NULL, &self));
    crema_row_clear(t, row);
    cell_set(t, row, "kind", CREMA_STREAM_WORKER);
    cell_set(t, row, "t_last_ns", left ? left : 1000);
    must(sink_rows_add(self, row));
    return self;
}

static void
must_keep_an_attempt_open_until_its_last_word(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    sink_attempts_t *self;
    uint8_t row[CREMA_ROW_BYTES_MAX];
    crema_limits_t limits = crema_limits();
    must(sink_attempts_new(&limits, &self));
    for (int64_t ref = 1; ref <= 3; ref++) {
        s_row(row, ref, 10 * ref, 0, CREMA_CHUNK_LOST);
        must(sink_attempts_open(self, 5, ref, row));
    }
    s_row(row, 1, 99, 0, CREMA_CHUNK_LOST);
    must(sink_attempts_open(self, 6, 1, row)); /* the same number in another stream */
    must(sink_attempts_close(self, 5, 2));
    must(sink_attempts_close(self, 5, 2));
    s_row(row, 2, 20, 0, CREMA_CHUNK_LOST);
    must(sink_attempts_open(self, 5, 2, row)); /* late: it had its last word */
    s_row(row, 3, 31, 0, CREMA_CHUNK_LOST);
    must(sink_attempts_open(self, 5, 3, row)); /* a later provisional row replaces the first */
    const int64_t want[] = {10, 31, 99};
    const void *cursor = NULL;
    size_t n = 0;
    const uint8_t *open;
    while ((open = sink_attempts_next(self, &cursor)))
        assert_int_equal(cell_int(t, open, "t_start_ns"), want[n++]);
    assert_int_equal(n, 3);
    sink_attempts_destroy(&self);
    assert_null(self);
}

static void
must_number_attempts_and_supersede_all_but_the_last_ok(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    const struct {
        int64_t chunk, start, end, status, want_attempt;
        bool want_superseded;
    } rows[] = {
        {1, 10, 20, CREMA_CHUNK_OK, 1, false},
        {2, 11, 20, CREMA_CHUNK_ERROR, 1, false},
        {3, 12, 30, CREMA_CHUNK_OK, 1, true}, /* its result was lost */
        {2, 21, 25, CREMA_CHUNK_OK, 2, false},
        {3, 31, 39, CREMA_CHUNK_LOST, 2, false},
        {3, 40, 90, CREMA_CHUNK_OK, 3, false},
        {3, 41, 80, CREMA_CHUNK_OK, 4, true},      /* began later, ended earlier */
        {4, 45, 55, CREMA_CHUNK_PARTIAL, 1, true}, /* returned, so it counts like an ok one */
        {4, 46, 56, CREMA_CHUNK_PARTIAL, 2, false},
        {0, 50, 60, CREMA_CHUNK_OK, 1, false}, /* nobody knows which chunks these were */
        {0, 51, 61, CREMA_CHUNK_OK, 1, false},
    };
    size_t n = sizeof rows / sizeof *rows;
    sink_rows_t *self;
    must(sink_rows_new(crema_table_row_bytes(t), NULL, &self));
    for (size_t i = 0; i < n; i++) {
        uint8_t row[CREMA_ROW_BYTES_MAX];
        s_row(row, rows[i].chunk, rows[i].start, rows[i].end, rows[i].status);
        cell_set(t, row, "task_key", rows[i].chunk);
        cell_set(t, row, "submission_key", 7);
        cell_set(t, row, "quality", SINK_QUALITY_NO_BYTES);
        must(sink_rows_add(self, row));
    }
    sink_rows_t *streams = s_streams(0);
    must(sink_attempts_number(self, streams, NULL));
    sink_rows_destroy(&streams);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = sink_rows_at(self, i);
        int64_t quality = cell_int(t, row, "quality");
        assert_int_equal(cell_int(t, row, "attempt"), rows[i].want_attempt);
        assert_int_equal((quality & SINK_QUALITY_SUPERSEDED) != 0, rows[i].want_superseded);
        assert_true(quality & SINK_QUALITY_NO_BYTES);
        assert_int_equal(cell_int(t, row, "pass"), 1);
    }
    sink_rows_destroy(&self);
}

static void
must_tell_passes_apart(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    enum { OK = CREMA_CHUNK_OK, ERROR = CREMA_CHUNK_ERROR, LOST = CREMA_CHUNK_LOST };
    const struct {
        const char *what;
        int64_t left; /* when a worker left */
        struct {
            int64_t task, submission, status, want_pass, want_attempt;
            bool want_superseded;
        } rows[3];
    } cases[] = {
        {"keys of their own", 15, {{1, 1, OK, 1, 1, false}, {2, 2, OK, 2, 1, false}}},
        {"keys of their own, of which nobody says more",
         15,
         {{1, 0, OK, 1, 1, false}, {2, 0, OK, 2, 1, false}}},
        {"the same key, submitted twice", 15, {{1, 1, OK, 1, 1, false}, {1, 2, OK, 2, 1, false}}},
        {"a result that was lost", 0, {{1, 1, OK, 1, 1, true}, {1, 1, OK, 1, 2, false}}},
        {"a retry", 0, {{1, 1, ERROR, 1, 1, false}, {1, 1, OK, 1, 2, false}}},
        {"a retry in the second pass",
         0,
         {{1, 1, OK, 1, 1, false}, {1, 2, ERROR, 2, 1, false}, {1, 2, OK, 2, 2, false}}},
        {"nobody says, and a worker left", 25, {{1, 0, OK, 1, 1, true}, {1, 0, OK, 1, 2, false}}},
        {"nobody says, and no worker left", 0, {{1, 0, OK, 1, 1, false}, {1, 0, OK, 2, 1, false}}},
        {"nobody says, and one left before", 5, {{1, 0, OK, 1, 1, false}, {1, 0, OK, 2, 1, false}}},
        {"without Dask", 25, {{0, 0, OK, 1, 1, false}, {0, 0, OK, 2, 1, false}}},
        {"without Dask, retries",
         25,
         {{0, 0, ERROR, 1, 1, false}, {0, 0, LOST, 1, 2, false}, {0, 0, OK, 1, 3, false}}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sink_rows_t *self, *streams = s_streams(cases[k].left);
        must(sink_rows_new(crema_table_row_bytes(t), NULL, &self));
        size_t n = cases[k].rows[2].want_pass ? 3 : 2;
        for (size_t i = 0; i < n; i++) {
            uint8_t row[CREMA_ROW_BYTES_MAX];
            s_row(row, 4, 10 + 20 * (int64_t)i, 20 + 20 * (int64_t)i, cases[k].rows[i].status);
            cell_set(t, row, "task_key", cases[k].rows[i].task);
            cell_set(t, row, "submission_key", cases[k].rows[i].submission);
            must(sink_rows_add(self, row));
        }
        must(sink_attempts_number(self, streams, NULL));
        for (size_t i = 0; i < n; i++) {
            const uint8_t *row = sink_rows_at(self, i);
            bool superseded = cell_int(t, row, "quality") & SINK_QUALITY_SUPERSEDED;
            if (cell_int(t, row, "pass") != cases[k].rows[i].want_pass ||
                cell_int(t, row, "attempt") != cases[k].rows[i].want_attempt ||
                superseded != cases[k].rows[i].want_superseded)
                fail_msg("%s: row %zu", cases[k].what, i);
        }
        sink_rows_destroy(&self);
        sink_rows_destroy(&streams);
    }
}

static void
must_number_the_executions_of_tasks(void **state)
{
    (void)state;
    enum { COMPUTE, TRANSFER };
    const crema_table_t *t = crema_table(CREMA_TABLE_TASK_EVENTS);
    const struct {
        int64_t key, start, action, want;
    } rows[] = {
        {7, 0, COMPUTE, UINT16_MAX}, /* a result that went with its worker */
        {7, 10, COMPUTE, 1},         {7, 11, TRANSFER, UINT16_MAX}, {8, 12, COMPUTE, 1},
        {7, 20, COMPUTE, 2},         {0, 30, COMPUTE, UINT16_MAX}, /* of an unknown task */
        {7, 40, COMPUTE, 3},
    };
    size_t n = sizeof rows / sizeof *rows;
    sink_rows_t *self;
    must(sink_rows_new(crema_table_row_bytes(t), NULL, &self));
    for (size_t i = 0; i < n; i++) {
        uint8_t row[CREMA_ROW_BYTES_MAX];
        crema_row_clear(t, row);
        cell_set(t, row, "task_key", rows[i].key);
        cell_set(t, row, "t_start_ns", rows[i].start);
        cell_set(t, row, "action", rows[i].action);
        must(sink_rows_add(self, row));
    }
    must(sink_attempts_number_tasks(self, NULL));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(cell_int(t, sink_rows_at(self, i), "attempt"), rows[i].want);
    sink_rows_destroy(&self);
}

/* Numbers in any order, with gaps: each is opened once and closed once, and only what is open, or
 * a gap, counts. */
static void
must_remember_what_was_closed(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    const int64_t refs[] = {1, 2, 4, 3, -1, 9, 7, 8, 100, INT64_MAX, INT64_MIN, 5};
    const size_t n = sizeof refs / sizeof *refs;
    sink_attempts_t *self;
    uint8_t row[CREMA_ROW_BYTES_MAX];
    const void *cursor = NULL;
    crema_limits_t limits = crema_limits();
    limits.limit[CREMA_LIMIT_OPEN_ATTEMPTS] = 8;
    must(sink_attempts_new(&limits, &self));
    for (size_t i = 0; i < n; i++) {
        s_row(row, refs[i], 10, 0, CREMA_CHUNK_LOST);
        must(sink_attempts_open(self, 0, refs[i], row));
        must(sink_attempts_close(self, 0, refs[i]));
    }
    for (size_t i = 0; i < n; i++)
        must(sink_attempts_open(self, 0, refs[i], row));
    assert_null(sink_attempts_next(self, &cursor));
    for (int64_t ref = 1; ref <= 1000; ref++) {
        must(sink_attempts_open(self, 1, ref, row));
        must(sink_attempts_close(self, 1, ref));
    }
    assert_int_equal(limits.met[CREMA_LIMIT_OPEN_ATTEMPTS], 0);
    s_row(row, 6, 66, 0, CREMA_CHUNK_LOST);
    must(sink_attempts_open(self, 0, 6, row));
    cursor = NULL;
    assert_int_equal(cell_int(t, sink_attempts_next(self, &cursor), "t_start_ns"), 66);
    for (int64_t ref = 2000; ref < 2000 + 100; ref += 2)
        must(sink_attempts_close(self, 1, ref)); /* every second one never came */
    assert_in_range(limits.met[CREMA_LIMIT_OPEN_ATTEMPTS], 40, 50);
    sink_attempts_destroy(&self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_keep_an_attempt_open_until_its_last_word),
        cmocka_unit_test(must_number_attempts_and_supersede_all_but_the_last_ok),
        cmocka_unit_test(must_tell_passes_apart),
        cmocka_unit_test(must_number_the_executions_of_tasks),
        cmocka_unit_test(must_remember_what_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
