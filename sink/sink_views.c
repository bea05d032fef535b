#include "sink_views.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_map.h"
#include "sink_live.h"

typedef struct {
    crema_id_t run_id;
    sink_live_t *live; /* NULL: given up */
} view_t;

struct sink_views {
    char *output_dir;
    crema_map_t *views; /* view_t * by run_id */
};

crema_err_t
sink_views_new(const char *output_dir, size_t views_max, sink_views_t **ret_self)
{
    sink_views_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->output_dir = strdup(output_dir);
    crema_err_t err = self->output_dir ? crema_map_new(views_max, &self->views) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        sink_views_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_views_destroy(sink_views_t **self_p)
{
    sink_views_t *self = *self_p;
    if (self) {
        size_t cursor = 0;
        view_t *view;
        while (self->views && (view = crema_map_next(self->views, &cursor))) {
            sink_live_close(&view->live);
            free(view);
        }
        crema_map_destroy(&self->views);
        free(self->output_dir);
        free(self);
    }
    *self_p = NULL;
}

static crema_err_t
s_path(const sink_views_t *self, const crema_id_t *run_id, char path[PATH_MAX])
{
    char name[37];
    int n =
        snprintf(path, PATH_MAX, "%s/%s.live.h5", self->output_dir, crema_id_uuid(run_id, name));
    return n > 0 && n < PATH_MAX ? CREMA_OK : CREMA_EINVAL;
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    return sink_live_put(context, put);
}

static crema_err_t
s_on_run(void *context, crema_msg_type_t type, const crema_run_msg_t *msg)
{
    return sink_live_run(context, type, msg);
}

static crema_err_t
s_on_clock(void *context, const crema_clock_sample_t *sample)
{
    return sink_live_clock(context, sample);
}

static sink_journal_visitor_t
s_visitor(sink_live_t *live)
{
    return (sink_journal_visitor_t){
        .context = live,
        .put = s_on_put,
        .run = s_on_run,
        .clock = s_on_clock,
    };
}

/* A fresh file with all that the journal holds. */
static crema_err_t
s_begin(sink_views_t *self, view_t *view, const char *journal_dir)
{
    char path[PATH_MAX];
    sink_journal_report_t report;
    crema_err_t err = s_path(self, &view->run_id, path);
    if (err == CREMA_OK)
        err = sink_live_new(path, &view->run_id, &view->live);
    if (err != CREMA_OK)
        return err;
    sink_journal_visitor_t visitor = s_visitor(view->live);
    return sink_journal_read(journal_dir, &visitor, &report);
}

static crema_err_t
s_add(sink_views_t *self, const crema_id_t *run_id, view_t **ret_view)
{
    view_t *view = calloc(1, sizeof *view);
    if (!view)
        return CREMA_ENOMEM;
    view->run_id = *run_id;
    crema_err_t err = crema_map_add(self->views, run_id, view);
    if (err != CREMA_OK) {
        free(view);
        return err;
    }
    *ret_view = view;
    return CREMA_OK;
}

crema_err_t
sink_views_feed(sink_views_t *self, const crema_id_t *run_id, const sink_journal_t *journal,
                const char *journal_dir)
{
    view_t *view = crema_map_find(self->views, run_id);
    crema_err_t err;
    if (view) {
        if (!view->live)
            return CREMA_OK;
        sink_journal_visitor_t visitor = s_visitor(view->live);
        err = sink_journal_group(journal, &visitor);
    } else {
        err = s_add(self, run_id, &view);
        if (err != CREMA_OK)
            return err;
        err = s_begin(self, view, journal_dir);
    }
    if (err != CREMA_OK)
        sink_live_close(&view->live);
    return err;
}

crema_err_t
sink_views_flush(sink_views_t *self, crema_id_t *ret_failed)
{
    size_t cursor = 0;
    view_t *view;
    crema_err_t first = CREMA_OK;
    while ((view = crema_map_next(self->views, &cursor))) {
        crema_err_t err = view->live ? sink_live_flush(view->live) : CREMA_OK;
        if (err == CREMA_OK)
            continue;
        sink_live_close(&view->live);
        if (first == CREMA_OK)
            *ret_failed = view->run_id;
        first = first == CREMA_OK ? err : first;
    }
    return first;
}

void
sink_views_end(sink_views_t *self, const crema_id_t *run_id)
{
    char path[PATH_MAX];
    view_t *view = crema_map_take(self->views, run_id);
    if (view)
        sink_live_close(&view->live);
    free(view);
    crema_failpoint("sink.before_live_unlink");
    if (s_path(self, run_id, path) == CREMA_OK)
        (void)unlink(path);
}
