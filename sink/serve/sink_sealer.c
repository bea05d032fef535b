#include "sink_sealer.h"

#include <errno.h>
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
#define LEFT_MAX 64 /* processes that cannot be killed; with more, sealing waits for them */

typedef struct {
    crema_id_t run_id;
    uint64_t puts;
    pid_t pid;                 /* 0: none */
    int fd;                    /* its standard output */
    int64_t limit_ns, ends_ns; /* monotonic; 0: no limit */
    bool is_late;              /* it was killed for that */
    bool is_left;              /* and does not end: it is given up */
} job_t;

struct sink_sealer {
    job_t jobs[SINK_SEALERS_MAX];
    pid_t left[LEFT_MAX]; /* processes that were killed and have not ended; 0: none */
    char memory[24];      /* memory limit of each, as text */
    char line[LINE_BYTES_MAX];
};

crema_err_t
sink_sealer_new(int64_t memory_bytes, sink_sealer_t **ret_self)
{
    sink_sealer_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    snprintf(self->memory, sizeof self->memory, "%lld", (long long)memory_bytes);
    *ret_self = self;
    return CREMA_OK;
}

static void
s_end_job(job_t *job)
{
    close(job->fd);
    *job = (job_t){0};
}

void
sink_sealer_destroy(sink_sealer_t **self_p)
{
    sink_sealer_t *self = *self_p;
    pid_t pids[SINK_SEALERS_MAX] = {0};
    for (size_t i = 0; self && i < SINK_SEALERS_MAX; i++) {
        pids[i] = self->jobs[i].pid;
        if (pids[i] > 0)
            s_end_job(&self->jobs[i]);
    }
    sink_child_end(pids, SINK_SEALERS_MAX, 0);
    free(self);
    *self_p = NULL;
}

size_t
sink_sealer_count(const sink_sealer_t *self)
{
    size_t n = 0;
    for (size_t i = 0; i < SINK_SEALERS_MAX; i++)
        n += self->jobs[i].pid > 0;
    return n;
}

bool
sink_sealer_is_busy(const sink_sealer_t *self, const crema_id_t *run_id)
{
    for (size_t i = 0; i < SINK_SEALERS_MAX; i++)
        if (self->jobs[i].pid > 0 && crema_id_equal(&self->jobs[i].run_id, run_id))
            return true;
    return false;
}

crema_err_t
sink_sealer_start(sink_sealer_t *self, const crema_id_t *run_id, uint64_t puts,
                  const char *journal_dir, const char *output_path)
{
    job_t *job = self->jobs;
    while (job < self->jobs + SINK_SEALERS_MAX && job->pid > 0)
        job++;
    if (job == self->jobs + SINK_SEALERS_MAX)
        return CREMA_EAGAIN;
    job->run_id = *run_id;
    job->puts = puts;
    const char *argv[] = {"crema-sink", "rebuild",  journal_dir,  "--output", output_path,
                          "--json",     "--memory", self->memory, NULL};
    return sink_child_start(argv, STDOUT_FILENO, &job->pid, &job->fd);
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

void
sink_sealer_limit(sink_sealer_t *self, const crema_id_t *run_id, int64_t limit_ns, int64_t mono_ns)
{
    for (size_t i = 0; i < SINK_SEALERS_MAX; i++)
        if (self->jobs[i].pid > 0 && crema_id_equal(&self->jobs[i].run_id, run_id)) {
            self->jobs[i].limit_ns = limit_ns;
            self->jobs[i].ends_ns = mono_ns + limit_ns;
        }
}

/* Remembers a process that does not end, so that it is waited for when it does. */
static bool
s_leave(sink_sealer_t *self, pid_t pid)
{
    for (size_t i = 0; i < LEFT_MAX; i++) {
        if (self->left[i] > 0 && waitpid(self->left[i], NULL, WNOHANG) != 0)
            self->left[i] = 0;
        if (self->left[i] == 0) {
            self->left[i] = pid;
            return true;
        }
    }
    return false;
}

void
sink_sealer_end_late(sink_sealer_t *self, int64_t mono_ns)
{
    for (size_t i = 0; i < SINK_SEALERS_MAX; i++) {
        job_t *job = &self->jobs[i];
        if (job->pid == 0 || job->ends_ns == 0 || mono_ns < job->ends_ns)
            continue;
        if (job->is_late) {
            job->is_left = true;
            continue;
        }
        job->is_late = true;
        job->ends_ns = mono_ns + SINK_CHILD_KILL_MS * INT64_C(1000000);
        kill(job->pid, SIGKILL);
    }
}

bool
sink_sealer_reap(sink_sealer_t *self, sink_sealer_end_t *ret_end)
{
    for (size_t i = 0; i < SINK_SEALERS_MAX; i++) {
        job_t *job = &self->jobs[i];
        int status = SIGKILL;
        if (job->pid == 0)
            continue;
        bool has_ended = waitpid(job->pid, &status, WNOHANG) == job->pid;
        if (!has_ended && (!job->is_left || !s_leave(self, job->pid)))
            continue;
        self->line[0] = '\0';
        if (has_ended)
            s_read_line(self, job);
        *ret_end = (sink_sealer_end_t){job->run_id, job->puts, self->line, status,
                                       job->is_late ? job->limit_ns : 0};
        s_end_job(job);
        return true;
    }
    return false;
}
