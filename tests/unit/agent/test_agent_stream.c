#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent_stream.h"
#include "crema_random.h"
#include "message_parts.h"
#include "record_frames.h"

static void
must(crema_err_t err)
{
    assert_string_equal(crema_err_text(err), crema_err_text(CREMA_OK));
}

/* Writes the rows, reads them back as record 2 of a fresh stream, and hands them to `check`. */
static void
must_come_back(crema_table_id_t table, const void *rows, uint32_t n_rows,
               void (*check)(const crema_batch_t *batch))
{
    char dir[SCRATCH_BYTES];
    scratch_template("rows", dir);
    assert_non_null(mkdtemp(dir));
    crema_id_t id = crema_random_id();
    Crema__StreamInfo info = {.run_id = body_id(crema_random_id()),
                              .host = "",
                              .worker_uuid = "",
                              .worker_name = "",
                              .boot_id = ""};
    crema_spool_writer_t *writer;
    must(crema_spool_writer_open(dir, &id, &info, CREMA_SPOOL_SELF, &writer));
    must(agent_stream_write_rows(writer, table, rows, n_rows, 5));
    crema_spool_writer_close(&writer);
    crema_spool_t *spool;
    must(crema_spool_open(dir, &spool));
    must(crema_spool_scan(spool));
    assert_int_equal(crema_spool_find(spool, &id)->hi, 3);
    static uint8_t buf[1 << 17];
    size_t bytes;
    uint32_t n;
    uint64_t last;
    must(crema_spool_read(spool, &id, 2, buf, sizeof buf, &bytes, &n, &last));
    crema_frame_t frame;
    crema_record_t record;
    crema_arena_t *arena;
    must(crema_arena_new(1 << 21, &arena));
    must(crema_frame_decode(buf, bytes, &frame));
    assert_int_equal(frame.t_ns, 5);
    must(crema_record_decode(&frame, arena, &record));
    assert_int_equal(record.type, CREMA_RECORD_BATCH);
    check(&record.batch);
    crema_arena_destroy(&arena);
    crema_spool_close(&spool);
    char *made = strdup(dir);
    scratch_remove(&made);
}

static size_t
column(const crema_batch_t *batch, const char *name)
{
    return (size_t)crema_table_column(batch->table, name);
}

static void
check_two_rows(const crema_batch_t *batch)
{
    assert_int_equal(batch->rows, 2);
    assert_int_equal(crema_batch_int(batch, 0, column(batch, "t_ns"), -9), 100);
    assert_int_equal(crema_batch_int(batch, 1, column(batch, "t_ns"), -9), 0);
    assert_int_equal(crema_batch_int(batch, 0, column(batch, "rss_b"), -9), -1);
    assert_int_equal(crema_batch_int(batch, 1, column(batch, "rss_b"), -9), INT64_MAX);
    assert_int_equal(crema_batch_int(batch, 0, column(batch, "worker_id"), -9), UINT32_MAX);
    assert_int_equal(crema_batch_int(batch, 1, column(batch, "worker_id"), -9), 3);
    assert_int_equal(crema_batch_int(batch, 0, column(batch, "source"), -9), 0);
    assert_true(isnan(crema_batch_real(batch, 0, column(batch, "cpu_pct"), -9)));
    assert_true(crema_batch_real(batch, 1, column(batch, "cpu_pct"), -9) == 12.5);
}

static void
test_rows_come_back_as_they_were_set(void **state)
{
    (void)state;
    crema_worker_samples_row_t rows[2];
    for (int i = 0; i < 2; i++)
        crema_row_clear(crema_table(CREMA_TABLE_WORKER_SAMPLES), (uint8_t *)&rows[i]);
    rows[0].t_ns = 100;
    rows[1].rss_b = INT64_MAX;
    rows[1].worker_id = 3;
    rows[1].cpu_pct = 12.5;
    must_come_back(CREMA_TABLE_WORKER_SAMPLES, rows, 2, check_two_rows);
}

static void
check_full(const crema_batch_t *batch)
{
    assert_int_equal(batch->rows, AGENT_STREAM_ROWS_MAX);
}

/* Every table that agents write, every column at its largest: a full record still fits. */
static void
test_a_full_record_fits(void **state)
{
    (void)state;
    static const crema_table_id_t written[] = {CREMA_TABLE_WORKER_SAMPLES, CREMA_TABLE_HEARTBEATS,
                                               CREMA_TABLE_CUSTOM};
    for (size_t t = 0; t < sizeof written / sizeof *written; t++) {
        const crema_table_t *table = crema_table(written[t]);
        static uint8_t rows[AGENT_STREAM_ROWS_MAX * 1024];
        const size_t row_bytes = crema_table_row_bytes(table);
        assert_true(row_bytes <= 1024);
        for (int i = 0; i < AGENT_STREAM_ROWS_MAX; i++) {
            uint8_t *row = rows + (size_t)i * row_bytes;
            crema_row_clear(table, row);
            for (size_t c = 0; c < table->n_columns; c++) {
                if (table->columns[c].origin == CREMA_FROM_SINK || table->columns[c].size == 0)
                    continue;
                if (table->columns[c].type == CREMA_T_F64)
                    crema_rows_set_f64(table, row, c, &(double){-1e300}, 1);
                else if (table->columns[c].type == CREMA_T_I64)
                    crema_row_set_i64(table, row, c, INT64_MIN);
            }
        }
        must_come_back(table->id, rows, AGENT_STREAM_ROWS_MAX, check_full);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_back_as_they_were_set),
        cmocka_unit_test(test_a_full_record_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
