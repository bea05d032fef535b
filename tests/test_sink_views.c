/* Live files of the runs that go on: begun with the first commit, complete even after a restart, gone when the run is sealed. */
#include "must.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "frames.h"
#include "sink_journal.h"
#include "sink_views.h"

static char *s_dir;
static char s_journal_dir[512], s_live[512];
static sink_views_t *s_views;
static sink_journal_t *s_journal;
static crema_id_t s_store, s_run;
static frames_t s_frames;

static int
s_setup(void **state)
{
    (void)state;
    char name[37];
    s_dir = scratch_make();
    s_store = frames_id(1);
    s_run = frames_id(2);
    snprintf(s_journal_dir, sizeof s_journal_dir, "%s/journal", s_dir);
    snprintf(s_live, sizeof s_live, "%s/%s.live.h5", s_dir, crema_id_uuid(&s_run, name));
    must(sink_journal_open(s_journal_dir, &s_store, &s_run, 1, &s_journal));
    must(sink_views_new(s_dir, 1, &s_views));
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_views_destroy(&s_views);
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
    must(sink_journal_sync(s_journal));
}

static void
must_flush(void)
{
    crema_id_t failed;
    must(sink_views_flush(s_views, &failed));
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
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 3);
    must_commit(4, 4);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 4);
}

static void
test_view_after_a_restart_holds_all_of_the_run(void **state)
{
    (void)state;
    must_commit(1, 3);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    sink_views_destroy(&s_views);
    must(sink_views_new(s_dir, 1, &s_views));
    must_commit(4, 5);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    must_flush();
    assert_int_equal(s_rows("dict/activity"), 5);
}

static void
test_view_is_gone_when_the_run_has_its_file(void **state)
{
    (void)state;
    struct stat st;
    must_commit(1, 3);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    must_flush();
    assert_int_equal(stat(s_live, &st), 0);
    sink_views_end(s_views, &s_run);
    assert_int_equal(stat(s_live, &st), -1);
    sink_views_end(s_views, &s_run);
    fclose(fopen(s_live, "w")); /* one that an earlier sink left */
    sink_views_end(s_views, &s_run);
    assert_int_equal(stat(s_live, &st), -1);
}

static void
test_view_that_cannot_be_made_is_told_once(void **state)
{
    (void)state;
    crema_id_t failed = {{0}};
    assert_int_equal(mkdir(s_live, 0700), 0);
    must_commit(1, 3);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    assert_int_equal(sink_views_flush(s_views, &failed), CREMA_EH5);
    assert_true(crema_id_equal(&failed, &s_run));
    must_commit(4, 4);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    must_flush();
}

static void
test_views_are_bounded(void **state)
{
    (void)state;
    crema_id_t other = frames_id(7);
    must_commit(1, 3);
    must(sink_views_feed(s_views, &s_run, s_journal, s_journal_dir));
    assert_int_equal(sink_views_feed(s_views, &other, s_journal, s_journal_dir), CREMA_ELIMIT);
}

int
main(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_view_shows_what_was_committed),
        T(test_view_after_a_restart_holds_all_of_the_run),
        T(test_view_is_gone_when_the_run_has_its_file),
        T(test_view_that_cannot_be_made_is_told_once),
        T(test_views_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
