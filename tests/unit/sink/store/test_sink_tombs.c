/* Tombstones: a run counts when all of its frame is there, and not before; many small frames
 * become few large ones, and damage costs no more than the frame that it hit. */
#include "must.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_frame.h"
#include "record_frames.h"
#include "sink_store.h"
#include "sink_tombs.h"

#define MANY 10000u

static char *s_dir;
static char s_path[600];

/* How many runs the file names. */
static size_t
must_read(size_t *ret_frames)
{
    sink_ids_t runs = {0};
    must(sink_tombs_read(s_dir, &runs, ret_frames));
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
    s_dir = scratch_make_in_memory(32);
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

/* In no order, half of them close together as ids that begin with a time are. */
static crema_id_t
s_id(uint32_t i)
{
    crema_id_t id = {{0}};
    uint32_t mixed = i * 2654435761u;
    memcpy(id.bytes + (i % 2 ? 0 : 12), &mixed, sizeof mixed);
    memcpy(id.bytes + 6, &i, sizeof i);
    return id;
}

static sink_store_t *
must_open(void)
{
    char why[512];
    sink_store_t *store;
    const sink_store_config_t config = {.dir = s_dir, .streams_max = 10, .runs_max = 10};
    must(sink_store_open(&config, why, sizeof why, &store));
    return store;
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

/* All of those that are freed together count, or none. */
static void
test_tombs_added_together_are_torn_together(void **state)
{
    (void)state;
    crema_id_t ids[64];
    for (uint32_t i = 0; i < 64; i++)
        ids[i] = s_id(i);
    must_add(1);
    must(sink_tombs_add(s_dir, ids, 64));
    assert_int_equal(s_runs(), 65);
    assert_int_equal(truncate(s_path, s_size() - 1), 0);
    assert_int_equal(s_runs(), 1);
}

static void
test_tombs_in_many_frames_become_few(void **state)
{
    (void)state;
    size_t frames;
    const uint32_t n = SINK_TOMBS_FRAMES_MAX + 1;
    for (uint32_t i = 0; i < n; i++) {
        const crema_id_t id = s_id(i);
        must(sink_tombs_add(s_dir, &id, 1));
    }
    for (int start = 0; start < 2; start++) {
        sink_store_t *store = must_open();
        assert_int_equal(must_read(&frames), n);
        assert_int_equal(frames, 1);
        assert_int_equal(sink_store_known(store), n);
        for (uint32_t i = 0; i < n; i++) {
            const crema_id_t id = s_id(i);
            assert_true(sink_store_find(store, &id)->freed);
        }
        const crema_id_t other = s_id(n);
        assert_null(sink_store_find(store, &other));
        sink_store_close(&store);
    }
    const crema_id_t late = s_id(n), first = s_id(0);
    must(sink_tombs_add(s_dir, &late, 1));
    must(sink_tombs_add(s_dir, &first, 1)); /* again */
    assert_int_equal(must_read(&frames), n + 1);
    assert_int_equal(frames, 3);
}

static void
test_tombs_that_are_damaged_lose_a_frame(void **state)
{
    (void)state;
    sink_ids_t ids = {0};
    size_t frames;
    for (uint32_t i = 0; i < MANY; i++) {
        const crema_id_t id = s_id(i);
        must(sink_ids_append(&ids, &id));
    }
    must(sink_tombs_replace(s_dir, &ids));
    sink_ids_clear(&ids);
    assert_int_equal(must_read(&frames), MANY);
    assert_int_equal(frames, 3);
    FILE *file = fopen(s_path, "r+b");
    assert_non_null(file);
    fseek(file, s_size() / 2, SEEK_SET);
    fputc(0xa5, file);
    fclose(file);
    assert_int_equal(s_runs(), MANY - SINK_TOMBS_AT_ONCE);
}

static void
test_ids_without_one_have_all_others(void **state)
{
    (void)state;
    enum { N = 7 };
    for (uint32_t gone = 0; gone < N; gone++) {
        sink_ids_t freed = {0};
        const crema_id_t id = s_id(gone), unknown = s_id(N);
        for (uint32_t i = 0; i < N; i++) {
            const crema_id_t one = s_id(i);
            must(sink_ids_add(&freed, &one));
        }
        sink_ids_remove(&freed, &unknown);
        sink_ids_remove(&freed, &id);
        assert_int_equal(freed.n, N - 1);
        for (uint32_t i = 0; i < N; i++) {
            const crema_id_t one = s_id(i);
            assert_int_equal(sink_ids_has(&freed, &one), i != gone);
        }
        sink_ids_clear(&freed);
    }
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_tombs_of_no_file_are_none),
        T(test_tombs_are_read_again_and_take_one_frame_per_run),
        T(test_tombs_that_are_torn_do_not_count),
        T(test_tombs_added_together_are_torn_together),
        T(test_tombs_in_many_frames_become_few),
        T(test_tombs_that_are_damaged_lose_a_frame),
        T(test_ids_without_one_have_all_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
