#define _GNU_SOURCE /* pipe2 */

#include "sink_sealer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sink_child.h"

/* A line must fit into a pipe, or the process would wait for a reader. */
#define LINE_BYTES_MAX (60u << 10)

typedef struct job job_t;
struct job {
    job_t *next;
    crema_id_t run_id;
    uint64_t puts;
    char journal_dir[PATH_MAX];
    char output_path[PATH_MAX];
    pid_t pid; /* 0: waiting, or could not be started */
    int fd;    /* its standard output; -1 while it waits */
};

struct sink_sealer {
    job_t *jobs; /* oldest first; running ones before waiting ones */
    size_t n_running, n, n_max;
    char memory[24]; /* memory limit of each, as text */
    char line[LINE_BYTES_MAX];
};

crema_err_t
sink_sealer_new(size_t waiting_max, int64_t memory_bytes, sink_sealer_t **ret_self)
{
    sink_sealer_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->n_max = waiting_max + SINK_SEALERS_MAX;
    snprintf(self->memory, sizeof self->memory, "%lld", (long long)memory_bytes);
    *ret_self = self;
    return CREMA_OK;
}

static void
s_free_job(job_t *job)
{
    if (job->fd >= 0)
        close(job->fd);
    free(job);
}

void
sink_sealer_destroy(sink_sealer_t **self_p)
{
    sink_sealer_t *self = *self_p;
    while (self && self->jobs) {
        job_t *job = self->jobs;
        self->jobs = job->next;
        if (job->pid > 0) {
            kill(job->pid, SIGKILL);
            while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        }
        s_free_job(job);
    }
    free(self);
    *self_p = NULL;
}

static crema_err_t
s_spawn(sink_sealer_t *self, job_t *job, int write_fd)
{
    char *argv[] = {"crema-sink", "rebuild",  job->journal_dir, "--output", job->output_path,
                    "--json",     "--memory", self->memory,     NULL};
    return sink_child_start(argv, write_fd, STDOUT_FILENO, &job->pid);
}

static crema_err_t
s_run(sink_sealer_t *self, job_t *job)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return CREMA_EAGAIN;
    crema_err_t err = s_spawn(self, job, fds[1]);
    close(fds[1]);
    if (err != CREMA_OK) {
        close(fds[0]);
        return err;
    }
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    job->fd = fds[0];
    self->n_running++;
    return CREMA_OK;
}

/* A job that cannot be started now is retried when another one ends, or with the next request. */
static void
s_run_waiting(sink_sealer_t *self)
{
    for (job_t *job = self->jobs; job && self->n_running < SINK_SEALERS_MAX; job = job->next)
        if (job->pid == 0 && s_run(self, job) != CREMA_OK)
            return;
}

void
sink_sealer_count(const sink_sealer_t *self, size_t *ret_running, size_t *ret_waiting)
{
    *ret_running = self->n_running;
    *ret_waiting = self->n - self->n_running;
}

bool
sink_sealer_is_busy(const sink_sealer_t *self, const crema_id_t *run_id)
{
    for (const job_t *job = self->jobs; job; job = job->next)
        if (crema_id_equal(&job->run_id, run_id))
            return true;
    return false;
}

crema_err_t
sink_sealer_start(sink_sealer_t *self, const crema_id_t *run_id, uint64_t puts,
                  const char *journal_dir, const char *output_path)
{
    s_run_waiting(self);
    if (sink_sealer_is_busy(self, run_id))
        return CREMA_EREPEAT;
    if (self->n >= self->n_max)
        return CREMA_ELIMIT;
    if (strlen(journal_dir) >= PATH_MAX || strlen(output_path) >= PATH_MAX)
        return CREMA_EINVAL;
    job_t *job = calloc(1, sizeof *job);
    if (!job)
        return CREMA_ENOMEM;
    job->run_id = *run_id;
    job->puts = puts;
    job->fd = -1;
    strcpy(job->journal_dir, journal_dir);
    strcpy(job->output_path, output_path);
    job_t **end = &self->jobs;
    while (*end)
        end = &(*end)->next;
    *end = job;
    self->n++;
    s_run_waiting(self);
    return CREMA_OK;
}

/* The process has ended, so the pipe holds the whole line. */
static void
s_read_line(sink_sealer_t *self, const job_t *job)
{
    size_t used = 0;
    while (used < sizeof self->line - 1) {
        ssize_t got = read(job->fd, self->line + used, sizeof self->line - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    self->line[used] = '\0';
    self->line[strcspn(self->line, "\n")] = '\0';
}

bool
sink_sealer_reap(sink_sealer_t *self, sink_sealer_end_t *ret_end)
{
    for (job_t **link = &self->jobs; *link; link = &(*link)->next) {
        job_t *job = *link;
        int status;
        if (job->pid == 0 || waitpid(job->pid, &status, WNOHANG) != job->pid)
            continue;
        s_read_line(self, job);
        *ret_end = (sink_sealer_end_t){job->run_id, job->puts, self->line, status};
        *link = job->next;
        self->n--;
        self->n_running--;
        s_free_job(job);
        s_run_waiting(self);
        return true;
    }
    s_run_waiting(self);
    return false;
}
