#include "agent_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_reactor.h"

struct agent_child {
    pid_t pid; /* 0 after it ended */
    bool at_terminal;
    int status;
};

static const int c_passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

crema_err_t
agent_child_catch_signals(int signal_fd)
{
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGCHLD);
    for (size_t i = 0; i < sizeof c_passed_on / sizeof *c_passed_on; i++)
        sigaddset(&caught, c_passed_on[i]);
    if (sigprocmask(SIG_BLOCK, &caught, NULL) != 0 ||
        signalfd(signal_fd, &caught, SFD_NONBLOCK | SFD_CLOEXEC) != signal_fd)
        return CREMA_EIO;
    return CREMA_OK;
}

static bool
s_has_terminal(void)
{
    const int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty >= 0)
        close(tty);
    return tty >= 0;
}

static void
s_run(char *const argv[], const char *spool_dir, const struct rlimit *files, bool own_group,
      int tell)
{
    int why = 0;
    if (own_group)
        (void)setpgid(0, 0);
    if (setenv("CREMA_SPOOL", spool_dir, 1) != 0)
        why = errno;
    if (why == 0) {
        crema_signals_restore();
        if (files)
            (void)setrlimit(RLIMIT_NOFILE, files);
        execvp(argv[0], argv);
        why = errno;
    }
    (void)!write(tell, &why, sizeof why);
    _exit(127);
}

/* Waits until the child runs the program (which closes the pipe) or reports why it cannot. */
static int
s_await(int pipe_fd)
{
    int why = 0;
    ssize_t got;
    do
        got = read(pipe_fd, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof why ? why : 0;
}

crema_err_t
agent_child_start(char *const argv[], const char *spool_dir, const struct rlimit *files,
                  agent_child_t **ret_self)
{
    int tell[2];
    agent_child_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    if (pipe2(tell, O_CLOEXEC) != 0) {
        agent_child_destroy(&self);
        return CREMA_EIO;
    }
    self->at_terminal = s_has_terminal();
    self->pid = fork();
    if (self->pid == 0)
        s_run(argv, spool_dir, files, !self->at_terminal, tell[1]);
    int why = self->pid < 0 ? errno : 0;
    close(tell[1]);
    if (self->pid > 0)
        why = s_await(tell[0]);
    close(tell[0]);
    if (why != 0) {
        if (self->pid > 0)
            (void)waitpid(self->pid, NULL, 0);
        agent_child_destroy(&self);
        errno = why;
        return why == ENOENT ? CREMA_ENOENT : CREMA_EIO;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_child_destroy(agent_child_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

void
agent_child_pass_on(agent_child_t *self, int number)
{
    const bool has_it = self->at_terminal && (number == SIGINT || number == SIGQUIT);
    if (self->pid != 0 && !has_it)
        (void)kill(self->pid, number);
}

bool
agent_child_reap(agent_child_t *self, int *ret_status)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != self->pid)
            continue;
        self->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        self->pid = 0;
    }
    if (self->pid != 0)
        return false;
    *ret_status = self->status;
    return true;
}
