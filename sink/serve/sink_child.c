#define _GNU_SOURCE /* pipe2 */

#include "sink_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crema_log.h"
#include "crema_reactor.h"

#define NICENESS 10
#define TICK_MS 5

extern char **environ;

/* The environment without CREMA_*; the texts are borrowed. */
static char **
s_environment(void)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **chosen = calloc(n + 1, sizeof *chosen);
    for (size_t i = 0; chosen && i < n; i++)
        if (strncmp(environ[i], "CREMA_", 6) != 0)
            chosen[kept++] = environ[i];
    return chosen;
}

static crema_err_t
s_spawn(const char *const argv[], int fd, int as, pid_t *ret_pid)
{
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    crema_err_t err = crema_signals_spawn_attr(&attr);
    if (err != CREMA_OK)
        return err;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        posix_spawnattr_destroy(&attr);
        return CREMA_ENOMEM;
    }
    char **environment = s_environment();
    int rc = environment ? posix_spawn_file_actions_adddup2(&actions, fd, as) : ENOMEM;
    if (rc == 0)
        rc = posix_spawn(&pid, "/proc/self/exe", &actions, &attr, (char *const *)argv, environment);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (rc != 0) {
        errno = rc;
        return CREMA_EAGAIN;
    }
    (void)setpriority(PRIO_PROCESS, (id_t)pid, NICENESS);
    *ret_pid = pid;
    return CREMA_OK;
}

static crema_err_t
s_fail(const char *command)
{
    crema_log_warn(
        "process_not_started", CREMA_TEXT("command", command), CREMA_TEXT("why", strerror(errno)),
        CREMA_TEXT("remedy", "it is tried again each second; the limits of processes and of "
                             "open files may be too low, or memory is short"));
    return CREMA_EAGAIN;
}

crema_err_t
sink_child_start(const char *const argv[], int as, pid_t *ret_pid, int *ret_fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return s_fail(argv[1]);
    const int theirs = fds[as == STDIN_FILENO ? 0 : 1], ours = fds[as == STDIN_FILENO ? 1 : 0];
    crema_err_t err = s_spawn(argv, theirs, as, ret_pid);
    if (err != CREMA_OK)
        err = s_fail(argv[1]);
    close(theirs);
    if (err != CREMA_OK) {
        close(ours);
        return err;
    }
    (void)fcntl(ours, F_SETFL, O_NONBLOCK);
    *ret_fd = ours;
    return CREMA_OK;
}

/* True if all have ended within that time. */
static bool
s_end_within(pid_t pids[], size_t n, int ms)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
    for (int waited_ms = 0;; waited_ms += TICK_MS) {
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) != 0)
                pids[i] = 0;
            left += pids[i] > 0;
        }
        if (left == 0 || waited_ms >= ms)
            return left == 0;
        nanosleep(&tick, NULL);
    }
}

void
sink_child_end(pid_t pids[], size_t n, int grace_ms)
{
    if (grace_ms > 0 && s_end_within(pids, n, grace_ms))
        return;
    for (size_t i = 0; i < n; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    if (s_end_within(pids, n, SINK_CHILD_KILL_MS))
        return;
    for (size_t i = 0; i < n; i++)
        if (pids[i] > 0)
            crema_log_warn(
                "process_left", CREMA_INT("pid", pids[i]),
                CREMA_TEXT("why", "it was killed and does not end"),
                CREMA_TEXT("remedy", "does the file system of the output directory answer?"));
}
