/* sink_live: what a notebook sees while a run goes on. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal_fixture.h"
#include "message_parts.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_h5.h"
#include "sink_live.h"

typedef struct {
    sink_live_t *live;
    sink_journal_visitor_t shown; /* to it */
    unsigned puts, flush_each;
} feed_t;

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    feed_t *feed = context;
    crema_err_t err = feed->shown.put(feed->shown.context, put);
    if (err == CREMA_OK && ++feed->puts % feed->flush_each == 0)
        err = sink_live_flush(feed->live);
    return err;
}

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    const sink_journal_visitor_t *shown = &((feed_t *)context)->shown;
    return shown->run(shown->context, msg);
}

static crema_err_t
s_on_clock(void *context, const Crema__ClockSample *sample)
{
    const sink_journal_visitor_t *shown = &((feed_t *)context)->shown;
    return shown->clock(shown->context, sample);
}

/* Feeds a whole journal, flushing after so many PUTs. Returns how many there were. */
static unsigned
s_feed(const char *journal, const char *file, unsigned flush_each)
{
    feed_t feed = {.flush_each = flush_each};
    const crema_id_t run = {{1}};
    sink_journal_report_t report;
    const sink_journal_visitor_t visitor = {
        .context = &feed, .put = s_on_put, .run = s_on_run, .clock = s_on_clock};
    must(sink_live_new(file, &run, &feed.live));
    feed.shown = sink_live_visitor(feed.live);
    must(sink_journal_read(journal, &visitor, &report));
    sink_live_close(&feed.live);
    assert_null(feed.live);
    return feed.puts;
}

static const char *
s_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s.live.h5", scratch_dir(name));
    unlink(path);
    return path;
}

static uint64_t
s_rows(const char *path, crema_table_id_t table)
{
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    uint64_t rows = 0;
    must(sink_h5_open(path, &file, why));
    must(sink_h5_table(file, crema_table(table), &rows, why));
    must(sink_h5_close(&file, NULL));
    return rows;
}

/* A view keeps nothing of each chunk, however many there are: the number of an attempt is known
 * when the run is sealed. */
static void
must_not_number_attempts(const char *path)
{
    static crema_chunks_row_t rows[4];
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    must(sink_h5_open(path, &file, why));
    must(sink_h5_read_rows(file, crema_table(CREMA_TABLE_CHUNKS), 0, 4, (uint8_t *)rows));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(rows[i].attempt, UINT16_MAX);
    must(sink_h5_close(&file, NULL));
}

static void
must_hold_every_row_but_those_still_open(void **state)
{
    (void)state;
    const char *journal = scratch_dir("busy"), *path = s_path("rows");
    decoded_t d;
    fixture_busy(journal, 1, 4, 150);
    decoded_open(&d, journal);
    for (unsigned flush_each = 1; flush_each <= 10000; flush_each *= 10) {
        s_feed(journal, path, flush_each);
        for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
            const crema_table_t *table = crema_table((crema_table_id_t)t);
            if (table->kind != CREMA_KIND_SUMMARY &&
                s_rows(path, table->id) != decoded_count(&d, table->id))
                fail_msg("/%s: %llu rows, not %zu", table->path,
                         (unsigned long long)s_rows(path, table->id), decoded_count(&d, table->id));
        }
    }
    decoded_close(&d);
    journal = scratch_dir("toy");
    fixture_toy(journal, 1);
    s_feed(journal, path, 1);
    assert_int_equal(s_rows(path, CREMA_TABLE_CHUNKS), 4); /* the fifth never had its last word */
    must_not_number_attempts(path);
    unlink(path);
}

/* Chunks of the table that a flush showed in part, and that were filled or taken whole later. */
static void
must_hold_the_same_rows_however_often_it_is_flushed(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CUSTOM);
    const char *journal = scratch_dir("plain"), *path = s_path("same");
    decoded_t d;
    fixture_plain(journal, 1, 30000);
    decoded_open(&d, journal);
    const size_t n = decoded_count(&d, t->id);
    const sink_rows_t *want = sink_tables_rows(d.tables, t->id);
    uint8_t *rows = malloc(n * crema_table_row_bytes(t));
    assert_true(rows && n > 3 * t->live_chunk_rows && n % t->live_chunk_rows > 0);
    for (unsigned flush_each = 1; flush_each <= 1000000; flush_each = flush_each * 10 + 1) {
        sink_h5_t *file;
        char why[SINK_H5_WHY_BYTES];
        s_feed(journal, path, flush_each);
        must(sink_h5_open(path, &file, why));
        must(sink_h5_read_rows(file, t, 0, n, rows));
        must(sink_h5_close(&file, NULL));
        assert_memory_equal(rows, sink_rows_at(want, 0), n * crema_table_row_bytes(t));
    }
    free(rows);
    decoded_close(&d);
    unlink(path);
}

static void
must_say_that_it_is_live(void **state)
{
    (void)state;
    const char *journal = scratch_dir("busy"), *path = s_path("attributes");
    fixture_busy(journal, 1, 2, 10);
    s_feed(journal, path, 3);
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES], text[64];
    must(sink_h5_open(path, &file, why));
    must(sink_h5_text(file, "state", text, sizeof text));
    assert_string_equal(text, "live");
    must(sink_h5_text(file, "verdict", text, sizeof text));
    assert_string_equal(text, "OPEN");
    must(sink_h5_text(file, "run_label", text, sizeof text));
    assert_string_equal(text, "busy ü");
    int64_t start;
    must(sink_h5_int(file, "t_run_start_ns", &start));
    assert_int_equal(start, FIXTURE_T0);
    must(sink_h5_close(&file, NULL));
    unlink(path);
}

/* Names that a reader looks up are there, and up to date, whenever rows are. */
static void
must_keep_dictionaries_ahead_of_rows(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_DICT_STREAM);
    const char *journal = scratch_dir("busy"), *path = s_path("names");
    uint8_t rows[16 * 1024];
    fixture_busy(journal, 1, 3, 30);
    s_feed(journal, path, 7);
    sink_h5_t *file;
    char why[SINK_H5_WHY_BYTES];
    must(sink_h5_open(path, &file, why));
    must(sink_h5_read_rows(file, t, 0, 5, rows));
    int closed = crema_table_column(t, "closed"), last = crema_table_column(t, "last_seq");
    for (size_t i = 0; i < 5; i++) {
        const uint8_t *row = rows + i * crema_table_row_bytes(t);
        assert_int_equal(crema_row_get_i64(t, row, (size_t)closed), 1);
        assert_true(crema_row_get_i64(t, row, (size_t)last) > 1);
    }
    must(sink_h5_close(&file, NULL));
    unlink(path);
}

static off_t
s_size(const char *path)
{
    struct stat stat_of;
    assert_int_equal(stat(path, &stat_of), 0);
    return stat_of.st_size;
}

static void
must_not_grow_by_being_flushed(void **state)
{
    (void)state;
    const char *journal = scratch_dir("plain"), *path = s_path("size");
    fixture_plain(journal, 1, 100000);
    s_feed(journal, path, 1000000); /* as good as at once */
    off_t once = s_size(path);
    s_feed(journal, path, 5);
    off_t flushed = s_size(path);
    if (flushed > once + once / 10)
        fail_msg("%lld bytes with flushes, %lld without", (long long)flushed, (long long)once);
    unlink(path);
}

/* Bytes that this process has written. */
static uint64_t
s_written(void)
{
    unsigned long long bytes = 0;
    FILE *io = fopen("/proc/self/io", "r");
    assert_non_null(io);
    assert_int_equal(fscanf(io, "rchar: %*u wchar: %llu", &bytes), 1);
    fclose(io);
    return bytes;
}

/* The chunks that the rows are in are much larger. */
static void
must_write_only_what_is_new_when_flushed(void **state)
{
    (void)state;
    enum { FLUSH_BYTES = 16 << 10 };
    const char *journal = scratch_dir("plain"), *path = s_path("flushes");
    fixture_plain(journal, 1, 5000);
    const uint64_t before = s_written();
    s_feed(journal, path, 1000000);
    const uint64_t once = s_written() - before;
    const unsigned flushes = s_feed(journal, path, 1);
    const uint64_t more = s_written() - before - 2 * once;
    if (more / flushes > FLUSH_BYTES)
        fail_msg("%llu bytes for each of %u flushes", (unsigned long long)(more / flushes),
                 flushes);
    unlink(path);
}

static void
must_give_up_without_stopping_the_run(void **state)
{
    (void)state;
    const crema_id_t run = {{1}};
    sink_live_t *live;
    const char *journal = scratch_dir("toy");
    fixture_toy(journal, 1);
    must(sink_live_new("/proc/0/dir/x.live.h5", &run, &live));
    const sink_journal_visitor_t shown = sink_live_visitor(live);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN, .run_id = body_id(run)};
    must(shown.run(shown.context, &msg));
    assert_int_equal(sink_live_flush(live), CREMA_ENOENT); /* reported once */
    must(shown.run(shown.context, &msg));
    must(sink_live_flush(live));
    sink_live_close(&live);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_hold_every_row_but_those_still_open),
        cmocka_unit_test(must_hold_the_same_rows_however_often_it_is_flushed),
        cmocka_unit_test(must_say_that_it_is_live),
        cmocka_unit_test(must_keep_dictionaries_ahead_of_rows),
        cmocka_unit_test(must_not_grow_by_being_flushed),
        cmocka_unit_test(must_write_only_what_is_new_when_flushed),
        cmocka_unit_test(must_give_up_without_stopping_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
