#include "children.h"

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

#define CHILDREN_MAX 64

static pid_t s_children[CHILDREN_MAX]; /* some may have been waited for */
static size_t s_n;

/* Removes those that were waited for, and makes room. */
static void
s_forget_ended(void)
{
    size_t kept = 0;
    siginfo_t info;
    for (size_t i = 0; i < s_n; i++)
        if (waitid(P_PID, (id_t)s_children[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0)
            s_children[kept++] = s_children[i];
    s_n = kept;
    assert_true(s_n < CHILDREN_MAX);
}

/* What both sides do after a fork. */
static pid_t
s_begin(pid_t parent, pid_t child)
{
    assert_true(child >= 0);
    if (child > 0) {
        s_children[s_n++] = child;
        return child;
    }
    s_n = 0; /* they are not its own */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* instead of the jump back to the parent's tests */
    return 0;
}

pid_t
must_fork(void)
{
    pid_t parent = getpid();
    s_forget_ended();
    return s_begin(parent, fork());
}

pid_t
must_fork_at_terminal(int *ret_tty)
{
    pid_t parent = getpid();
    s_forget_ended();
    return s_begin(parent, forkpty(ret_tty, NULL, NULL, NULL));
}

void
must_exit(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with %s %d", WIFEXITED(status) ? "status" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

void
must_kill(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int
children_end(void **state)
{
    (void)state;
    while (s_n > 0) {
        pid_t child = s_children[--s_n];
        if (waitpid(child, NULL, WNOHANG) == 0) { /* a child of ours, so the number is its own */
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        }
    }
    return 0;
}
