/* Tombstones: a run counts when all of it is there, and not before. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frames.h"
#include "sink_tombs.h"

static char *s_dir;

typedef struct {
    unsigned runs;
    size_t streams;
    uint64_t finals; /* sum */
    int64_t revision;
} seen_t;

static crema_err_t
s_on_run(void *context, const crema_id_t *run_id, int64_t revision, const sink_tomb_t *tombs,
         size_t n)
{
    seen_t *seen = context;
    (void)run_id;
    seen->runs++;
    seen->streams += n;
    seen->revision = revision;
    for (size_t i = 0; i < n; i++)
        seen->finals += tombs[i].final_seq;
    return CREMA_OK;
}

static seen_t
must_read(void)
{
    seen_t seen = {0};
    must(sink_tombs_read(s_dir, s_on_run, &seen));
    return seen;
}

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

static void
must_add(uint8_t run, int64_t revision, size_t n)
{
    crema_id_t run_id = frames_id(run);
    sink_tomb_t *tombs = calloc(n + 1, sizeof *tombs);
    assert_non_null(tombs);
    for (size_t i = 0; i < n; i++) {
        memcpy(tombs[i].stream_id.bytes, &i, sizeof i);
        tombs[i].final_seq = i + 1;
    }
    must(sink_tombs_add(s_dir, &run_id, revision, tombs, n));
    free(tombs);
}

static void
test_tombs_of_no_file_are_none(void **state)
{
    (void)state;
    assert_int_equal(must_read().runs, 0);
}

static void
test_tombs_are_read_again_whatever_their_number(void **state)
{
    (void)state;
    must_add(1, 7, 0);
    must_add(2, 8, 3);
    seen_t seen = must_read();
    assert_int_equal(seen.runs, 2);
    assert_int_equal(seen.streams, 3);
    assert_int_equal(seen.finals, 6);
    assert_int_equal(seen.revision, 8);
    must_add(3, 9, 100000); /* more than one frame holds */
    seen = must_read();
    assert_int_equal(seen.runs, 3);
    assert_int_equal(seen.streams, 100003);
    assert_int_equal(seen.finals, 6 + (uint64_t)100000 * 100001 / 2);
}

static void
test_tombs_of_a_torn_run_do_not_count(void **state)
{
    (void)state;
    char path[600];
    struct stat whole, st;
    must_add(1, 1, 2);
    snprintf(path, sizeof path, "%s/tombstones", s_dir);
    assert_int_equal(stat(path, &whole), 0);
    must_add(2, 1, 100000);
    assert_int_equal(stat(path, &st), 0);
    for (off_t size = st.st_size - 1; size > whole.st_size; size = size * 9 / 10) {
        if (size < whole.st_size)
            break;
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(must_read().runs, 1);
    }
    must_add(2, 1, 100000); /* again, behind the torn one */
    seen_t seen = must_read();
    assert_int_equal(seen.runs, 2);
    assert_int_equal(seen.streams, 100002);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0); /* two of its three frames are whole */
    assert_int_equal(must_read().runs, 1);
    must_add(2, 1, 100000);
    seen = must_read();
    assert_int_equal(seen.runs, 2);
    assert_int_equal(seen.streams, 100002);
    assert_int_equal(seen.finals, 3 + (uint64_t)100000 * 100001 / 2);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_tombs_of_no_file_are_none),
        T(test_tombs_are_read_again_whatever_their_number),
        T(test_tombs_of_a_torn_run_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
