/* Health: the file is young while all is well, and gone while it is not. */
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "crema_health.h"
#include "record_frames.h"

static char s_dir[SCRATCH_BYTES]; /* a directory of its own for each test */
static char s_path[SCRATCH_BYTES + 16];

static int
s_set_up(void **state)
{
    (void)state;
    scratch_template("health", s_dir);
    assert_non_null(mkdtemp(s_dir));
    snprintf(s_path, sizeof s_path, "%s/healthy", s_dir);
    return 0;
}

static int
s_tear_down(void **state)
{
    (void)state;
    (void)unlink(s_path);
    return rmdir(s_dir);
}

static time_t
s_age(void)
{
    struct stat st;
    assert_int_equal(stat(s_path, &st), 0);
    return time(NULL) - st.st_mtime;
}

static void
s_make_old(void)
{
    const struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600},
                                         {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, s_path, hour_ago, 0), 0);
    assert_true(s_age() >= 3600);
}

static void
test_a_healthy_word_makes_the_file_and_keeps_it_young(void **state)
{
    (void)state;
    crema_health_report(s_path, true);
    assert_true(s_age() < 60);
    s_make_old();
    crema_health_report(s_path, true);
    assert_true(s_age() < 60);
}

static void
test_an_unhealthy_word_takes_the_file_away(void **state)
{
    (void)state;
    crema_health_report(s_path, false);
    assert_int_not_equal(access(s_path, F_OK), 0);
    crema_health_report(s_path, true);
    crema_health_report(s_path, false);
    assert_int_not_equal(access(s_path, F_OK), 0);
}

static void
test_a_link_that_somebody_left_there_is_not_followed(void **state)
{
    (void)state;
    char other[160];
    snprintf(other, sizeof other, "%s-elsewhere", s_dir);
    assert_int_equal(symlink(other, s_path), 0);
    crema_health_report(s_path, true);
    assert_int_not_equal(access(other, F_OK), 0);
}

static void
test_without_a_path_nothing_happens(void **state)
{
    (void)state;
    crema_health_report(NULL, true);
    assert_int_not_equal(access(s_path, F_OK), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_healthy_word_makes_the_file_and_keeps_it_young,
                                        s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown(test_an_unhealthy_word_takes_the_file_away, s_set_up,
                                        s_tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_that_somebody_left_there_is_not_followed,
                                        s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_path_nothing_happens, s_set_up, s_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
