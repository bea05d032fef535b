/* Runs that were freed long ago: each is found, no other is, damage costs no more than what it
 * hit, and tombstones become part of them. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "record_frames.h"
#include "sink_ids.h"
#include "sink_past.h"
#include "sink_store.h"
#include "sink_tombs.h"

#define MANY 3000u

static char *s_dir;
static crema_id_t s_ids[MANY + 1];

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make_in_memory(32);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

/* `n` of s_ids from `from` on. */
static sink_ids_t
s_some(uint32_t from, uint32_t n)
{
    return (sink_ids_t){.ids = s_ids + from, .n = n};
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

static unsigned
s_found(const sink_past_t *past, uint32_t from, uint32_t to)
{
    unsigned n = 0;
    for (uint32_t i = from; i < to; i++) {
        const crema_id_t id = s_id(i);
        n += sink_past_has(past, &id);
    }
    return n;
}

static void
s_path(const char *name, char path[600])
{
    snprintf(path, 600, "%s/%s", s_dir, name);
}

static size_t
s_size(const char *name)
{
    char path[600];
    struct stat st;
    s_path(name, path);
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void
must_spoil(size_t at)
{
    char path[600];
    s_path("freed", path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(0xa5, file);
    fclose(file);
}

static void
test_past_of_no_file_is_empty(void **state)
{
    (void)state;
    sink_past_t past;
    must(sink_past_open(&past, s_dir));
    assert_int_equal(s_found(&past, 0, 10), 0);
    sink_past_clear(&past);
}

static void
test_past_runs_are_found_and_no_others(void **state)
{
    (void)state;
    sink_past_t past;
    must(sink_past_open(&past, s_dir));
    for (uint32_t i = 0; i < MANY; i++)
        s_ids[i] = s_id(i);
    const sink_ids_t parts[] = {s_some(0, 1), s_some(0, MANY / 2) /* the first one again */,
                                s_some(MANY / 2, MANY / 2)};
    for (size_t i = 0; i < 3; i++)
        must(sink_past_add(&past, s_dir, &parts[i]));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(past.n, MANY);
        assert_int_equal(s_found(&past, 0, MANY), MANY);
        assert_int_equal(s_found(&past, MANY, 2 * MANY), 0);
        sink_past_clear(&past);
        must(sink_past_open(&past, s_dir));
    }
    sink_past_clear(&past);
}

static void
test_past_that_is_damaged_loses_a_block(void **state)
{
    (void)state;
    sink_past_t past;
    must(sink_past_open(&past, s_dir));
    for (uint32_t i = 0; i < MANY; i++)
        s_ids[i] = s_id(i);
    const sink_ids_t all = s_some(0, MANY);
    must(sink_past_add(&past, s_dir, &all));
    sink_past_clear(&past);
    must_spoil(s_size("freed") / 2);
    must(sink_past_open(&past, s_dir));
    assert_int_equal(s_found(&past, 0, MANY), MANY - SINK_PAST_BLOCK);
    sink_past_clear(&past);
    must_spoil(40); /* in the head: it is made anew of what can be read */
    must(sink_past_open(&past, s_dir));
    assert_int_equal(past.n, MANY - SINK_PAST_BLOCK);
    assert_int_equal(s_found(&past, 0, MANY), MANY - SINK_PAST_BLOCK);
    sink_past_clear(&past);
}

static void
test_tombstones_become_part_of_the_past(void **state)
{
    (void)state;
    char why[512];
    sink_store_t *store;
    const sink_store_config_t config = {.dir = s_dir, .streams_max = 10, .runs_max = 10};
    const uint32_t n = SINK_PAST_LATEST + 1;
    for (uint32_t i = 0; i < n; i++) {
        const crema_id_t id = s_id(i);
        must(sink_tombs_add(s_dir, &id, 1));
    }
    for (int start = 0; start < 2; start++) {
        must(sink_store_open(&config, why, sizeof why, &store));
        assert_int_equal(s_size("tombstones"), 0);
        assert_int_equal(sink_store_known(store), n);
        for (uint32_t i = 0; i < n; i++) {
            const crema_id_t id = s_id(i);
            assert_true(sink_store_find(store, &id)->freed);
        }
        const crema_id_t other = s_id(n);
        assert_null(sink_store_find(store, &other));
        sink_store_close(&store);
    }
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
            s_ids[i] = s_id(i);
            must(sink_ids_add(&freed, &s_ids[i]));
        }
        sink_ids_remove(&freed, &unknown);
        sink_ids_remove(&freed, &id);
        assert_int_equal(freed.n, N - 1);
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(sink_ids_has(&freed, &s_ids[i]), i != gone);
        sink_ids_clear(&freed);
    }
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_past_of_no_file_is_empty),           T(test_past_runs_are_found_and_no_others),
        T(test_past_that_is_damaged_loses_a_block), T(test_tombstones_become_part_of_the_past),
        T(test_ids_without_one_have_all_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
