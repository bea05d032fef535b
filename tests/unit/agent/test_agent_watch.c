/* What the kernel reports of a spool's directory. */
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <czmq.h>

#include "agent_watch.h"
#include "record_frames.h"

static char *s_dir, s_path[256];

static zloop_t *s_loop;
static int s_calls;

static int
s_on_change(void *context)
{
    assert_ptr_equal(context, &s_calls);
    s_calls++;
    return 0;
}

static int
s_on_end(zloop_t *loop, int timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    return -1;
}

/* How often a watch that listens reports in one turn of the loop. */
static int
s_calls_in_a_turn(agent_watch_t *watch)
{
    s_calls = 0;
    agent_watch_listen(watch);
    assert_true(agent_watch_is_listening(watch));
    assert_true(zloop_timer(s_loop, 20, 1, s_on_end, NULL) >= 0);
    zloop_start(s_loop);
    assert_int_equal(agent_watch_is_listening(watch), s_calls == 0);
    return s_calls;
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
    must(agent_watch_new(s_dir, s_loop, s_on_change, &s_calls, &watch));
    assert_int_equal(s_calls_in_a_turn(watch), 0);
    assert_false(agent_watch_changed(watch));
    int fd = s_create();
    assert_int_equal(s_calls_in_a_turn(watch), 1);
    assert_true(agent_watch_changed(watch));
    assert_false(agent_watch_changed(watch));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(write(fd, "x", 1), 1);
    assert_true(agent_watch_changed(watch));
    assert_int_equal(s_calls_in_a_turn(watch), 0);
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
    must(agent_watch_new(s_dir, s_loop, s_on_change, &s_calls, &watch));
    assert_int_equal(rmdir(s_dir), 0);
    assert_true(agent_watch_changed(watch));
    assert_false(agent_watch_is_sound(watch));
    agent_watch_destroy(&watch);
    assert_int_equal(agent_watch_new(s_dir, s_loop, s_on_change, &s_calls, &watch), CREMA_EIO);
    assert_null(watch);
}

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    s_loop = zloop_new();
    assert_non_null(s_loop);
    snprintf(s_path, sizeof s_path, "%s/sp-1", s_dir);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    zloop_destroy(&s_loop);
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
