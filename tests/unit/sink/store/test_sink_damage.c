/* What a bad disk does to the journals of a store: what was acknowledged and is gone is asked
 * for again, counted and said; one journal that cannot be read stops nobody else; nothing is
 * deleted. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "store_opened.h"

#define SECOND_NS INT64_C(1000000000)
#define RUN 0x70
#define OTHER 0x71

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
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

static crema_err_t
s_put(sink_store_t *store, uint8_t stream, uint8_t run, uint64_t first, uint64_t last)
{
    sink_store_put_t answer;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, last);
    Crema__Put put = frames_put(&s_frames, stream, run, first);
    return sink_store_put(store, &put, 5000, &answer);
}

/* Ten records at a time, each ten in a group of their own. */
static void
must_write(sink_store_t *store, uint8_t run, uint64_t first, uint64_t last)
{
    for (; first <= last; first += 10) {
        must(s_put(store, run, run, first, first + 9));
        must_commit(store);
    }
}

static crema_stream_row_t
must_row(sink_store_t *store, uint8_t run)
{
    crema_stream_row_t row;
    const crema_stream_row_t asked = {.stream_id = frames_id(run), .run_id = frames_id(run)};
    must(sink_store_stream(store, &asked, &row));
    return row;
}

static void
s_path(uint8_t run, const char *name, char path[700])
{
    char uuid[37];
    crema_id_t id = frames_id(run);
    snprintf(path, 700, "%s/%s/%s", s_dir, crema_id_uuid(&id, uuid), name);
}

static size_t
s_size(uint8_t run, const char *name)
{
    char path[700];
    struct stat st;
    s_path(run, name, path);
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* Bytes from..to of the segment become nonsense. */
static void
must_spoil(uint8_t run, const char *name, size_t from, size_t to)
{
    char path[700];
    s_path(run, name, path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)from, SEEK_SET);
    for (; from < to; from++)
        fputc(0xa5, file);
    fclose(file);
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

typedef struct {
    uint64_t next, puts;
} seen_t;

/* Each number once, but for those that the journal holds twice, and none before its turn. */
static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    seen_t *seen = context;
    seen->puts++;
    assert_true(put->first_seq <= seen->next);
    if (put->first_seq + put->n > seen->next)
        seen->next = put->first_seq + put->n;
    return CREMA_OK;
}

static sink_journal_report_t
must_read(uint8_t run, uint64_t *ret_last)
{
    char path[700];
    seen_t seen = {1, 0};
    sink_journal_report_t report;
    const sink_journal_visitor_t visitor = {.context = &seen, .put = s_on_put};
    s_path(run, ".", path);
    must(sink_journal_read(path, &visitor, &report));
    *ret_last = seen.next - 1;
    return report;
}

/* ---- tests */

static void
test_what_damage_took_is_asked_for_again(void **state)
{
    (void)state;
    uint64_t last;
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 20);
    size_t from = s_size(RUN, "000001.journal");
    must_write(store, RUN, 21, 30);
    size_t to = s_size(RUN, "000001.journal");
    must_write(store, RUN, 31, 50);
    sink_store_close(&store);
    must_spoil(RUN, "000001.journal", from + 40, to - 40);

    store = must_open_store(s_dir); /* back to what is before the hole, and it says so */
    assert_int_equal(must_row(store, RUN).committed, 20);
    assert_int_equal(must_row(store, RUN).recv_next, 21);
    assert_int_equal(must_row(store, RUN).hi, 50);
    assert_true(s_has_event(SINK_STORE_DAMAGED, "1 entries are missing"));
    assert_int_equal(s_put(store, RUN, RUN, 51, 60), CREMA_OK); /* a gap: not taken */
    assert_int_equal(must_row(store, RUN).recv_next, 21);
    sink_store_close(&store);

    store = must_open_store(s_dir); /* a spool that holds it delivers it and all behind it */
    must_write(store, RUN, 21, 60);
    assert_int_equal(must_row(store, RUN).committed, 60);
    assert_int_equal(must_read(RUN, &last).missing_frames, 1);
    assert_int_equal(last, 60);
    sink_store_close(&store);
    store = must_open_store(s_dir);
    assert_int_equal(must_row(store, RUN).committed, 60);
    sink_store_close(&store);
}

static sink_store_scrubbed_t
must_scrub(sink_store_t *store)
{
    sink_store_scrubbed_t scrubbed = {0};
    bool done = false;
    while (sink_store_is_scrubbing(store)) {
        must_commit(store);
        done |= sink_store_scrub_some(store, &scrubbed);
    }
    assert_true(done);
    return scrubbed;
}

/* A list of writers of one part. */
static void
must_list(sink_store_t *store)
{
    bool is_new;
    Crema__Writer writer = {.stream_id = body_id(frames_id(RUN)), .name = "w", .last = 30};
    const Crema__RunWriters list = {.run_id = body_id(frames_id(RUN)),
                                    .parts = 1,
                                    .n_writers = 1,
                                    .writers = body_writers(1, &writer)};
    must(sink_store_writers(store, &list, 5000, &is_new));
    must_commit(store);
}

/* Records 1 to 40, of which 11 to 20 cannot be read; 31 to 40 are behind a newer checkpoint. */
static void
must_make_a_journal_with_a_hole(void)
{
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    size_t from = s_size(RUN, "000001.journal");
    must_write(store, RUN, 11, 20);
    size_t to = s_size(RUN, "000001.journal");
    must_write(store, RUN, 21, 30);
    sink_store_close(&store);
    store = must_open_store(s_dir);
    must_write(store, RUN, 31, 40);
    sink_store_close(&store);
    must_spoil(RUN, "000001.journal", from + 40, to - 40);
}

static void
test_damage_before_the_newest_checkpoint_is_asked_for_again(void **state)
{
    (void)state;
    uint64_t last;
    crema_id_t run_id = frames_id(RUN);
    must_make_a_journal_with_a_hole();
    sink_store_t *store = must_open_store(s_dir); /* the checkpoint does not know */
    assert_int_equal(must_row(store, RUN).committed, 40);
    sink_store_scrubbed_t scrubbed = must_scrub(store);
    assert_true(scrubbed.fell && !scrubbed.for_list);
    assert_true(s_has_event(SINK_STORE_DAMAGED, "1 entries are missing"));
    assert_int_equal(must_row(store, RUN).committed, 10);
    assert_int_equal(must_row(store, RUN).recv_next, 11);
    assert_int_equal(must_row(store, RUN).hi, 40);
    must_write(store, RUN, 11, 50); /* as a spool has it */
    must_list(store);
    assert_false(
        sink_store_check_list(store, &run_id)); /* not before all of it was read once more */
    assert_true(must_scrub(store).for_list);
    assert_true(sink_store_check_list(store, &run_id));
    assert_int_equal(must_row(store, RUN).committed, 50);
    sink_store_close(&store);
    must_read(RUN, &last);
    assert_int_equal(last, 50);
}

static void
test_damage_while_a_run_is_open_is_found_before_its_list_is_confirmed(void **state)
{
    (void)state;
    uint64_t last;
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    size_t from = s_size(RUN, "000001.journal");
    must_write(store, RUN, 11, 20);
    size_t to = s_size(RUN, "000001.journal");
    must_write(store, RUN, 21, 30);
    must_list(store);
    must_commit(store);
    must_spoil(RUN, "000001.journal", from + 40, to - 40);
    assert_false(sink_store_check_list(store, &run_id));
    assert_int_equal(s_put(store, RUN, RUN, 31, 40), CREMA_OK); /* others go on meanwhile */
    sink_store_scrubbed_t scrubbed;
    for (int i = 0; i < 20; i++) /* with a hole it ends when nothing waits */
        assert_false(sink_store_scrub_some(store, &scrubbed));
    scrubbed = must_scrub(store);
    assert_true(scrubbed.fell && scrubbed.for_list);
    assert_int_equal(scrubbed.parts, 1);
    assert_false(sink_store_has_part(store, &run_id, 0)); /* it is journaled once more */
    assert_int_equal(must_row(store, RUN).committed, 10);
    must_write(store, RUN, 11, 40);
    must_list(store);
    assert_true(sink_store_check_list(store, &run_id));
    assert_true(sink_store_has_part(store, &run_id, 0));
    crema_id_t other = frames_id(RUN + 1);
    must_write(store, RUN + 1, 1, 10);
    assert_false(sink_store_check_list(store, &other));
    assert_true(sink_store_is_held(store, &other));
    assert_false(
        sink_store_is_held(store, &run_id)); /* nothing is held any more of one that was checked */
    sink_store_close(&store);
    must_read(RUN, &last);
    assert_int_equal(last, 40);
}

/* After a start, without a list: senders learn nothing any more, so that the run comes to a
 * pause. */
static void
test_damage_in_a_run_that_is_written_all_the_time_is_asked_for_again(void **state)
{
    (void)state;
    crema_id_t run_id = frames_id(RUN);
    sink_store_scrubbed_t scrubbed = {0};
    must_make_a_journal_with_a_hole();
    sink_store_t *store = must_open_store(s_dir);
    uint64_t next = 41;
    for (int i = 0; i < 50 && !sink_store_is_held(store, &run_id); i++, next += 10) {
        must(s_put(store, RUN, RUN, next, next + 9)); /* something always waits */
        assert_false(sink_store_scrub_some(store, &scrubbed));
        if (!sink_store_is_held(store, &run_id))
            must_commit(store);
    }
    assert_true(sink_store_is_held(store, &run_id));
    must_commit(store);
    while (sink_store_is_scrubbing(store))
        (void)sink_store_scrub_some(store, &scrubbed);
    assert_true(scrubbed.fell && !scrubbed.for_list);
    assert_false(sink_store_is_held(store, &run_id));
    assert_int_equal(must_row(store, RUN).committed, 10);
    crema_stream_row_t row; /* what was held back is acknowledged now */
    assert_int_equal(sink_commit_take(sink_store_watermarks(store), &row, 1), 1);
    sink_store_close(&store);
}

/* Larger than one piece, and with more damage than any frame is long. */
static void
test_a_large_journal_is_read_once_more_piece_by_piece(void **state)
{
    (void)state;
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open_store(s_dir);
    uint64_t n = 0;
    while (s_size(RUN, "000001.journal") < ((size_t)14 << 20)) {
        for (int i = 0; i < 100; i++, n += 500)
            must(s_put(store, RUN, RUN, n + 1, n + 500));
        must_commit(store);
    }
    size_t size = s_size(RUN, "000001.journal"), pieces = 0;
    must_list(store);
    must_commit(store);
    assert_false(sink_store_check_list(store, &run_id));
    crema_stream_row_t row; /* nobody is told yet how far it is: its spool would let go of it */
    const crema_stream_row_t asked = {.stream_id = frames_id(RUN), .run_id = run_id};
    assert_true(sink_store_is_held(store, &run_id));
    assert_int_equal(sink_store_stream(store, &asked, &row), CREMA_EAGAIN);
    const crema_stream_row_t other = {.stream_id = frames_id(RUN + 1), .run_id = run_id};
    must(sink_store_stream(store, &other, &row)); /* of a new one there is nothing to let go of */
    assert_int_equal(row.committed, 0);
    sink_store_scrubbed_t scrubbed = {0};
    for (; sink_store_is_scrubbing(store); pieces++)
        (void)sink_store_scrub_some(store, &scrubbed);
    assert_in_range(pieces, 4, 16);
    assert_false(sink_store_is_held(store, &run_id));
    assert_true(scrubbed.for_list && !scrubbed.fell);
    assert_int_equal(must_row(store, RUN).committed, n);
    sink_store_close(&store);
    must_spoil(RUN, "000001.journal", 1 << 20, size - (1 << 20));
    store = must_open_store(s_dir);
    must_list(store);
    (void)sink_store_check_list(store, &run_id);
    assert_true(must_scrub(store).fell);
    assert_true(sink_store_report(store).damaged_bytes >= size - (3 << 20));
    assert_in_range(must_row(store, RUN).committed, 1, n / 4);
    sink_store_close(&store);
}

static void
test_damage_before_the_newest_checkpoint_is_told_to_the_number(void **state)
{
    (void)state;
    uint64_t last;
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    size_t size = s_size(RUN, "000001.journal");
    sink_store_close(&store);
    store = must_open_store(s_dir);
    must_write(store, RUN, 11, 20);
    sink_store_close(&store);
    must_spoil(RUN, "000001.journal", 0, size);
    store = must_open_store(s_dir); /* is not read at all to go on */
    assert_int_equal(must_row(store, RUN).committed, 20);
    must_write(store, RUN, 21, 30);
    sink_store_close(&store);
    char path[700];
    sink_journal_report_t report;
    s_path(RUN, ".", path);
    const sink_journal_visitor_t nothing = {0};
    must(sink_journal_read(path, &nothing, &report));
    assert_int_equal(report.missing_frames, 1);
    assert_true(report.damaged_bytes >= size);
    (void)last;
}

static void
test_a_journal_of_which_nothing_can_be_read_is_kept(void **state)
{
    (void)state;
    for (size_t spared = 0; spared <= 72; spared += 72) { /* with its header and without */
        uint64_t last;
        sink_store_t *store = must_open_store(s_dir);
        uint8_t run = (uint8_t)(RUN + spared);
        must_write(store, run, 1, 30);
        size_t size = s_size(run, "000001.journal");
        sink_store_close(&store);
        must_spoil(run, "000001.journal", spared, size);
        store = must_open_store(s_dir);
        assert_int_equal(s_size(run, "000001.journal.damaged"), size);
        assert_int_equal(must_row(store, run).committed, 0);
        assert_true(s_has_event(SINK_STORE_DAMAGED, "bytes cannot be read"));
        must_write(store, run, 1, 30); /* as a spool has it */
        assert_int_equal(must_read(run, &last).damaged_bytes, size);
        assert_int_equal(last, 30);
        sink_store_close(&store);
    }
}

static void
test_a_segment_no_longer_than_its_header_was_never_written_to(void **state)
{
    (void)state;
    char path[700];
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    sink_store_close(&store);
    s_path(RUN, "000001.journal", path);
    assert_int_equal(truncate(path, 60), 0);
    store = must_open_store(s_dir);
    assert_int_equal(s_size(RUN, "000001.journal") + s_size(RUN, "000001.journal.damaged"), 0);
    assert_false(s_has_event(SINK_STORE_DAMAGED, ""));
    must_write(store, RUN, 1, 10);
    sink_store_close(&store);
}

static void
test_what_is_cut_off_as_torn_is_kept(void **state)
{
    (void)state;
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    size_t from = s_size(RUN, "000001.journal");
    must_write(store, RUN, 11, 20);
    size_t size = s_size(RUN, "000001.journal");
    sink_store_close(&store);
    must_spoil(RUN, "000001.journal", from + 4, from + 8);
    store = must_open_store(s_dir);
    assert_int_equal(must_row(store, RUN).committed, 10);
    assert_int_equal(s_size(RUN, "000001.journal"), from);
    assert_int_equal(s_size(RUN, "000001.journal.torn"), size - from);
    sink_store_close(&store);
}

static void
test_one_journal_that_cannot_be_read_stops_nobody_else(void **state)
{
    (void)state;
    char path[700], away[700];
    crema_id_t run_id = frames_id(RUN);
    sink_store_t *store = must_open_store(s_dir);
    must_write(store, RUN, 1, 10);
    must_write(store, OTHER, 1, 10);
    sink_store_close(&store);
    s_path(RUN, "000001.journal", path);
    s_path(RUN, "away", away);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* as good as EACCES, also for root */

    store = must_open_store(s_dir);
    assert_int_equal(sink_store_report(store).aside, 1);
    assert_true(s_has_event(SINK_STORE_ASIDE, "000001.journal"));
    assert_non_null(
        strstr(sink_store_find(store, &run_id)->aside, "000001.journal: Is a directory"));
    must_write(store, OTHER, 11, 20);
    assert_int_equal(s_put(store, RUN, RUN, 1, 10), CREMA_EIO); /* never begun again at 1 */
    assert_int_equal(s_put(store, 2, RUN, 1, 10), CREMA_EIO);
    assert_int_equal(store_free(store, &run_id), CREMA_EINVAL);

    assert_int_equal(rmdir(path), 0); /* somebody mends it */
    assert_int_equal(rename(away, path), 0);
    sink_store_tick(store, 2 * SECOND_NS);
    assert_int_equal(s_put(store, RUN, RUN, 11, 20), CREMA_EIO);
    sink_store_tick(store, 7 * SECOND_NS);
    must_write(store, RUN, 11, 20);
    assert_true(s_has_event(SINK_STORE_BACK, ""));
    assert_int_equal(must_row(store, RUN).committed, 20);
    assert_int_equal(sink_store_report(store).aside, 0);
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_what_damage_took_is_asked_for_again),
        T(test_damage_before_the_newest_checkpoint_is_asked_for_again),
        T(test_damage_while_a_run_is_open_is_found_before_its_list_is_confirmed),
        T(test_damage_in_a_run_that_is_written_all_the_time_is_asked_for_again),
        T(test_a_large_journal_is_read_once_more_piece_by_piece),
        T(test_damage_before_the_newest_checkpoint_is_told_to_the_number),
        T(test_a_journal_of_which_nothing_can_be_read_is_kept),
        T(test_a_segment_no_longer_than_its_header_was_never_written_to),
        T(test_what_is_cut_off_as_torn_is_kept),
        T(test_one_journal_that_cannot_be_read_stops_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
