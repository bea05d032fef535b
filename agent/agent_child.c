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
    pid_t pid; /* also its process group; 0 after it ended */
    int tty;   /* the controlling terminal, or -1 */
    int status;
};

static const int c_passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGXCPU, SIGTSTP, SIGCONT, SIGWINCH};

crema_err_t
agent_child_catch_signals(int signal_fd)
{
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGCHLD);
    for (size_t i = 0; i < sizeof c_passed_on / sizeof *c_passed_on; i++)
        sigaddset(&caught, c_passed_on[i]);
    sigset_t blocked = caught;
    sigaddset(&blocked, SIGTTOU); /* so that the terminal can be handed over from the background */
    if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0 ||
        signalfd(signal_fd, &caught, SFD_NONBLOCK | SFD_CLOEXEC) != signal_fd)
        return CREMA_EIO;
    return CREMA_OK;
}

/* Gives the terminal to `group` if it belongs to `from` now. */
static void
s_hand_over(int tty, pid_t from, pid_t group)
{
    if (tty >= 0 && tcgetpgrp(tty) == from)
        (void)tcsetpgrp(tty, group);
}

static void
s_run(char *const argv[], const char *spool_dir, const struct rlimit *files, pid_t agent_group,
      int tty, int tell)
{
    (void)setpgid(0, 0);
    s_hand_over(tty, agent_group, getpid());
    int why = 0;
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
    self->tty = -1;
    if (pipe2(tell, O_CLOEXEC) != 0) {
        agent_child_destroy(&self);
        return CREMA_EIO;
    }
    self->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    pid_t agent_group = getpgrp();
    self->pid = fork();
    if (self->pid == 0)
        s_run(argv, spool_dir, files, agent_group, self->tty, tell[1]);
    int why = self->pid < 0 ? errno : 0;
    close(tell[1]);
    if (self->pid > 0) {
        (void)setpgid(self->pid,
                      self->pid); /* parent and child both do this: one of them is first */
        s_hand_over(self->tty, agent_group, self->pid);
        why = s_await(tell[0]);
    }
    close(tell[0]);
    if (why != 0) {
        if (self->pid > 0) {
            (void)waitpid(self->pid, NULL, 0);
            s_hand_over(self->tty, self->pid, agent_group);
        }
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
    agent_child_t *self = *self_p;
    if (!self)
        return;
    if (self->tty >= 0)
        close(self->tty);
    free(self);
    *self_p = NULL;
}

void
agent_child_pass_on(agent_child_t *self, int number)
{
    if (self->pid == 0)
        return;
    if (number == SIGCONT) { /* the shell's fg put our group into the foreground */
        s_hand_over(self->tty, getpgrp(), self->pid);
        (void)kill(-self->pid, SIGCONT);
        return;
    }
    (void)kill(self->pid, number);
}

/* The command was stopped at the terminal: returns the terminal to the shell and stops until the
 * shell continues us. */
static void
s_stop_along(const agent_child_t *self)
{
    if (self->tty < 0 || tcgetpgrp(self->tty) != self->pid)
        return;
    (void)tcsetpgrp(self->tty, getpgrp());
    (void)raise(SIGSTOP);
    s_hand_over(self->tty, getpgrp(), self->pid);
    (void)kill(-self->pid, SIGCONT);
}

bool
agent_child_reap(agent_child_t *self, int *ret_status)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != self->pid)
            continue;
        if (WIFSTOPPED(status)) {
            s_stop_along(self);
            continue;
        }
        self->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        s_hand_over(self->tty, self->pid, getpgrp());
        self->pid = 0;
    }
    if (self->pid != 0)
        return false;
    *ret_status = self->status;
    return true;
}
