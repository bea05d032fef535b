#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_child.h"
#include "children.h"
#include "crema_reactor.h"

#define PATIENCE_MS 20000

static int s_signals = -1;

static void
must(crema_err_t err)
{
    assert_string_equal(crema_err_text(err), crema_err_text(CREMA_OK));
}

static int
catch_signals(void **state)
{
    (void)state;
    const int tty = open("/dev/tty", O_RDWR | O_NOCTTY); /* of whoever started this test */
    if (tty >= 0) {
        ioctl(tty, TIOCNOTTY);
        close(tty);
    }
    /* Whoever started this test may ignore some; a shell cannot trap what it found ignored. */
    for (int number = 1; number < 32; number++)
        signal(number, SIG_DFL);
    must(crema_signals_new(&s_signals));
    must(agent_child_catch_signals(s_signals));
    return 0;
}

/* What an agent does until its command ends. */
static int
must_end(agent_child_t *child)
{
    for (;;) {
        int number, status;
        if (agent_child_reap(child, &status))
            return status;
        struct pollfd fd = {.fd = s_signals, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        while ((number = crema_signals_read(s_signals)) != 0)
            if (number != SIGCHLD)
                agent_child_pass_on(child, number);
    }
}

static int
run_shell(const char *script)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    agent_child_t *child;
    must(agent_child_start(argv, "/the/spool", NULL, &child));
    int status = must_end(child);
    agent_child_destroy(&child);
    return status;
}

static void
test_the_status_is_the_commands(void **state)
{
    (void)state;
    assert_int_equal(run_shell("exit 0"), 0);
    assert_int_equal(run_shell("exit 42"), 42);
    assert_int_equal(run_shell("kill -TERM $$"), 128 + SIGTERM);
    assert_int_equal(run_shell("kill -KILL $$"), 128 + SIGKILL);
}

static void
test_the_command_knows_the_spool(void **state)
{
    (void)state;
    assert_int_equal(run_shell("[ \"$CREMA_SPOOL\" = /the/spool ]"), 0);
}

static void
test_the_command_begins_with_a_clean_slate(void **state)
{
    (void)state;
    /* No signal blocked, SIGPIPE not ignored, and no descriptor of the agent's own. */
    assert_int_equal(run_shell("grep -q 'SigBlk:.0000000000000000' /proc/self/status"), 0);
    assert_int_equal(run_shell("kill -PIPE $$; exit 1"), 128 + SIGPIPE);
    int inherited = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        inherited += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    char script
        [128]; /* two more: the pipe of $(), whose far end the shell may not have closed yet */
    snprintf(script, sizeof script, "[ $(ls /proc/$$/fd | wc -l) -le %d ]", inherited + 2);
    assert_int_equal(run_shell(script), 0);
}

/* The agent raises its own limit; programs that count on select() would not survive the same. */
static void
test_the_command_gets_the_file_limit_it_would_have_had(void **state)
{
    (void)state;
    const struct rlimit files = {.rlim_cur = 123, .rlim_max = 456};
    char *argv[] = {"sh", "-c", "[ $(ulimit -Sn) = 123 ] && [ $(ulimit -Hn) = 456 ]", NULL};
    agent_child_t *child;
    must(agent_child_start(argv, "/", &files, &child));
    assert_int_equal(must_end(child), 0);
    agent_child_destroy(&child);
}

static void
test_what_cannot_run_says_why(void **state)
{
    (void)state;
    agent_child_t *child = NULL;
    char *missing[] = {"/no/such/program", NULL};
    assert_int_equal(agent_child_start(missing, "/", NULL, &child), CREMA_ENOENT);
    char *directory[] = {"/tmp", NULL};
    assert_int_equal(agent_child_start(directory, "/", NULL, &child), CREMA_EIO);
    assert_int_equal(errno, EACCES);
    assert_null(child);
    while (crema_signals_read(s_signals) != 0)
        ;
}

/* The shell exits with the number of signals it got when the last one comes. */
static void
test_each_signal_is_passed_on_once(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int tell[2];
        assert_int_equal(pipe(tell), 0);
        char script[256];
        snprintf(script, sizeof script,
                 "n=0; trap 'n=$((n+1))' %d; trap 'exit $n' XCPU; echo r >&%d; "
                 "while :; do sleep 0.02; done",
                 numbers[i], tell[1]);
        char *argv[] = {"sh", "-c", script, NULL};
        agent_child_t *child;
        must(agent_child_start(argv, "/", NULL, &child));
        char byte;
        assert_int_equal(read(tell[0], &byte, 1), 1);
        kill(getpid(), numbers[i]);
        int number;
        struct pollfd fd = {.fd = s_signals, .events = POLLIN};
        do {
            assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
            number = crema_signals_read(s_signals);
        } while (number == SIGCHLD);
        assert_int_equal(number, numbers[i]);
        agent_child_pass_on(child, number);
        kill(getpid(), SIGXCPU);
        assert_int_equal(must_end(child), 1);
        agent_child_destroy(&child);
        close(tell[0]);
        close(tell[1]);
    }
}

static void
test_a_group_wide_signal_reaches_the_command_once(void **state)
{
    (void)state;
    /* It is in a group of its own: only the agent gets what the agent's group gets. */
    assert_int_equal(run_shell("set -- $(cat /proc/$$/stat); [ $5 = $$ ]"), 0);
}

static void
test_strangers_are_reaped_too(void **state)
{
    (void)state;
    pid_t stranger = must_fork();
    if (stranger == 0)
        _exit(3);
    siginfo_t ended; /* it is a zombie from here on */
    assert_int_equal(waitid(P_PID, (id_t)stranger, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(run_shell("exit 5"), 5);
    /* Both ended; none is left as a zombie. */
    int status;
    agent_child_t *child;
    char *argv[] = {"true", NULL};
    must(agent_child_start(argv, "/", NULL, &child));
    assert_int_equal(must_end(child), 0);
    assert_true(agent_child_reap(child, &status));
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    agent_child_destroy(&child);
}

/* ---- at a terminal */

static char s_seen[65536];

/* Reads the terminal until `text` was written `times` times. */
static void
must_see(int tty, const char *text, int times)
{
    for (;;) {
        int n = 0;
        for (const char *at = s_seen; (at = strstr(at, text)); at += strlen(text))
            n++;
        if (n >= times) {
            assert_int_equal(n, times);
            return;
        }
        struct pollfd fd = {.fd = tty, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        size_t used = strlen(s_seen);
        ssize_t got = read(tty, s_seen + used, sizeof s_seen - 1 - used);
        assert_true(got > 0);
        s_seen[used + (size_t)got] = '\0';
    }
}

/* The process that stands for the agent, with the terminal for its own. */
static void
run_at_terminal(const char *script)
{
    int signals;
    if (crema_signals_new(&signals) != CREMA_OK || agent_child_catch_signals(signals) != CREMA_OK)
        _exit(101);
    s_signals = signals;
    _exit(run_shell(script));
}

static void
test_ctrl_c_at_the_terminal_works_once(void **state)
{
    (void)state;
    int tty;
    s_seen[0] = '\0';
    pid_t pid = must_fork_at_terminal(&tty);
    if (pid == 0)
        run_at_terminal("n=0; trap 'n=$((n+1)); echo got-$n' INT; trap 'exit $n' QUIT; echo ready; "
                        "while :; do sleep 0.02; done");
    must_see(tty, "ready", 1);
    assert_int_equal(write(tty, "\003", 1), 1);
    must_see(tty, "got-1", 1);
    assert_int_equal(write(tty, "\034", 1), 1); /* Ctrl-\ */
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    close(tty);
}

static void
test_ctrl_z_stops_the_command_and_its_agent(void **state)
{
    (void)state;
    int tty;
    s_seen[0] = '\0';
    pid_t shell = must_fork_at_terminal(&tty);
    if (shell == 0) {
        /* A shell with job control: starts the agent in its own group, in the foreground; when
         * that stops, continues it once. */
        signal(SIGTTOU, SIG_IGN);
        pid_t agent = must_fork();
        if (agent == 0) {
            setpgid(0, 0);
            tcsetpgrp(0, getpid());
            signal(SIGTTOU, SIG_DFL);
            run_at_terminal("echo ready; read line; echo line-$line; exit 9");
        }
        int status;
        waitpid(agent, &status, WUNTRACED);
        if (!WIFSTOPPED(status))
            _exit(100);
        printf("stopped\n");
        fflush(stdout);
        tcsetpgrp(0, agent);
        kill(-agent, SIGCONT);
        waitpid(agent, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
    }
    must_see(tty, "ready", 1);
    assert_int_equal(write(tty, "\032", 1), 1); /* Ctrl-Z */
    must_see(tty, "stopped", 1);
    assert_int_equal(write(tty, "again\n", 6), 6); /* the terminal is the command's again */
    must_see(tty, "line-again", 1);
    int status;
    assert_int_equal(waitpid(shell, &status, 0), shell);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 9);
    close(tty);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_status_is_the_commands),
        cmocka_unit_test(test_the_command_knows_the_spool),
        cmocka_unit_test(test_the_command_begins_with_a_clean_slate),
        cmocka_unit_test(test_the_command_gets_the_file_limit_it_would_have_had),
        cmocka_unit_test(test_what_cannot_run_says_why),
        cmocka_unit_test(test_each_signal_is_passed_on_once),
        cmocka_unit_test(test_a_group_wide_signal_reaches_the_command_once),
        cmocka_unit_test_teardown(test_strangers_are_reaped_too, children_end),
        cmocka_unit_test_teardown(test_ctrl_c_at_the_terminal_works_once, children_end),
        cmocka_unit_test_teardown(test_ctrl_z_stops_the_command_and_its_agent, children_end),
    };
    return cmocka_run_group_tests(tests, catch_signals, NULL);
}
