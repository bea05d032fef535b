/* Processes that seal: this very program plays `crema-sink rebuild`, and does what the name of the
 * journal says. */
#include "must.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_reactor.h"
#include "record_frames.h"
#include "sink_sealer.h"

static int s_signals;
static sink_sealer_t *s_sealer;

/* How many processes were killed, and how many of them before the first was waited for. */
static unsigned s_killed, s_killed_first;

int
kill(pid_t pid, int number)
{
    s_killed++;
    return (int)syscall(SYS_kill, pid, number);
}

pid_t
waitpid(pid_t pid, int *status, int options)
{
    if (s_killed_first == 0)
        s_killed_first = s_killed;
    return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

static int
s_setup(void **state)
{
    (void)state;
    return sink_sealer_new(1 << 20, &s_sealer) == CREMA_OK ? 0 : -1;
}

static int
s_teardown(void **state)
{
    (void)state;
    sink_sealer_destroy(&s_sealer);
    return s_sealer == NULL ? 0 : -1;
}

static void
must_start(uint8_t run, char *journal)
{
    char output[] = "/some/where.h5";
    crema_id_t id = frames_id(run);
    must(sink_sealer_start(s_sealer, &id, run * 10u, journal, output));
    assert_true(sink_sealer_is_busy(s_sealer, &id));
}

/* The next that ends, within ten seconds. */
static sink_sealer_end_t
must_reap(void)
{
    sink_sealer_end_t end;
    struct pollfd wait = {.fd = s_signals, .events = POLLIN};
    while (!sink_sealer_reap(s_sealer, &end)) {
        if (poll(&wait, 1, 10000) <= 0)
            fail_msg("no process ended");
        (void)crema_signals_read(s_signals);
    }
    return end;
}

static void
test_sealer_hands_over_what_was_asked_and_what_was_said(void **state)
{
    (void)state;
    setenv("CREMA_STORE", "/not/for/the/child", 1);
    must_start(1, "say");
    sink_sealer_end_t end = must_reap();
    assert_string_equal(end.line,
                        "rebuild say --output /some/where.h5 --json; no CREMA_STORE; TERM");
    assert_int_equal(end.run_id.bytes[0], 1);
    assert_int_equal(end.puts, 10);
    assert_true(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0);
    assert_false(sink_sealer_is_busy(s_sealer, &end.run_id));
}

static void
test_sealer_tells_how_a_process_failed(void **state)
{
    (void)state;
    must_start(1, "fail");
    sink_sealer_end_t end = must_reap();
    assert_int_equal(WEXITSTATUS(end.status), 7);
    assert_string_equal(end.line, "");
    must_start(1, "die");
    end = must_reap();
    assert_true(WIFSIGNALED(end.status));
}

static void
test_sealer_runs_two_at_a_time(void **state)
{
    (void)state;
    char say[] = "say", output[] = "x";
    crema_id_t third = frames_id(3);
    must_start(1, "wait");
    must_start(2, "wait");
    assert_int_equal(sink_sealer_count(s_sealer), 2);
    assert_int_equal(sink_sealer_start(s_sealer, &third, 0, say, output), CREMA_EAGAIN);
    assert_false(sink_sealer_is_busy(s_sealer, &third));
    sink_sealer_end_t end = must_reap();
    assert_in_range(end.run_id.bytes[0], 1, 2);
    must_start(3, say);
    for (int i = 0; i < 2; i++)
        (void)must_reap();
    assert_false(sink_sealer_reap(s_sealer, &end));
    assert_int_equal(sink_sealer_count(s_sealer), 0);
}

static void
test_sealer_ends_what_runs_when_it_is_destroyed(void **state)
{
    (void)state;
    must_start(1, "hang");
    must_start(2, "hang");
    s_killed = s_killed_first = 0;
    sink_sealer_destroy(&s_sealer);
    assert_int_equal(s_killed_first, 2); /* one that does not end at once delays no other's end */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    must(sink_sealer_new(0, &s_sealer));
}

/* What the process started by the sealer does. */
static int
s_play(char **argv)
{
    const char *what = argv[2];
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    if (strcmp(what, "fail") == 0)
        return 7;
    if (strcmp(what, "die") == 0)
        raise(SIGKILL);
    if (strcmp(what, "wait") == 0)
        usleep(300000);
    if (strcmp(what, "hang") == 0)
        pause();
    printf("%s %s %s %s %s; %s CREMA_STORE; %s\nmore\n", argv[1], argv[2], argv[3], argv[4],
           argv[5], getenv("CREMA_STORE") ? "with" : "no",
           sigismember(&blocked, SIGTERM) ? "" : "TERM");
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "rebuild") == 0)
        return s_play(argv);
    if (crema_signals_new(&s_signals) != CREMA_OK)
        return 1;
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_sealer_hands_over_what_was_asked_and_what_was_said),
        T(test_sealer_tells_how_a_process_failed),
        T(test_sealer_runs_two_at_a_time),
        T(test_sealer_ends_what_runs_when_it_is_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
