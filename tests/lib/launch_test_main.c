/* launch_test SECONDS COMMAND... - runs a test: for so many seconds at most, and none of its
 * processes outlives it.
 *
 * ctest ends only the process that it started, and then waits for whoever holds the test's output.
 * All orphans among the test's processes become children of this one (PR_SET_CHILD_SUBREAPER),
 * detached ones as well, so "no child is left" is what the kernel says, and every process that is
 * left can be named and killed. A test that left one has failed.
 *
 * exit status: that of the command, 128 + signal, 124 over the limit, 125 a process was left */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 2 /* for processes that are ending */
#define EXIT_USAGE 2
#define EXIT_LIMIT 124
#define EXIT_LEFT 125
#define EXIT_NOT_FOUND 127

static double
s_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits for one of the signals until then; 0: none came. */
static int
s_signal_until(const sigset_t *signals, double until_s)
{
    int number;
    do {
        double left_s = until_s - s_now_s();
        if (left_s <= 0)
            return 0;
        struct timespec wait = {.tv_sec = (time_t)left_s,
                                .tv_nsec = (long)((left_s - (double)(time_t)left_s) * 1e9)};
        number = sigtimedwait(signals, NULL, &wait);
    } while (number < 0 && errno == EINTR);
    return number > 0 ? number : 0;
}

/* Reaps who has ended; `*status` receives the test's. False if there is no child any more. */
static bool
s_reap(pid_t test, int *status)
{
    int ended;
    pid_t pid;
    while ((pid = waitpid(-1, &ended, WNOHANG)) > 0)
        if (pid == test)
            *status = ended;
    return pid == 0;
}

static pid_t
s_parent_of(const char *pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void
s_name(const char *pid, const char *why)
{
    char path[64], words[512];
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(words, 1, sizeof words - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i < n; i++)
        if (words[i] == '\0')
            words[i] = ' ';
    words[n] = '\0';
    fprintf(stderr, "launch_test: %s: process %s: %s\n", why, pid, n ? words : "(it has ended)");
}

/* Kills every process that the test has, and names each; its children become children of this
 * one. */
static void
s_kill_all(pid_t test, const char *why)
{
    int status;
    const struct dirent *item;
    while (s_reap(test, &status)) {
        DIR *proc = opendir("/proc");
        while (proc && (item = readdir(proc)))
            if (isdigit((unsigned char)item->d_name[0]) && s_parent_of(item->d_name) == getpid()) {
                s_name(item->d_name, why);
                kill((pid_t)atoi(item->d_name), SIGKILL);
                waitpid((pid_t)atoi(item->d_name), NULL, 0);
            }
        if (proc)
            closedir(proc);
    }
}

static void
s_run(char **command, const sigset_t *before)
{
    pid_t launcher = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(EXIT_LEFT);
    sigprocmask(SIG_SETMASK, before, NULL);
    execvp(command[0], command);
    fprintf(stderr, "launch_test: %s: %s\n", command[0], strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

int
main(int argc, char **argv)
{
    int limit_s = argc > 2 ? atoi(argv[1]) : 0;
    if (limit_s < 1) {
        fprintf(stderr, "usage: launch_test SECONDS COMMAND...\n");
        return EXIT_USAGE;
    }
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t test = fork();
    if (test == 0)
        s_run(argv + 2, &before);
    if (test < 0) {
        perror("launch_test: fork");
        return EXIT_USAGE;
    }

    const double by_s = s_now_s() + limit_s;
    int status = -1, number = SIGCHLD;
    bool is_left = true;
    while (status < 0 && number == SIGCHLD) {
        is_left = s_reap(test, &status);
        if (status < 0)
            number = s_signal_until(&signals, by_s);
    }
    if (status < 0) {
        fprintf(stderr, "launch_test: %s: ended %s\n", argv[2],
                number ? "by a signal" : "at its time limit");
        s_kill_all(test, "ended");
        return number ? 128 + number : EXIT_LIMIT;
    }
    const double ending_s = s_now_s() + GRACE_S;
    while (is_left && s_signal_until(&signals, ending_s) == SIGCHLD)
        is_left = s_reap(test, &status);
    if (is_left) {
        s_kill_all(test, "left by the test");
        return EXIT_LEFT;
    }
    if (WIFSIGNALED(status))
        fprintf(stderr, "launch_test: %s: %s\n", argv[2], strsignal(WTERMSIG(status)));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
