/* The children of a test: an assertion in one of them, and what a test that failed leaves. */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

static void
s_be_silent(void)
{
    int null = open("/dev/null", O_WRONLY);
    assert_true(null >= 0 && dup2(null, STDOUT_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0);
}

static void
test_assertion_in_a_child_ends_it(void **state)
{
    (void)state;
    pid_t child = must_fork();
    if (child == 0) {
        s_be_silent();
        assert_true(false);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void
test_status_of_a_child_is_checked(void **state)
{
    (void)state;
    pid_t good = must_fork();
    if (good == 0)
        _exit(0);
    must_exit(good);
    /* must_exit() fails in its own test program: here a child. */
    pid_t judge = must_fork();
    if (judge == 0) {
        s_be_silent();
        pid_t bad = must_fork();
        if (bad == 0)
            _exit(3);
        must_exit(bad);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(judge, &status, 0), judge);
    assert_true(WIFSIGNALED(status));
}

static void
test_child_that_was_left_ends_with_its_test(void **state)
{
    pid_t left = must_fork();
    if (left == 0)
        for (;;)
            pause();
    assert_int_equal(children_end(state), 0);
    assert_int_equal(kill(left, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void
test_child_dies_with_its_test_program(void **state)
{
    (void)state;
    int alive[2];
    char byte;
    assert_int_equal(pipe(alive), 0);
    pid_t program = must_fork();
    if (program == 0) {
        if (must_fork() == 0)
            for (;;)
                pause();
        raise(SIGKILL);
    }
    close(alive[1]);
    assert_int_equal(read(alive[0], &byte, 1), 0); /* nobody holds the other end any more */
    close(alive[0]);
    assert_int_equal(waitpid(program, NULL, 0), program);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_assertion_in_a_child_ends_it, children_end),
        cmocka_unit_test_teardown(test_status_of_a_child_is_checked, children_end),
        cmocka_unit_test(test_child_that_was_left_ends_with_its_test),
        cmocka_unit_test_teardown(test_child_dies_with_its_test_program, children_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
