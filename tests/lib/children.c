#include "children.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

#define CHILDREN_MAX 64

static pid_t s_children[CHILDREN_MAX]; /* of this test; some may have been waited for */
static size_t s_n;

pid_t
must_fork(void)
{
    assert_true(s_n < CHILDREN_MAX);
    pid_t parent = getpid(), child = fork();
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
