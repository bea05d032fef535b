/* Live files of the runs that go on: begun with the first commit, complete even after a restart,
 * gone when the run is sealed. */
#include "journal_sync.h"
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "record_frames.h"
#include "sink_journal.h"
#include "sink_viewer.h"
#include "sink_viewing.h"

static char *s_dir;
static char s_journal_dir[512], s_live[512];
static sink_viewer_t *s_viewer;
static sink_journal_t *s_journal;
static crema_id_t s_store, s_run;
static frames_t s_frames;
static sink_viewer_config_t s_config;

static int
s_setup(void **state)
{
    (void)state;
    char name[37];
    s_dir = scratch_make();
    s_store = frames_id(1);
    s_run = frames_id(2);
    snprintf(s_journal_dir, sizeof s_journal_dir, "%s/%s", s_dir, crema_id_uuid(&s_run, name));
    snprintf(s_live, sizeof s_live, "%s/%s.live.h5", s_dir, crema_id_uuid(&s_run, name));
    char where[PATH_MAX];
    sink_journal_report_t report;
    must(sink_journal_open(s_journal_dir, &s_store, &s_run, 1, NULL, &report, where, &s_journal));
    s_config = (sink_viewer_config_t){s_dir, s_dir, 1, 1};
    must(sink_viewer_new(&s_config, &s_viewer));
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_viewer_destroy(&s_viewer);
    sink_journal_close(&s_journal);
    scratch_remove(&s_dir);
    return 0;
}

/* A record of one activity name each, as numbers first..last of a stream, committed. */
static void
must_commit(uint64_t first, uint64_t last)
{
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, last);
    sink_journal_put_t put = {
        .stream_id = frames_id(3),
        .agent_id = frames_id(4),
        .first_seq = first,
        .n = s_frames.n,
        .frames = s_frames.bytes,
        .frames_bytes = s_frames.size,
        .t_recv_ns = 1,
    };
    must(sink_journal_put(s_journal, &put));
    must(journal_sync(s_journal));
}

/* What the serving sink says of a run, and all that follows from it. */
static void
must_take(const sink_viewing_t *viewing)
{
    char line[SINK_VIEWING_BYTES];
    sink_viewer_take(s_viewer, sink_viewing_line(viewing, line));
    while (sink_viewer_step(s_viewer))
        ;
}

static void
must_grow(const crema_id_t *run_id)
{
    must_take(&(sink_viewing_t){.run_id = *run_id, .position = sink_journal_position(s_journal)});
}

static void
must_end(void)
{
    must_take(&(sink_viewing_t){.ended = true, .run_id = s_run});
}

static void
must_flush(void)
{
    sink_viewer_flush(s_viewer);
}

/* Rows of a table as a reader sees them now. */
static hsize_t
s_rows(const char *table)
{
    hid_t file = H5Fopen(s_live, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT);
    assert_true(file >= 0);
    hid_t set = H5Dopen2(file, table, H5P_DEFAULT), space = H5Dget_space(set);
    hsize_t rows = 0;
    assert_int_equal(H5Sget_simple_extent_dims(space, &rows, NULL), 1);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    return rows;
}

static void
test_view_shows_what_was_committed(void **state)
{
    (void)state;
    must_commit(1, 3);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 3);
    must_commit(4, 4);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 4);
}

static void
test_view_after_a_restart_holds_all_of_the_run(void **state)
{
    (void)state;
    must_commit(1, 3);
    must_grow(&s_run);
    sink_viewer_destroy(&s_viewer);
    must(sink_viewer_new(&s_config, &s_viewer));
    must_commit(4, 5);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 5);
}

static void
test_view_is_gone_when_the_run_has_its_file(void **state)
{
    (void)state;
    struct stat st;
    must_commit(1, 3);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(stat(s_live, &st), 0);
    must_end();
    assert_int_equal(stat(s_live, &st), -1);
    must_end();
    fclose(fopen(s_live, "w")); /* one that an earlier sink left */
    must_end();
    assert_int_equal(stat(s_live, &st), -1);
}

static void
test_view_that_cannot_be_made_is_given_up(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(mkdir(s_live, 0700), 0);
    must_commit(1, 3);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(rmdir(s_live), 0);
    must_commit(4, 4);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(stat(s_live, &st), -1);
}

static void
test_views_are_bounded(void **state)
{
    (void)state;
    char name[37], other_live[512];
    struct stat st;
    const crema_id_t other = frames_id(7);
    must_commit(1, 3);
    must_grow(&s_run);
    must_grow(&other);
    must_flush();
    snprintf(other_live, sizeof other_live, "%s/%s.live.h5", s_dir, crema_id_uuid(&other, name));
    assert_int_equal(stat(other_live, &st), -1);
    assert_int_equal(s_rows("dict/activity"), 3);
}

/* It shows what is durable, not what is written: the place it is given is where it stops. */
static void
test_view_ends_where_the_sink_says(void **state)
{
    (void)state;
    must_commit(1, 3);
    const sink_journal_position_t place = sink_journal_position(s_journal);
    must_commit(4, 9);
    must_take(&(sink_viewing_t){.run_id = s_run, .position = place});
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 3);
}

/* A journal has a segment more with each start of its sink. */
static void
test_view_reads_on_over_segments(void **state)
{
    (void)state;
    char where[PATH_MAX];
    sink_journal_report_t report;
    must_commit(1, 3);
    must_grow(&s_run);
    for (uint64_t i = 0; i < 3; i++) {
        sink_journal_close(&s_journal);
        must(sink_journal_open(s_journal_dir, &s_store, &s_run, 2 + i, NULL, &report, where,
                               &s_journal));
        must_commit(4 + i, 4 + i);
    }
    must_grow(&s_run);
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 6);
}

static void
test_what_is_no_line_is_passed_over(void **state)
{
    (void)state;
    sink_viewing_t viewing;
    static const char *const c_lines[] = {"",
                                          "grown",
                                          "grown x 1 2",
                                          "ended",
                                          "grown 0 1",
                                          "shrunk 01234567-89ab-cdef-0123-456789abcdef 1 2",
                                          "ended 01234567-89ab-cdef-0123-456789abcdef 1 2"};
    for (size_t i = 0; i < sizeof c_lines / sizeof *c_lines; i++) {
        assert_false(sink_viewing_parse(c_lines[i], &viewing));
        sink_viewer_take(s_viewer, c_lines[i]);
    }
    assert_false(sink_viewer_step(s_viewer));
}

/* Whoever looks at it can tell a run in which nothing happens from one whose sink is gone. */
static void
test_a_live_file_is_touched_while_nothing_comes(void **state)
{
    (void)state;
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat status;
    must_commit(1, 2);
    must_grow(&s_run);
    must_flush();
    assert_int_equal(utimensat(AT_FDCWD, s_live, old, 0), 0);
    must_flush();
    assert_int_equal(stat(s_live, &status), 0);
    assert_true(status.st_mtim.tv_sec > 1000);
}

int
main(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_live_file_is_touched_while_nothing_comes),
        T(test_view_shows_what_was_committed),
        T(test_view_after_a_restart_holds_all_of_the_run),
        T(test_view_is_gone_when_the_run_has_its_file),
        T(test_view_that_cannot_be_made_is_given_up),
        T(test_view_ends_where_the_sink_says),
        T(test_view_reads_on_over_segments),
        T(test_what_is_no_line_is_passed_over),
        T(test_views_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
