/* Which runs have a live file. No process is started: nothing is reported to it. */
#include "must.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "record_frames.h"
#include "sink_viewing.h"
#include "sink_views.h"

static char *s_dir;
static sink_views_t *s_views;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    return sink_views_new(s_dir, s_dir, INT64_C(1000000000), &s_views) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_views_destroy(&s_views);
    scratch_remove(&s_dir);
    return 0;
}

static crema_err_t
s_feed(uint8_t run)
{
    const crema_id_t id = frames_id(run);
    return sink_views_feed(s_views, &id, (sink_journal_position_t){1, 1000});
}

static void
s_yield(uint8_t run)
{
    const crema_id_t id = frames_id(run);
    sink_views_yield(s_views, &id);
}

/* Fills all places. */
static void
must_fill(void)
{
    for (uint8_t run = 1; run <= SINK_VIEWS_MAX; run++)
        must(s_feed(run));
    assert_int_equal(s_feed(101), CREMA_ELIMIT);
}

/* A run that is never sealed must not keep its place for as long as the sink lives. */
static void
test_a_run_that_cannot_be_sealed_makes_room(void **state)
{
    (void)state;
    char path[PATH_MAX];
    const crema_id_t id = frames_id(7);
    must_fill();
    int fd = open(sink_viewing_path(s_dir, &id, path), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    s_yield(7);
    s_yield(102);                            /* it has none */
    assert_int_equal(access(path, F_OK), 0); /* nobody needs the place yet */
    must(s_feed(8));
    assert_int_equal(access(path, F_OK), 0);
    must(s_feed(101));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(s_feed(102), CREMA_ELIMIT);
    assert_int_equal(s_feed(7), CREMA_ELIMIT);
}

static void
test_a_run_that_grows_again_keeps_its_live_file(void **state)
{
    (void)state;
    must_fill();
    s_yield(7);
    must(s_feed(7));
    assert_int_equal(s_feed(101), CREMA_ELIMIT);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_run_that_cannot_be_sealed_makes_room),
        T(test_a_run_that_grows_again_keeps_its_live_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
