#include "sink_viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_log.h"
#include "crema_map.h"
#include "sink_fs.h"
#include "sink_live.h"
#include "sink_viewing.h"

#define LINES_BYTES (64u << 10)
#define LAST_READING_NS                                                                            \
    INT64_C(1000000000) /* how long the rest is still read after the sink has stopped */

typedef struct {
    crema_id_t run_id;
    sink_live_t *live; /* NULL: given up */
    sink_journal_tail_t *tail;
    sink_journal_position_t until;
} view_t;

struct sink_viewer {
    sink_viewer_config_t config;
    crema_map_t *views; /* view_t * by run_id */
    size_t turn;        /* cursor of the map */
    char lines[LINES_BYTES];
    size_t used;
};

crema_err_t
sink_viewer_new(const sink_viewer_config_t *config, sink_viewer_t **ret_self)
{
    if (!sink_fs_fits(config->store_dir, SINK_FS_BELOW_BYTES) ||
        !sink_fs_fits(config->output_dir, SINK_FS_BELOW_BYTES))
        return CREMA_EIO;
    sink_viewer_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->config = *config;
    crema_err_t err = crema_map_new(config->views_max, &self->views);
    if (err != CREMA_OK) {
        sink_viewer_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_close(view_t *view)
{
    sink_live_close(&view->live);
    sink_journal_tail_destroy(&view->tail);
}

static void
s_destroy(void *view)
{
    s_close(view);
    free(view);
}

void
sink_viewer_destroy(sink_viewer_t **self_p)
{
    sink_viewer_t *self = *self_p;
    if (self)
        crema_map_destroy_all(&self->views, s_destroy);
    free(self);
    *self_p = NULL;
}

/* ---- one view */

static void
s_give_up(view_t *view, crema_err_t err)
{
    crema_log_warn("live_view_given_up", CREMA_ID("run", &view->run_id),
                   CREMA_TEXT("why", crema_err_text(err)));
    s_close(view);
}

static crema_err_t
s_begin(const sink_viewer_t *self, view_t *view)
{
    char path[PATH_MAX], journal[PATH_MAX], uuid[37];
    crema_err_t err = sink_live_new(sink_viewing_path(self->config.output_dir, &view->run_id, path),
                                    &view->run_id, &view->live);
    if (err != CREMA_OK)
        return err;
    const sink_journal_visitor_t visitor = sink_live_visitor(view->live);
    sink_fs_path(self->config.store_dir, crema_id_uuid(&view->run_id, uuid), journal);
    return sink_journal_tail_new(journal, &visitor, &view->tail);
}

/* ---- lines */

static void
s_grown(sink_viewer_t *self, const sink_viewing_t *viewing)
{
    crema_err_t err;
    view_t *view = crema_map_find(self->views, &viewing->run_id);
    if (!view && (view = crema_map_make(self->views, &viewing->run_id, sizeof *view, &err))) {
        view->run_id = viewing->run_id;
        err = s_begin(self, view);
        if (err != CREMA_OK)
            s_give_up(view, err);
    }
    if (view)
        view->until = viewing->position;
}

static void
s_ended(sink_viewer_t *self, const crema_id_t *run_id)
{
    char path[PATH_MAX];
    view_t *view = crema_map_take(self->views, run_id);
    if (view)
        s_destroy(view);
    crema_failpoint("live.before_unlink");
    (void)unlink(sink_viewing_path(self->config.output_dir, run_id, path));
}

void
sink_viewer_take(sink_viewer_t *self, const char *line)
{
    sink_viewing_t viewing;
    if (!sink_viewing_parse(line, &viewing))
        return;
    if (viewing.ended)
        s_ended(self, &viewing.run_id);
    else
        s_grown(self, &viewing);
}

/* ---- reading and flushing */

static bool
s_is_behind(const view_t *view)
{
    return view->live && sink_journal_tail_is_behind(view->tail, &view->until);
}

bool
sink_viewer_step(sink_viewer_t *self)
{
    for (int round = 0; round < 2; round++) {
        view_t *view;
        while ((view = crema_map_next(self->views, &self->turn)) != NULL) {
            if (!s_is_behind(view))
                continue;
            crema_err_t err = sink_journal_tail_read(view->tail, &view->until);
            if (err != CREMA_OK)
                s_give_up(view, err);
            return true;
        }
        self->turn = 0;
    }
    return false;
}

/* Updates the file's time while its run is alive, even when nothing new comes. */
static void
s_touch(const sink_viewer_t *self, const crema_id_t *run_id)
{
    char path[PATH_MAX];
    (void)utimensat(AT_FDCWD, sink_viewing_path(self->config.output_dir, run_id, path), NULL, 0);
}

void
sink_viewer_flush(sink_viewer_t *self)
{
    size_t cursor = 0;
    view_t *view;
    while ((view = crema_map_next(self->views, &cursor)) != NULL) {
        if (!view->live)
            continue;
        crema_err_t err = sink_live_flush(view->live);
        if (err == CREMA_OK)
            s_touch(self, &view->run_id);
        else
            s_give_up(view, err);
    }
}

/* ---- the loop */

/* False: the serving sink is gone. */
static bool
s_take_lines(sink_viewer_t *self, int in)
{
    ssize_t got = read(in, self->lines + self->used, sizeof self->lines - 1 - self->used);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false;
    self->used += (size_t)got;
    self->lines[self->used] = '\0';
    char *line = self->lines, *end;
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        sink_viewer_take(self, line);
        line = end + 1;
    }
    self->used = strlen(line);
    memmove(self->lines, line, self->used);
    return self->used < sizeof self->lines - 1;
}

static void
s_read_the_rest(sink_viewer_t *self)
{
    const int64_t end_ns = crema_clock_mono_ns() + LAST_READING_NS;
    while (crema_clock_mono_ns() < end_ns && sink_viewer_step(self))
        ;
    sink_viewer_flush(self);
}

void
sink_viewer_serve(sink_viewer_t *self, int in)
{
    struct pollfd lines = {.fd = in, .events = POLLIN};
    const int64_t interval_ns = self->config.flush_interval_ns;
    int64_t due_ns = crema_clock_mono_ns() + interval_ns;
    bool more = false;
    (void)fcntl(in, F_SETFL, O_NONBLOCK);
    for (;;) {
        int64_t wait_ns = due_ns - crema_clock_mono_ns();
        int wait_ms = more || wait_ns <= 0 ? 0 : (int)(wait_ns / 1000000 + 1);
        if (poll(&lines, 1, wait_ms) > 0 && !s_take_lines(self, in))
            break;
        const bool has_read = more;
        more = sink_viewer_step(self);
        const bool has_all = has_read && !more; /* that is there: a later wake would cost more */
        if (crema_clock_mono_ns() < due_ns - (has_all ? interval_ns / 2 : 0))
            continue;
        sink_viewer_flush(self);
        due_ns = crema_clock_mono_ns() + interval_ns;
    }
    s_read_the_rest(self);
}
