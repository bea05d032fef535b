/* What the kernel reports of a spool's directory. */
#include "must.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent_watch.h"
#include "frames.h"

static char *s_dir, s_path[256];

static bool
s_is_readable(const agent_watch_t *watch)
{
    struct pollfd item = {.fd = agent_watch_fd(watch), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

static int
s_create(void)
{
    int fd = open(s_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void
test_a_new_file_and_what_is_written_to_it_are_changes(void **state)
{
    (void)state;
    agent_watch_t *watch = NULL;
    must(agent_watch_new(s_dir, &watch));
    assert_false(s_is_readable(watch));
    assert_false(agent_watch_changed(watch));
    int fd = s_create();
    assert_true(s_is_readable(watch));
    assert_true(agent_watch_changed(watch));
    assert_false(agent_watch_changed(watch));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(write(fd, "x", 1), 1);
    assert_true(agent_watch_changed(watch));
    assert_false(s_is_readable(watch));
    assert_true(agent_watch_is_sound(watch));
    close(fd);
    assert_int_equal(unlink(s_path), 0);
    agent_watch_destroy(&watch);
}

static void
test_a_directory_that_is_gone_reports_nothing_more(void **state)
{
    (void)state;
    agent_watch_t *watch = NULL;
    must(agent_watch_new(s_dir, &watch));
    assert_int_equal(rmdir(s_dir), 0);
    assert_true(agent_watch_changed(watch));
    assert_false(agent_watch_is_sound(watch));
    agent_watch_destroy(&watch);
    assert_int_equal(agent_watch_new(s_dir, &watch), CREMA_EIO);
    assert_null(watch);
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    snprintf(s_path, sizeof s_path, "%s/sp-1", s_dir);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_new_file_and_what_is_written_to_it_are_changes,
                                        s_setup, s_teardown),
        cmocka_unit_test_setup_teardown(test_a_directory_that_is_gone_reports_nothing_more, s_setup,
                                        s_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
