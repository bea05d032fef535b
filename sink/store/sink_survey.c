#include "sink_survey.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_segments.h"
#include "sink_store_private.h"
#include "sink_tombs.h"
#include "sink_window.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)
#define STREAMS_MAX ((size_t)1 << 22) /* as many as a sink accepts */

typedef struct {
    const char *dir;
    crema_id_t store_id;
    crema_arena_t *arena;
    sink_ids_t freed, runs; /* runs: with a directory */
    sink_survey_fn fn;
    void *context;
} survey_t;

/* ---- the beginning of a journal */

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    int64_t *t_start_ns = context;
    if (msg->type == CREMA_MSG_RUN_OPEN && *t_start_ns == 0)
        *t_start_ns = msg->run_open.t_start_ns;
    return CREMA_OK;
}

/* Start time from the first RUN_OPEN of the first segment; 0 without one. */
static int64_t
s_start(survey_t *self, const char *dir)
{
    char path[PATH_MAX];
    sink_window_t window;
    int64_t t_start_ns = 0;
    const sink_journal_visitor_t visitor = {.context = &t_start_ns, .run = s_on_run};
    if (sink_window_open(sink_segments_path(dir, 1, path), &window) != CREMA_OK)
        return 0;
    crema_frame_t frame;
    bool understood;
    while (t_start_ns == 0 && sink_window_next(&window, &frame) == CREMA_OK)
        if (frame.type == SINK_JOURNAL_RUN &&
            sink_segment_visit(&frame, &visitor, self->arena, &understood) != CREMA_OK)
            break;
    sink_window_clear(&window);
    return t_start_ns;
}

static uint64_t
s_bytes(const char *dir)
{
    sink_segments_t found;
    if (sink_segments_find(dir, &found) != CREMA_OK)
        return 0;
    free(found.numbers);
    return found.bytes + found.damaged_bytes;
}

/* ---- one run */

/* Takes verdict and file from the answer to the last RUN_SEAL. The texts lie in the arena. */
static void
s_take_answer(survey_t *self, const char *dir, sink_surveyed_t *run)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    crema_msg_t msg;
    if (sink_fs_read(sink_fs_path(dir, SINK_STORE_ANSWER, path), CREMA_WIRE_MESSAGE_MAX, &bytes,
                     &size) != CREMA_OK)
        return;
    if (crema_wire_decode_kept(bytes, size, self->arena, &msg) == CREMA_OK &&
        msg.type == CREMA_MSG_SEALED && msg.sealed.path[0]) {
        run->path = msg.sealed.path;
        run->verdict = msg.sealed.verdict;
        run->revision = msg.sealed.revision;
    }
    free(bytes);
}

/* Takes the state from the end of the journal. */
static crema_err_t
s_take_journal(survey_t *self, const char *dir, sink_surveyed_t *ret_run, char where[PATH_MAX])
{
    sink_store_t store = {.store_id = self->store_id};
    sink_store_run_t run = {.shown.run_id = ret_run->run_id};
    sink_journal_report_t report = {0};
    crema_err_t err = sink_commit_new(STREAMS_MAX, &store.watermarks);
    if (err == CREMA_OK)
        err = sink_store_look(&store, &run, dir, &report, where);
    bool is_own = crema_id_equal(&report.store_id, &self->store_id) &&
                  crema_id_equal(&report.run_id, &ret_run->run_id);
    if (err == CREMA_OK && !is_own)
        err = CREMA_EMAGIC;
    if (err == CREMA_OK) {
        ret_run->phase = crema_life_name(run.shown.state.life);
        ret_run->revision = run.shown.state.revision;
        ret_run->streams = sink_commit_count(store.watermarks, &ret_run->run_id);
    }
    free(run.said_writers);
    sink_commit_destroy(&store.watermarks);
    return err;
}

static sink_surveyed_t
s_freed(const crema_id_t *run_id)
{
    return (sink_surveyed_t){.run_id = *run_id,
                             .phase = crema_life_name(CREMA_LIFE_FREED),
                             .verdict = "",
                             .path = "",
                             .why = ""};
}

static crema_err_t
s_show(survey_t *self, const crema_id_t *run_id)
{
    char dir[PATH_MAX], name[37], where[PATH_MAX] = "", why[PATH_MAX + 256] = "";
    sink_surveyed_t run = {.run_id = *run_id, .phase = "", .verdict = "", .path = "", .why = why};
    run.bytes = s_bytes(sink_fs_path(self->dir, crema_id_uuid(run_id, name), dir));
    run.t_start_ns = s_start(self, dir);
    errno = 0;
    crema_err_t err = s_take_journal(self, dir, &run, where);
    struct stat st;
    if (err == CREMA_ENOMEM || err == CREMA_ELIMIT)
        return err;
    if (err != CREMA_OK && stat(dir, &st) != 0 && errno == ENOENT) { /* removed meanwhile */
        run = s_freed(run_id);
    } else if (err == CREMA_EMAGIC) {
        run.phase = SINK_SURVEY_ASIDE;
        snprintf(why, sizeof why, "%s holds the journal of another store or run", dir);
    } else if (err != CREMA_OK) {
        run.phase = SINK_SURVEY_ASIDE;
        snprintf(why, sizeof why, "%s: %s", where, sink_fs_why(err));
    } else {
        s_take_answer(self, dir, &run);
    }
    return self->fn(self->context, &run);
}

/* ---- all of them */

/* Finds directories named by a run id; those of freed runs are ignored. */
static crema_err_t
s_find_runs(survey_t *self)
{
    DIR *stream = opendir(self->dir);
    if (!stream)
        return sink_fs_error(errno);
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (errno = 0, entry = readdir(stream))) {
        crema_id_t run_id;
        if (sink_store_is_run_name(entry->d_name, &run_id) && !sink_ids_has(&self->freed, &run_id))
            err = sink_ids_append(&self->runs, &run_id);
    }
    if (err == CREMA_OK && errno != 0)
        err = sink_fs_error(errno);
    closedir(stream);
    sink_ids_sort(&self->runs);
    return err;
}

static crema_err_t
s_survey(survey_t *self)
{
    size_t n_tombs;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err == CREMA_OK)
        err = sink_past_look(self->dir, &self->freed);
    if (err == CREMA_OK)
        err = sink_tombs_read(self->dir, &self->freed, &n_tombs);
    sink_ids_sort(&self->freed);
    if (err == CREMA_OK)
        err = s_find_runs(self);
    for (size_t i = 0; i < self->runs.n && err == CREMA_OK; i++)
        err = s_show(self, &self->runs.ids[i]);
    for (size_t i = 0; i < self->freed.n && err == CREMA_OK; i++) {
        const sink_surveyed_t run = s_freed(&self->freed.ids[i]);
        err = self->fn(self->context, &run);
    }
    return err;
}

crema_err_t
sink_survey(const char *dir, sink_survey_fn fn, void *context, char *ret_why, size_t why_size)
{
    survey_t self = {.dir = dir, .fn = fn, .context = context};
    errno = 0;
    crema_err_t err = sink_store_identify(dir, &self.store_id, ret_why, why_size);
    if (err != CREMA_OK)
        return err;
    err = s_survey(&self);
    if (err != CREMA_OK)
        snprintf(ret_why, why_size, "the store %s cannot be read: %s", dir, sink_fs_why(err));
    crema_arena_destroy(&self.arena);
    sink_ids_clear(&self.freed);
    sink_ids_clear(&self.runs);
    return err;
}
