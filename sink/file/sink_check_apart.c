/* Checks a file in a separate process. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_print.h"
#include "sink_seal.h"

static const int c_crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGXCPU};

/* CPU time that a check may take: many times what a sound file takes. */
enum { CHECK_SECONDS = 5, CHECK_SECONDS_PER_MIB = 1 };

typedef struct {
    bool done;
    int findings;
    crema_err_t err;
} answer_t;

/* Zeros in a heap of texts let the HDF5 library go round for ever; nothing but a signal ends
 * that. */
static void
s_limit_cpu(const char *path)
{
    struct stat file;
    struct rlimit limit;
    rlim_t seconds = CHECK_SECONDS;
    if (stat(path, &file) == 0)
        seconds += (rlim_t)(file.st_size >> 20) * CHECK_SECONDS_PER_MIB;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur <= seconds)
        return;
    limit.rlim_cur = seconds;
    (void)setrlimit(RLIMIT_CPU, &limit);
}

static crema_err_t
s_ask(const char *path, FILE *out, answer_t *answer, int *ret_findings)
{
    int status;
    fflush(out); /* buffered output would be written twice */
    pid_t child = fork();
    if (child < 0)
        return CREMA_EIO;
    if (child == 0) {
        for (size_t i = 0; i < sizeof c_crashes / sizeof *c_crashes; i++)
            signal(c_crashes[i],
                   SIG_DFL); /* a crash is a result here, not a case for the caller's handlers */
        s_limit_cpu(path);
        answer->err = sink_check_file(path, out, &answer->findings);
        fflush(out);
        answer->done = true;
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child)
        return CREMA_EIO;
    if (answer->done) {
        *ret_findings = answer->findings;
        return answer->err;
    }
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGXCPU)
        crema_print(out, "%s: damaged: the HDF5 library came to no end on it", path);
    else
        crema_print(out, "%s: damaged: the HDF5 library crashed on it (signal %d)", path, number);
    *ret_findings = 1;
    return CREMA_OK;
}

crema_err_t
sink_check_apart(const char *path, void *out_file, int *ret_findings)
{
    answer_t *answer =
        mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *ret_findings = 0;
    if (answer == MAP_FAILED)
        return CREMA_ENOMEM;
    crema_err_t err = s_ask(path, out_file, answer, ret_findings);
    munmap(answer, sizeof *answer);
    return err;
}
