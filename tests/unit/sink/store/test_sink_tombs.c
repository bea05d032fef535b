/* Tombstones: a run counts when all of it is there, and not before; a file of an earlier version,
 * which named the streams, is read and made small. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "record_frames.h"
#include "sink_past.h"
#include "sink_segment.h"
#include "sink_store.h"
#include "sink_tombs.h"

#define OLD_PER_FRAME 40000u /* streams */

static char *s_dir;
static char s_path[600];

/* How many runs the file names; *ret_n: see sink_tombs_read(). */
static size_t
must_read(size_t *ret_n)
{
    sink_ids_t runs = {0};
    must(sink_tombs_read(s_dir, &runs, ret_n));
    sink_ids_sort(&runs);
    const size_t n = runs.n;
    sink_ids_clear(&runs);
    return n;
}

static size_t
s_runs(void)
{
    size_t ignored;
    return must_read(&ignored);
}

static off_t
s_size(void)
{
    struct stat st;
    assert_int_equal(stat(s_path, &st), 0);
    return st.st_size;
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    snprintf(s_path, sizeof s_path, "%s/tombstones", s_dir);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

static void
must_add(uint8_t run)
{
    crema_id_t run_id = frames_id(run);
    must(sink_tombs_add(s_dir, &run_id, 1));
}

/* As version 0.1.0 wrote it: run, revision, how many streams in all, number of the first one here,
 * then stream and last number of each. */
static void
must_add_old(uint8_t run, int64_t revision, size_t n)
{
    static uint8_t bytes[CREMA_FRAME_HEADER_BYTES + 40 + OLD_PER_FRAME * 24];
    FILE *file = fopen(s_path, "ab");
    assert_non_null(file);
    for (size_t done = 0; done < n || done == 0;) {
        size_t part = n - done < OLD_PER_FRAME ? n - done : OLD_PER_FRAME;
        uint8_t *body = bytes + CREMA_FRAME_HEADER_BYTES;
        crema_id_t run_id = frames_id(run);
        memcpy(body, run_id.bytes, CREMA_ID_BYTES);
        crema_put_u64(body + 16, (uint64_t)revision);
        crema_put_u64(body + 24, n);
        crema_put_u64(body + 32, done);
        memset(body + 40, 7, part * 24);
        crema_frame_t frame = {
            .type = SINK_TOMBSTONES_FRAME, .len = (uint32_t)(40 + part * 24), .body = body};
        crema_frame_encode(&frame, bytes);
        assert_int_equal(fwrite(bytes, 1, crema_frame_bytes(&frame), file),
                         crema_frame_bytes(&frame));
        done += part ? part : 1;
    }
    fclose(file);
}

static void
test_tombs_of_no_file_are_none(void **state)
{
    (void)state;
    assert_int_equal(s_runs(), 0);
}

static void
test_tombs_are_read_again_and_take_one_frame_per_run(void **state)
{
    (void)state;
    must_add(1);
    off_t one = s_size();
    assert_in_range(one, 1, 100);
    for (uint8_t run = 2; run <= 100; run++)
        must_add(run);
    size_t n;
    assert_int_equal(must_read(&n), 100);
    assert_int_equal(n, 100);
    assert_int_equal(s_size(), 100 * one);
}

static void
test_tombs_that_are_torn_do_not_count(void **state)
{
    (void)state;
    must_add(1);
    off_t whole = s_size();
    must_add(2);
    for (off_t size = s_size() - 1; size >= whole; size--) {
        assert_int_equal(truncate(s_path, size), 0);
        assert_int_equal(s_runs(), 1);
    }
    must_add(2); /* again, behind the torn one */
    assert_int_equal(s_runs(), 2);
}

static void
test_tombs_of_an_earlier_version_are_read_and_made_small(void **state)
{
    (void)state;
    char why[512];
    size_t n;
    sink_store_t *store;
    const sink_store_config_t config = {.dir = s_dir, .streams_max = 10, .runs_max = 10};
    must_add_old(1, 1, 0);
    must_add_old(2, 5, 3);
    must_add_old(3, 6, 100000);
    must_add_old(4, 7, 100000);
    off_t large = s_size();
    assert_int_equal(truncate(s_path, large - 1), 0); /* two of its three frames are whole */
    assert_int_equal(must_read(&n), 3);
    assert_in_range(n, SINK_PAST_LATEST + 1, SIZE_MAX);
    for (int start = 0; start < 2; start++) {
        must(sink_store_open(&config, why, sizeof why, &store));
        assert_int_equal(sink_store_known(store), 3);
        for (uint8_t run = 1; run <= 4; run++) {
            const crema_id_t run_id = frames_id(run);
            const sink_run_t *found = sink_store_find(store, &run_id);
            assert_true(run < 4 ? found && found->freed : !found);
        }
        assert_int_equal(s_size(), 0);
        sink_store_close(&store);
    }
    must_add(4);
    assert_int_equal(s_runs(), 1);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_tombs_of_no_file_are_none),
        T(test_tombs_are_read_again_and_take_one_frame_per_run),
        T(test_tombs_that_are_torn_do_not_count),
        T(test_tombs_of_an_earlier_version_are_read_and_made_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
