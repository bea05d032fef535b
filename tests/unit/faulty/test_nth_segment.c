/* A disk that is full, again and again: a segment that was begun and never written to does not
 * stay, however often it is tried. */
#include "journal_sync.h"
#include "must.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_frame.h"
#include "faulty.h"
#include "message_parts.h"
#include "record_frames.h"
#include "sink_store.h"
#include "store_opened.h"

#define RUN 0x70
#define STREAM 1
#define SECOND_NS INT64_C(1000000000)
#define TRIES 10
#define CHUNK_BYTES ((1u << 20) - 4096)

static char *s_dir;
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make_in_memory(64);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

/* So many writes still work. */
static void
s_fill_disk(uint64_t works)
{
    faulty_arm("write", s_dir, works + 1, EDQUOT);
}

static unsigned
s_segments(const char *dir)
{
    unsigned n = 0;
    DIR *stream = opendir(dir);
    assert_non_null(stream);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        n += strstr(entry->d_name, ".journal") != NULL;
    closedir(stream);
    return n;
}

static sink_store_t *
must_open(void)
{
    sink_store_t *store;
    char why[512];
    sink_store_config_t config = {.dir = s_dir, .streams_max = 100, .runs_max = 10};
    if (sink_store_open(&config, why, sizeof why, &store) != CREMA_OK)
        fail_msg("%s", why);
    must_examine(store);
    return store;
}

static unsigned
s_segments_of_run(const sink_store_t *store)
{
    char path[PATH_MAX];
    crema_id_t id = frames_id(RUN);
    sink_store_run_dir(store, &id, path);
    return s_segments(path);
}

static void
must_put(sink_store_t *store, uint64_t first)
{
    sink_store_put_t answer;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, first + 9);
    Crema__Put put = frames_put(&s_frames, STREAM, RUN, first);
    must(sink_store_put(store, &put, 5000, &answer));
}

static uint64_t
s_committed(sink_store_t *store)
{
    const crema_stream_row_t asked = {.stream_id = frames_id(STREAM), .run_id = frames_id(RUN)};
    crema_stream_row_t row;
    must(sink_store_stream(store, &asked, &row));
    return row.committed;
}

/* ---- tests */

static void
test_a_run_that_cannot_come_to_rest_leaves_no_segments(void **state)
{
    (void)state;
    bool is_new;
    crema_id_t id = frames_id(RUN);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL,
                             .run_seal = {.run_id = body_id(id), .t_verdict_ns = 1}};
    const sink_journal_sealed_t sealed = {.revision = 1};
    sink_store_t *store = must_open();
    must_put(store, 1);
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    must(sink_store_sealed(store, &id, &sealed, 6000));
    must_commit(store);
    int64_t now_ns = SECOND_NS;
    sink_store_tick(store, now_ns);
    for (int i = 0; i < TRIES; i++) {
        s_fill_disk(1); /* of the header */
        sink_store_tick(store, now_ns += 6 * SECOND_NS);
        must(sink_store_commit(store));
        assert_true(faulty_has_failed());
        faulty_disarm();
        assert_int_equal(sink_store_live(store), 1);
        assert_int_equal(s_segments_of_run(store), 1);
    }
    sink_store_tick(store, now_ns += 6 * SECOND_NS); /* there is room */
    must(sink_store_commit(store));
    assert_int_equal(sink_store_live(store), 0);
    assert_int_equal(s_segments_of_run(store), 2);
    assert_int_equal(s_committed(store), 10);
    sink_store_close(&store);
}

static void
test_a_start_on_a_full_disk_leaves_no_segment(void **state)
{
    (void)state;
    sink_store_t *store = must_open();
    must_put(store, 1);
    must_commit(store);
    sink_store_close(&store);
    for (int i = 0; i < TRIES; i++) {
        store = must_open();
        must_put(store, 11);
        s_fill_disk(1); /* of the header */
        assert_int_equal(sink_store_commit(store), CREMA_ENOSPC);
        faulty_disarm();
        sink_store_close(&store);
        store = must_open();
        assert_int_equal(s_segments_of_run(store), 1);
        assert_int_equal(s_committed(store), 10);
        sink_store_close(&store);
    }
}

/* As much as fits into one group, which then is larger than what a segment usually holds. */
static void
test_a_great_group_goes_to_the_segment_that_was_begun_for_it(void **state)
{
    (void)state;
    char where[PATH_MAX];
    sink_journal_t *journal;
    sink_journal_report_t report;
    const crema_id_t store_id = frames_id(1), run_id = frames_id(RUN);
    uint8_t *bytes = calloc(1, CHUNK_BYTES);
    sink_journal_put_t put = {.n = 1, .frames = bytes, .frames_bytes = CHUNK_BYTES};
    crema_err_t err = CREMA_OK;
    assert_non_null(bytes);
    must(sink_journal_open(s_dir, &store_id, &run_id, 1, NULL, &report, where, &journal));
    while (err == CREMA_OK)
        err = sink_journal_put(journal, &put);
    for (put.frames_bytes = 4096; err == CREMA_EAGAIN && put.frames_bytes > 0;
         put.frames_bytes /= 2)
        while ((err = sink_journal_put(journal, &put)) == CREMA_OK)
            ;
    assert_true(sink_journal_pending_bytes(journal) > SINK_GROUP_BYTES_MAX - 256);
    for (int i = 0; i < TRIES; i++) {
        s_fill_disk(i == 0); /* of the header, which is there at the second try */
        assert_int_equal(journal_sync(journal), CREMA_ENOSPC);
        faulty_disarm();
        assert_int_equal(s_segments(s_dir), 1);
    }
    must(journal_sync(journal));
    assert_int_equal(s_segments(s_dir), 1);
    sink_journal_close(&journal);
    free(bytes);
}

/* A segment longer than a header has a header, whatever a power cut took: so it is on the disk
 * before anything follows. */
static void
test_a_segment_is_durable_before_anything_is_in_it(void **state)
{
    (void)state;
    sink_store_t *store = must_open();
    must_put(store, 1);
    must_commit(store);
    sink_store_close(&store);
    store = must_open();
    must_put(store, 11);
    faulty_arm("sync", s_dir, 0, EIO);
    must(sink_store_commit(store));
    assert_int_equal(faulty_disarm(),
                     4); /* its header, its name and its directory's, its first group */
    sink_store_close(&store);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_run_that_cannot_come_to_rest_leaves_no_segments),
        T(test_a_start_on_a_full_disk_leaves_no_segment),
        T(test_a_segment_is_durable_before_anything_is_in_it),
        T(test_a_great_group_goes_to_the_segment_that_was_begun_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
