#include "sink_views.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_map.h"
#include "sink_child.h"
#include "sink_viewing.h"

#define PAUSE_NS INT64_C(1000000000) /* before a process that died is started again; doubles */
#define PAUSE_MAX_NS (60 * PAUSE_NS)
#define STOP_MS 2000
#define ENDED_MAX SINK_VIEWS_MAX
/* It takes what it is told within this time; twice as long after each time that it did not. */
#define LIMIT_NS (120 * PAUSE_NS)

typedef struct {
    crema_id_t run_id;
    sink_journal_position_t place;
    bool fresh;  /* not yet reported to the process */
    bool yields; /* makes room for another run */
} view_t;

struct sink_views {
    const char *store_dir, *output_dir;
    char flush_ms[32];  /* as an option */
    crema_map_t *views; /* view_t * by run_id */
    pid_t pid;          /* 0: not running */
    int fd;             /* its standard input, or -1 */
    int64_t t_start_ns; /* earliest next start, monotonic */
    int64_t pause_ns;
    int64_t taken_ns;            /* when it had taken everything that it was told */
    unsigned late;               /* how often it was ended because it took nothing */
    crema_id_t ended[ENDED_MAX]; /* runs whose end is still to be reported */
    size_t n_ended;
};

crema_err_t
sink_views_new(const char *store_dir, const char *output_dir, int64_t flush_interval_ns,
               sink_views_t **ret_self)
{
    sink_views_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->fd = -1;
    self->pause_ns = PAUSE_NS;
    snprintf(self->flush_ms, sizeof self->flush_ms, "%lldms",
             (long long)(flush_interval_ns / 1000000));
    self->store_dir = store_dir;
    self->output_dir = output_dir;
    crema_err_t err = crema_map_new(SINK_VIEWS_MAX, &self->views);
    if (err != CREMA_OK)
        sink_views_destroy(&self);
    else
        *ret_self = self;
    return err;
}

/* ---- the process */

static void
s_start(sink_views_t *self, int64_t mono_ns)
{
    const char *argv[] = {"crema-sink",       "view",         "--store",
                          self->store_dir,    "--output",     self->output_dir,
                          "--flush-interval", self->flush_ms, NULL};
    crema_err_t err = sink_child_start(argv, STDIN_FILENO, &self->pid, &self->fd);
    (void)err; /* tried again at the next flush */
    self->taken_ns = mono_ns;
}

/* True: the process took the line. */
static bool
s_send(const sink_views_t *self, const sink_viewing_t *viewing)
{
    char line[SINK_VIEWING_BYTES];
    size_t size = strlen(sink_viewing_line(viewing, line));
    return self->fd >= 0 && write(self->fd, line, size) == (ssize_t)size;
}

/* Resets the state: the next process knows nothing. */
static void
s_forget_process(sink_views_t *self)
{
    size_t cursor = 0;
    for (view_t *view; (view = crema_map_next(self->views, &cursor)) != NULL;)
        view->fresh = true;
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
    self->pid = 0;
}

/* Ends a process that hangs, as on an output directory that does not answer. */
static void
s_end_late(sink_views_t *self, int64_t mono_ns)
{
    int untaken;
    const int64_t limit_ns = crema_failpoint_wait("sink.view_limit", LIMIT_NS)
                             << (self->late < 6 ? self->late : 6);
    if (self->pid == 0 || (ioctl(self->fd, FIONREAD, &untaken) == 0 && untaken == 0)) {
        self->taken_ns = mono_ns;
        return;
    }
    if (mono_ns - self->taken_ns < limit_ns)
        return;
    crema_log_warn("live_views_late", CREMA_INT("pid", self->pid),
                   CREMA_INT("limit_s", limit_ns / PAUSE_NS),
                   CREMA_TEXT("output", self->output_dir),
                   CREMA_TEXT("remedy", "does the file system of the output directory answer? "
                                        "The process that makes live files is started again"));
    self->late++;
    self->taken_ns = mono_ns;
    kill(self->pid, SIGKILL);
}

void
sink_views_reap(sink_views_t *self, int64_t mono_ns)
{
    int status;
    if (self->pid == 0 || waitpid(self->pid, &status, WNOHANG) != self->pid)
        return;
    crema_log_warn("live_views_restart", CREMA_INT("pid", self->pid),
                   CREMA_INT("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0),
                   CREMA_INT("status", WIFEXITED(status) ? WEXITSTATUS(status) : 0),
                   CREMA_INT("pause_ms", self->pause_ns / 1000000));
    s_forget_process(self);
    self->t_start_ns = mono_ns + self->pause_ns;
    self->pause_ns = self->pause_ns >= PAUSE_MAX_NS / 2 ? PAUSE_MAX_NS : 2 * self->pause_ns;
}

static void
s_stop(sink_views_t *self)
{
    if (self->pid == 0)
        return;
    close(self->fd); /* closing it asks the process to end */
    self->fd = -1;
    sink_child_end(&self->pid, 1, STOP_MS);
    self->pid = 0;
}

void
sink_views_destroy(sink_views_t **self_p)
{
    sink_views_t *self = *self_p;
    if (self) {
        if (self->pid > 0)
            sink_views_flush(self, self->t_start_ns);
        s_stop(self);
        crema_map_destroy_all(&self->views, free);
        free(self);
    }
    *self_p = NULL;
}

/* ---- what it shows */

static void
s_make_room(sink_views_t *self)
{
    size_t cursor = 0;
    const view_t *view;
    while ((view = crema_map_next(self->views, &cursor)) != NULL && !view->yields)
        ;
    if (!view)
        return;
    const crema_id_t run_id = view->run_id;
    sink_views_end(self, &run_id);
}

crema_err_t
sink_views_feed(sink_views_t *self, const crema_id_t *run_id, sink_journal_position_t place)
{
    crema_err_t err = CREMA_OK;
    view_t *view = crema_map_find(self->views, run_id);
    if (!view && crema_map_count(self->views) == SINK_VIEWS_MAX)
        s_make_room(self);
    if (!view && !(view = crema_map_make(self->views, run_id, sizeof *view, &err)))
        return err;
    view->run_id = *run_id;
    view->place = place;
    view->fresh = true;
    view->yields = false;
    return CREMA_OK;
}

void
sink_views_yield(sink_views_t *self, const crema_id_t *run_id)
{
    view_t *view = crema_map_find(self->views, run_id);
    if (view)
        view->yields = true;
}

static void
s_send_ended(sink_views_t *self)
{
    size_t left = 0;
    for (size_t i = 0; i < self->n_ended; i++) {
        const sink_viewing_t viewing = {.ended = true, .run_id = self->ended[i]};
        if (self->pid > 0 && !s_send(self, &viewing))
            self->ended[left++] = self->ended[i];
    }
    self->n_ended = left;
}

void
sink_views_flush(sink_views_t *self, int64_t mono_ns)
{
    size_t cursor = 0;
    view_t *view;
    s_end_late(self, mono_ns);
    s_send_ended(self);
    while ((view = crema_map_next(self->views, &cursor)) != NULL) {
        if (!view->fresh)
            continue;
        if (self->pid == 0 && mono_ns >= self->t_start_ns)
            s_start(self, mono_ns);
        const sink_viewing_t viewing = {.run_id = view->run_id, .position = view->place};
        if (!s_send(self, &viewing))
            return; /* retried at the next flush */
        view->fresh = false;
    }
}

void
sink_views_end(sink_views_t *self, const crema_id_t *run_id)
{
    char path[PATH_MAX];
    view_t *view = crema_map_take(self->views, run_id);
    free(view);
    /* The process does this as well: it may be about to create the file. */
    (void)unlink(sink_viewing_path(self->output_dir, run_id, path));
    if (self->pid > 0 && self->n_ended < ENDED_MAX)
        self->ended[self->n_ended++] = *run_id;
    else if (self->pid > 0) /* the next one does not know the run */
        kill(self->pid, SIGKILL);
    s_send_ended(self);
    self->pause_ns = PAUSE_NS;
}
