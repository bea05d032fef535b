/* A disk that does not give a sector, or a segment, of a journal: that is damage as unreadable
 * bytes are. The rest is read, the file and the error are named, nothing is confirmed before, and
 * the bytes that may be readable again stay. */
#include "must.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faulty.h"
#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "store_opened.h"

#define RUN 0x70
#define SECTOR 4096

static char *s_dir;
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    faulty_sector(NULL, 0);
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

/* Ten records in a group of their own. */
static void
must_write(sink_store_t *store, uint64_t first, uint64_t last)
{
    for (; first <= last; first += 10) {
        sink_store_put_t answer;
        frames_clear(&s_frames);
        frames_add_dicts(&s_frames, first, first + 9);
        Crema__Put put = frames_put(&s_frames, RUN, RUN, first);
        must(sink_store_put(store, &put, 5000, &answer));
        must_commit(store);
    }
}

static uint64_t
must_have(sink_store_t *store)
{
    crema_stream_row_t row;
    const crema_stream_row_t asked = {.stream_id = frames_id(RUN), .run_id = frames_id(RUN)};
    must(sink_store_stream(store, &asked, &row));
    return row.committed;
}

static const char *
s_path(const char *name)
{
    static char path[2][700];
    static int at;
    char uuid[37];
    crema_id_t id = frames_id(RUN);
    at = !at;
    snprintf(path[at], sizeof path[at], "%s/%s/%s", s_dir, crema_id_uuid(&id, uuid), name);
    return path[at];
}

static size_t
s_size(const char *name)
{
    struct stat st;
    return stat(s_path(name), &st) == 0 ? (size_t)st.st_size : 0;
}

static bool
s_has_event(int type, const char *text)
{
    sink_store_event_t event;
    bool found = false;
    while (store_events_take(&event))
        found |= (int)event.type == type && strstr(event.text, text);
    return found;
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    *(uint64_t *)context += put->n;
    return CREMA_OK;
}

/* The number of records that can be read. */
static uint64_t
must_read(sink_journal_report_t *ret_report)
{
    uint64_t records = 0;
    const sink_journal_visitor_t visitor = {.context = &records, .put = s_on_put};
    must(sink_journal_read(s_path("."), &visitor, ret_report));
    return records;
}

/* A run of two segments; returns the size of the first, in which records 1 to 300 are. */
static size_t
must_have_two_segments(void)
{
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, 1, 300);
    sink_store_close(&store);
    store = must_open_store(s_dir);
    must_write(store, 301, 600);
    sink_store_close(&store);
    assert_true(s_size("000001.journal") > 4 * SECTOR);
    return s_size("000001.journal");
}

static sink_store_scrubbed_t
must_scrub(sink_store_t *store)
{
    sink_store_scrubbed_t scrubbed = {0};
    bool done = false;
    while (sink_store_is_scrubbing(store))
        done |= sink_store_scrub_some(store, &scrubbed);
    assert_true(done);
    return scrubbed;
}

/* ---- tests */

static void
test_a_sector_costs_the_records_in_it(void **state)
{
    (void)state;
    sink_journal_report_t report;
    must_have_two_segments();
    assert_int_equal(must_read(&report), 600);
    assert_int_equal(report.unread.why, 0);
    faulty_sector(s_path("000001.journal"), 2 * SECTOR);
    uint64_t records = must_read(&report);
    faulty_sector(NULL, 0);
    assert_in_range(records, 300, 590);
    assert_int_equal(report.unread.bytes, SECTOR);
    assert_int_equal(report.unread.why, EIO);
    assert_string_equal(report.unread.path, s_path("./000001.journal"));
    assert_true(report.damaged_bytes >= SECTOR && report.missing_frames > 0);
    assert_int_equal(report.missing_frames * 10, 600 - records);
}

static void
test_the_last_sector_is_not_taken_for_torn(void **state)
{
    (void)state;
    sink_journal_report_t report;
    must_have_two_segments();
    faulty_sector(s_path("000002.journal"), (s_size("000002.journal") - 1) / SECTOR * SECTOR);
    assert_in_range(must_read(&report), 300, 599);
    assert_true(report.unread.bytes > 0 && report.damaged_bytes >= report.unread.bytes);
    assert_int_equal(report.torn_bytes, 0);
}

static void
test_a_segment_that_cannot_be_opened_costs_what_is_in_it(void **state)
{
    (void)state;
    sink_journal_report_t report;
    must_have_two_segments();
    assert_int_equal(rename(s_path("000001.journal"), s_path("away")), 0);
    assert_int_equal(mkdir(s_path("000001.journal"), 0700), 0); /* as EACCES, also for root */
    assert_int_equal(must_read(&report), 300);
    assert_int_equal(report.unread.why, EISDIR);
    assert_true(report.damaged_bytes > 0);
    assert_int_equal(report.missing_frames, 30);

    sink_store_t *store = must_open_store(s_dir);
    assert_int_equal(must_have(store), 600); /* as the checkpoint says */
    assert_true(must_scrub(store).fell);
    assert_int_equal(must_have(store), 0);
    assert_true(s_has_event(SINK_STORE_DAMAGED, "000001.journal: Is a directory"));
    must_write(store, 1, 600); /* as a spool has it */
    assert_int_equal(must_have(store), 600);
    sink_store_close(&store);
    assert_int_equal(rmdir(s_path("000001.journal")), 0);
    assert_int_equal(rename(s_path("away"), s_path("000001.journal")), 0);
}

static void
test_a_list_is_not_confirmed_over_what_cannot_be_read(void **state)
{
    (void)state;
    bool is_new;
    crema_id_t run_id = frames_id(RUN);
    Crema__Writer writer = {.stream_id = body_id(run_id), .name = "w", .last = 600};
    const Crema__RunWriters list = {
        .run_id = body_id(run_id), .parts = 1, .n_writers = 1, .writers = body_writers(1, &writer)};
    must_have_two_segments();
    sink_store_t *store = must_open_store(s_dir);
    assert_false(must_scrub(store).fell);
    must(sink_store_writers(store, &list, 5000, &is_new));
    must_commit(store);
    faulty_sector(s_path("000001.journal"), 2 * SECTOR);
    assert_false(sink_store_check_list(store, &run_id));
    assert_true(must_scrub(store).fell);
    assert_in_range(must_have(store), 10, 290);
    assert_true(s_has_event(SINK_STORE_DAMAGED, "000001.journal: Input/output error"));
    sink_store_close(&store);
}

/* Nothing is known of the journal as long as there is no descriptor to open it with. */
static void
test_a_list_waits_for_a_descriptor(void **state)
{
    (void)state;
    crema_id_t run_id = frames_id(RUN);
    sink_store_scrubbed_t scrubbed = {0};
    must_have_two_segments();
    sink_store_t *store = must_open_store(s_dir);
    must_scrub(store);
    assert_false(sink_store_check_list(store, &run_id));
    for (int i = 0; i < 3; i++) {
        faulty_arm("open", s_dir, 1, EMFILE);
        assert_false(sink_store_scrub_some(store, &scrubbed));
        assert_true(faulty_has_failed());
    }
    faulty_disarm();
    assert_true(sink_store_is_scrubbing(store));
    scrubbed = must_scrub(store);
    assert_true(scrubbed.for_list && !scrubbed.fell);
    sink_store_close(&store);
}

/* The newest one is continued: what could be read takes its name, and the old file stays. */
static void
test_a_newest_segment_with_a_bad_sector_is_continued(void **state)
{
    (void)state;
    sink_journal_report_t report;
    must_have_two_segments();
    size_t size = s_size("000002.journal");
    faulty_sector(s_path("000002.journal"), 2 * SECTOR);
    sink_store_t *store = must_open_store(s_dir);
    faulty_sector(NULL, 0);
    uint64_t have = must_have(store);
    assert_in_range(have, 310, 590);
    assert_int_equal(s_size("000002.journal.unread"), size);
    must_write(store, have / 10 * 10 + 1, 700);
    assert_int_equal(must_have(store), 700);
    sink_store_close(&store);
    assert_true(must_read(&report) >= 700);
    assert_true(report.damaged_bytes > 0 && report.missing_frames > 0);
    store = must_open_store(s_dir);
    assert_int_equal(must_have(store), 700);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_sector_costs_the_records_in_it),
        T(test_the_last_sector_is_not_taken_for_torn),
        T(test_a_segment_that_cannot_be_opened_costs_what_is_in_it),
        T(test_a_list_is_not_confirmed_over_what_cannot_be_read),
        T(test_a_list_waits_for_a_descriptor),
        T(test_a_newest_segment_with_a_bad_sector_is_continued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
