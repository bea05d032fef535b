/* What was refused of freed runs: known again after a restart, counted once, and never more than a
 * bounded file. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "record_frames.h"
#include "sink_refused.h"

static char *s_dir;
static sink_refused_t s_refused;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    must(sink_refused_read(&s_refused, s_dir));
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_refused_clear(&s_refused);
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

static crema_id_t
s_id(uint8_t kind, unsigned n)
{
    crema_id_t id = frames_id(kind);
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static crema_err_t
s_keep(void)
{
    bool begins;
    crema_err_t err = sink_refused_begin(&s_refused, &begins);
    if (begins) {
        sink_refused_write(&s_refused, s_dir);
        err = s_refused.err;
        sink_refused_end(&s_refused);
    }
    return err;
}

static bool
s_note(unsigned run, unsigned stream, uint64_t first, uint64_t last)
{
    bool is_new;
    crema_id_t run_id = s_id(7, run), stream_id = s_id(9, stream);
    must(sink_refused_note(&s_refused, &run_id, &stream_id, first, last, &is_new));
    return is_new;
}

static void
must_restart(void)
{
    must(s_keep());
    sink_refused_clear(&s_refused);
    must(sink_refused_read(&s_refused, s_dir));
}

static off_t
s_size(char path[600])
{
    struct stat st;
    snprintf(path, 600, "%s/refused", s_dir);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* ---- tests */

static void
test_refused_numbers_count_once(void **state)
{
    (void)state;
    char path[600];
    assert_false(s_note(1, 1, 6, 5)); /* nothing is held */
    must(s_keep());
    assert_int_equal(s_size(path), 0);
    for (int round = 0; round < 3; round++) {
        assert_true(s_note(1, 1, 6, 12) == (round == 0));
        assert_true(s_note(1, 2, 1, 3) == (round == 0));
        assert_false(s_note(1, 1, 8, 10));
        assert_int_equal(sink_refused_records(&s_refused), 10);
        must_restart();
    }
    assert_true(s_note(1, 1, 8, 13)); /* the spool grew */
    assert_true(s_note(1, 1, 5, 7));  /* an older copy of it */
    must_restart();
    assert_int_equal(sink_refused_records(&s_refused), 12);
}

static void
test_refused_streams_beyond_the_limit_are_counted_together(void **state)
{
    (void)state;
    char path[600];
    for (unsigned i = 0; i < SINK_REFUSED_STREAMS_MAX + 10; i++)
        assert_true(s_note(1, i, 1, 2));
    must_restart();
    assert_int_equal(s_refused.n, SINK_REFUSED_STREAMS_MAX + 1);
    assert_int_equal(sink_refused_records(&s_refused), 2 * SINK_REFUSED_STREAMS_MAX + 20);
    assert_true(s_note(1, SINK_REFUSED_STREAMS_MAX + 1, 1, 5));
    must_restart();
    assert_int_equal(sink_refused_records(&s_refused), 2 * SINK_REFUSED_STREAMS_MAX + 25);
    for (unsigned run = 2; run < 2 * SINK_REFUSED_LINES_MAX + 100; run++)
        assert_true(s_note(run, 1, 1, 1));
    must_restart();
    assert_int_equal(s_refused.n, 2 * SINK_REFUSED_LINES_MAX + 1);
    assert_int_equal(sink_refused_records(&s_refused),
                     2 * SINK_REFUSED_STREAMS_MAX + 25 + 2 * SINK_REFUSED_LINES_MAX + 98);
    off_t full = s_size(path);
    assert_true(full < 1 << 20);
    assert_true(s_note(1u << 30, 1, 1, UINT64_MAX)); /* no sum overflows */
    must_restart();
    assert_int_equal(s_size(path), full);
    assert_int_equal(sink_refused_records(&s_refused), UINT64_MAX);
}

static void
test_refused_lines_are_found_behind_damage(void **state)
{
    (void)state;
    char path[600];
    for (unsigned i = 0; i < 3; i++)
        s_note(1, i, 1, 1);
    must(s_keep());
    off_t size = s_size(path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, size / 3 + 40, SEEK_SET);
    fputc(0x55, file);
    fclose(file);
    sink_refused_clear(&s_refused);
    must(sink_refused_read(&s_refused, s_dir));
    assert_int_equal(s_refused.n, 2);
    assert_true(s_note(1, 1, 1, 1));
    must_restart();
    assert_int_equal(s_refused.n, 3);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_refused_numbers_count_once),
        T(test_refused_streams_beyond_the_limit_are_counted_together),
        T(test_refused_lines_are_found_behind_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
