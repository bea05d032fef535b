#include "sink_survey.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_text.h"
#include "sink_cursor.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_segments.h"
#include "sink_store_private.h"
#include "sink_tombs.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)
#define STREAMS_MAX ((size_t)1 << 22) /* as many as a sink accepts */
#define ATTRIBUTE_BYTES 256

typedef struct {
    const char *dir;
    crema_id_t store_id;
    crema_arena_t *arena;
    sink_ids_t freed, runs; /* runs: with a directory */
    sink_survey_fn fn;
    void *context;
} survey_t;

/* ---- the beginning of a journal */

/* From the first RUN_OPEN that has a time; zero without one. */
typedef struct {
    int64_t t_start_ns;
    char user[ATTRIBUTE_BYTES], label[ATTRIBUTE_BYTES];
} opening_t;

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    opening_t *opening = context;
    const Crema__RunOpen *open = &msg->run_open;
    if (msg->type != CREMA_MSG_RUN_OPEN || opening->t_start_ns != 0 || open->t_start_ns == 0)
        return CREMA_OK;
    opening->t_start_ns = open->t_start_ns;
    crema_text_copy(opening->user, sizeof opening->user, crema_msg_attribute(open, "user"));
    crema_text_copy(opening->label, sizeof opening->label, crema_msg_attribute(open, "run_label"));
    return CREMA_OK;
}

/* Reads the first segment up to there. */
static void
s_read_opening(survey_t *self, const char *dir, opening_t *opening)
{
    sink_cursor_t cursor;
    const sink_journal_visitor_t visitor = {.context = opening, .run = s_on_run};
    crema_frame_t frame;
    bool understood;
    sink_cursor_begin(&cursor, dir, 1);
    sink_cursor_extend(&cursor, (sink_journal_position_t){1, SINK_CURSOR_ALL});
    while (opening->t_start_ns == 0 && sink_cursor_next(&cursor, &frame) == CREMA_OK)
        if (frame.type == SINK_JOURNAL_RUN &&
            sink_segment_visit(&frame, &visitor, self->arena, &understood) != CREMA_OK)
            break;
    sink_cursor_clear(&cursor);
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
        err = sink_store_read_journal(&store, &run, dir, &report, where, NULL);
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
                             .user = "",
                             .label = "",
                             .verdict = "",
                             .path = "",
                             .why = ""};
}

static crema_err_t
s_show(survey_t *self, const crema_id_t *run_id)
{
    char dir[PATH_MAX], name[37], where[PATH_MAX] = "", why[PATH_MAX + 256] = "";
    opening_t opening = {0};
    sink_surveyed_t run = {.run_id = *run_id,
                           .phase = "",
                           .user = opening.user,
                           .label = opening.label,
                           .verdict = "",
                           .path = "",
                           .why = why};
    run.bytes = s_bytes(sink_fs_path(self->dir, crema_id_uuid(run_id, name), dir));
    s_read_opening(self, dir, &opening);
    run.t_start_ns = opening.t_start_ns;
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
    size_t ignored;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &self->arena);
    if (err == CREMA_OK)
        err = sink_tombs_read(self->dir, &self->freed, &ignored);
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
