#include "instruction_count.h"
#include "children.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

/* The child stops itself before and after what is counted. */
static void
s_act_between_stops(void (*act)(void))
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(1);
    raise(SIGSTOP);
    act();
    raise(SIGSTOP);
    _exit(0);
}

uint64_t
must_count_steps(void (*act)(void))
{
    uint64_t steps = 0;
    int status;
    pid_t child = must_fork();
    if (child == 0)
        s_act_between_stops(act);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        not_tested_here(MISSING_TRACING);
    do {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
        steps++;
    } while (WSTOPSIG(status) == SIGTRAP);
    assert_int_equal(WSTOPSIG(status), SIGSTOP); /* else it died of what it did */
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return steps;
}
