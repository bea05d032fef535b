#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_clock.h"
#include "crema_grow.h"
#include "sink_fs.h"
#include "sink_store_private.h"
#include "sink_tombs.h"

#define SECOND_NS INT64_C(1000000000)
#define REST_AFTER_NS (5 * SECOND_NS)
#define RETRY_AFTER_NS (5 * SECOND_NS) /* after a journal could not be read */
#define PEEKS 256                      /* resting runs examined per call */

/* ---- changing stages */

static void
s_leave_live(sink_store_t *self, sink_store_run_t *run)
{
    sink_store_run_t *last = self->live[--self->n_live];
    self->live[run->place] = last;
    last->place = run->place;
    sink_journal_close(&run->journal);
    sink_store_end_scrub(run);
}

/* Removes the run from the lists of its stage. */
static void
s_leave(sink_store_t *self, sink_store_run_t *run)
{
    crema_list_remove(&run->unread);
    if (run->stage == SINK_STAGE_LIVE)
        s_leave_live(self, run);
    if (run->stage == SINK_STAGE_RESTING) {
        self->n_resting--;
        self->resting_bytes -= run->bytes;
    }
    if (self->oldest == run)
        self->oldest = NULL;
    if (run->stage == SINK_STAGE_ASIDE) {
        self->report.aside--;
        run->shown.aside = NULL;
    }
}

static crema_err_t
s_enter_live(sink_store_t *self, sink_store_run_t *run)
{
    sink_store_run_t **live =
        crema_grow(self->live, self->n_live, &self->live_room, sizeof(sink_store_run_t *));
    if (!live)
        return CREMA_ENOMEM;
    self->live = live;
    s_leave(self, run);
    run->stage = SINK_STAGE_LIVE;
    run->place = self->n_live;
    self->live[self->n_live++] = run;
    return CREMA_OK;
}

bool
sink_store_is_older(const sink_store_run_t *run, const sink_store_run_t *other)
{
    const sink_journal_state_t *a = &run->shown.state, *b = &other->shown.state;
    return a->age_sealed_ns != b->age_sealed_ns ? a->age_sealed_ns < b->age_sealed_ns
                                                : a->t_sealed_ns < b->t_sealed_ns;
}

static void
s_enter_resting(sink_store_t *self, sink_store_run_t *run)
{
    s_leave(self, run);
    run->stage = SINK_STAGE_RESTING;
    self->n_resting++;
    self->resting_bytes += run->bytes;
    if (self->oldest && sink_store_is_older(run, self->oldest))
        self->oldest = run;
}

static void
s_set_bytes(sink_store_t *self, sink_store_run_t *run, uint64_t bytes)
{
    self->bytes += bytes - run->bytes;
    run->bytes = run->shown.bytes = bytes;
}

static const char *
s_why(crema_err_t err)
{
    if (err == CREMA_EMAGIC)
        return "it belongs to another store or run";
    if (err == CREMA_EBUSY)
        return "a later crema-sink wrote to it";
    return sink_fs_why(err);
}

/* Leaves the journal as it is. Nothing is accepted for the run, since its streams would start
 * again at 1. */
static void
s_set_aside(sink_store_t *self, sink_store_run_t *run, crema_err_t err, const char *where)
{
    char text[PATH_MAX + 128];
    snprintf(text, sizeof text, "%s: %s", where, s_why(err));
    if (!run->cause || strcmp(run->cause, text) != 0)
        sink_store_tell(self, SINK_STORE_ASIDE, &run->shown.run_id, "%s", text);
    s_leave(self, run);
    run->stage = SINK_STAGE_ASIDE;
    free(run->cause);
    run->cause = strdup(text);
    run->shown.aside = run->cause ? run->cause : "its journal cannot be read";
    run->age_used_ns = self->age_ns;
    self->report.aside++;
}

/* ---- reading a journal */

static void
s_note_report(sink_store_t *self, const sink_store_run_t *run, const char *path,
              const sink_journal_report_t *report)
{
    self->report.frames += report->frames;
    self->report.bytes += report->bytes;
    self->report.torn_bytes += report->torn_bytes;
    self->report.damaged_bytes += report->damaged_bytes;
    self->report.missing_frames += report->missing_frames;
    char why[SINK_UNREAD_TEXT_BYTES];
    sink_unread_text(&report->unread, why);
    if (report->damaged_bytes > 0 || report->missing_frames > 0)
        sink_store_tell(self, SINK_STORE_DAMAGED, &run->shown.run_id,
                        "%s: %llu bytes cannot be read%s%s%s and %llu entries are missing; what "
                        "spools still hold of it is asked for again",
                        path, (unsigned long long)report->damaged_bytes, why[0] ? " (" : "", why,
                        why[0] ? ")" : "", (unsigned long long)report->missing_frames);
}

/* What was found in the run's journal is durable. */
static void
s_note_back(sink_store_t *self, sink_store_run_t *run)
{
    char path[PATH_MAX];
    run->synced_here = true;
    if (run->cause)
        sink_store_tell(self, SINK_STORE_BACK, &run->shown.run_id, "%s",
                        sink_store_run_dir(self, &run->shown.run_id, path));
    free(run->cause);
    run->cause = NULL;
}

static void
s_write_and_sync(void *context)
{
    sink_journal_work(context);
}

void
sink_store_sync(sink_store_t *self, sink_store_run_t *run, sink_store_end_fn *end)
{
    sink_store_begin_job(self, &run->job, s_write_and_sync, run->journal, end);
}

void
sink_store_report_group(sink_store_t *self, const sink_store_run_t *run, size_t bytes)
{
    const sink_store_group_t group = {
        .run = &run->shown,
        .end = sink_journal_position(run->journal),
        .bytes = bytes,
        .took_ns = run->took_ns,
        .waited_ns = run->ended_ns - run->waits_ns,
    };
    if (self->config.on_group)
        self->config.on_group(self->config.context, &group);
}

/* Nothing of it was acknowledged. Messages that came meanwhile count as not received. */
static void
s_forget_unrenewed(sink_store_t *self, sink_store_run_t *run)
{
    sink_commit_drop(self->watermarks, &run->shown.run_id);
    crema_list_remove(&run->dirty);
    run->shown.state = (sink_journal_state_t){0};
    run->shown.is_crowded = run->hurries = run->list_checked = false;
    run->list_appends = 0;
    free(run->said_writers);
    run->said_writers = NULL;
    run->n_said_writers = 0;
}

static crema_err_t
s_end_renewing(sink_store_t *self, sink_store_job_t *job)
{
    sink_store_run_t *run = CREMA_LIST_ITEM(job, sink_store_run_t, job);
    char path[PATH_MAX];
    run->shown.is_renewing = false;
    self->n_renewing--;
    crema_err_t err = sink_journal_end(run->journal);
    if (err != CREMA_OK) {
        s_set_aside(self, run, err, sink_store_run_dir(self, &run->shown.run_id, path));
        s_forget_unrenewed(self, run);
        return CREMA_OK;
    }
    sink_commit_durable(self->watermarks, &run->shown.run_id);
    sink_store_synced(self, run);
    s_note_back(self, run);
    sink_store_report_group(self, run, 0);
    return CREMA_OK;
}

/* What comes for the run meanwhile is the group after that. */
static void
s_begin_renewing(sink_store_t *self, sink_store_run_t *run)
{
    sink_commit_renew(self->watermarks, &run->shown.run_id);
    run->durable = (sink_journal_state_t){0};
    run->shown.appends++;
    sink_store_begun(run);
    run->shown.is_renewing = true;
    self->n_renewing++;
    sink_store_sync(self, run, s_end_renewing);
}

/* Reads the newest checkpoint of the run's journal and what follows, and opens it for appending.
 * An error affects only this run. */
static crema_err_t
s_read(sink_store_t *self, sink_store_run_t *run, char where[PATH_MAX])
{
    char path[PATH_MAX];
    sink_journal_report_t report;
    sink_journal_t *journal = NULL;
    where[0] = '\0';
    sink_store_run_dir(self, &run->shown.run_id, path);
    crema_err_t err = sink_store_read_journal(self, run, path, &report, where, &journal);
    if (err == CREMA_OK)
        err = s_enter_live(self, run);
    if (err != CREMA_OK) {
        int why = errno;
        sink_journal_close(&journal);
        sink_commit_forget(self->watermarks, &run->shown.run_id);
        errno = why;
        return err;
    }
    run->journal = journal;
    s_set_bytes(self, run, sink_journal_bytes(journal));
    s_note_report(self, run, path, &report);
    if (run->shown.state.revision > 0 && run->shown.state.age_sealed_ns == 0)
        run->shown.state.age_sealed_ns = self->age_ns;
    run->age_used_ns = self->age_ns;
    if (sink_journal_position(journal).segment >
        1) /* what lies before the checkpoint was not read */
        sink_store_scrub(self, run);
    if (run->synced_here)
        sink_journal_trust(journal);
    if (!sink_journal_is_renewed(journal)) {
        s_begin_renewing(self, run);
        return CREMA_OK;
    }
    run->durable = run->shown.state;
    s_note_back(self, run);
    return CREMA_OK;
}

static crema_err_t
s_load(sink_store_t *self, sink_store_run_t *run)
{
    char where[PATH_MAX];
    crema_err_t err = s_read(self, run, where);
    if (err != CREMA_OK)
        s_set_aside(self, run, err, where);
    return err;
}

/* If the journal ends with a checkpoint, takes the run's state from it without reading more. */
static crema_err_t
s_peek(sink_store_t *self, sink_store_run_t *run)
{
    char path[PATH_MAX], where[PATH_MAX];
    sink_journal_state_t state;
    uint64_t bytes;
    crema_err_t err = sink_journal_peek(sink_store_run_dir(self, &run->shown.run_id, path),
                                        &self->store_id, &run->shown.run_id, &state, &bytes, where);
    if (err != CREMA_OK)
        return err;
    const sink_run_t shown = {.state = state};
    if (state.life >= CREMA_LIFE_COUNT || !sink_store_is_over(&shown))
        return CREMA_ENOENT;
    run->shown.state = state;
    if (run->shown.state.age_sealed_ns == 0)
        run->shown.state.age_sealed_ns = self->age_ns;
    s_set_bytes(self, run, bytes);
    s_enter_resting(self, run);
    return CREMA_OK;
}

bool
sink_store_examine(sink_store_t *self)
{
    for (int i = 0; i < PEEKS; i++) {
        sink_store_run_t *run = CREMA_LIST_FIRST(&self->unread, sink_store_run_t, unread);
        if (!run)
            return false;
        if (s_peek(self, run) == CREMA_OK)
            continue;
        crema_err_t err = s_load(self, run);
        (void)err; /* it is set aside, and an event says so */
        break;
    }
    return !crema_list_is_empty(&self->unread);
}

/* ---- finding and taking runs */

const sink_run_t *
sink_store_find(sink_store_t *self, const crema_id_t *run_id)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (!run) {
        if (!sink_store_is_freed(self, run_id))
            return NULL;
        self->shown_freed =
            (sink_run_t){.run_id = *run_id, .freed = true, .state.life = CREMA_LIFE_FREED};
        return &self->shown_freed;
    }
    if (run->stage == SINK_STAGE_UNREAD && s_peek(self, run) != CREMA_OK) {
        crema_err_t err = s_load(self, run);
        (void)err; /* the run is returned as set aside */
    }
    return &run->shown;
}

static void
s_drop_run(sink_store_t *self, sink_store_run_t *run)
{
    s_leave(self, run);
    s_set_bytes(self, run, 0);
    crema_list_remove(&run->dirty);
    (void)crema_map_take(self->runs, &run->shown.run_id);
    free(run->said_writers);
    free(run->cause);
    free(run);
}

/* Creates an unknown run. If its journal cannot be made, the run stays unknown. */
static crema_err_t
s_take_fresh(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    char where[PATH_MAX];
    if (sink_store_is_freed(self, run_id))
        return CREMA_ENOENT;
    crema_err_t err = sink_store_add_run(self, run_id, ret_run);
    if (err != CREMA_OK)
        return err;
    err = s_read(self, *ret_run, where);
    if (err != CREMA_OK)
        s_drop_run(self, *ret_run);
    return err;
}

crema_err_t
sink_store_take_run(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    crema_err_t err = CREMA_OK;
    if (crema_id_is_zero(run_id))
        return CREMA_EPROTO;
    if (run && run->stage == SINK_STAGE_ASIDE && self->age_ns - run->age_used_ns < RETRY_AFTER_NS)
        return CREMA_EIO;
    if (run && run->stage == SINK_STAGE_FREEING)
        return CREMA_EAGAIN;
    if (!run)
        err = s_take_fresh(self, run_id, &run);
    else if (run->stage != SINK_STAGE_LIVE)
        err = s_load(self, run);
    if (err != CREMA_OK)
        return err == CREMA_EMAGIC || err == CREMA_EBUSY ? CREMA_EIO : err;
    run->age_used_ns = self->age_ns;
    *ret_run = run;
    return CREMA_OK;
}

void
sink_store_touch(sink_store_t *self, sink_store_run_t *run)
{
    if (!crema_list_is_linked(&run->dirty))
        run->dirty_ns = crema_clock_mono_ns();
    run->shown.appends++;
    crema_list_append(&self->dirty, &run->dirty);
}

void
sink_store_hurry(sink_store_t *self, sink_store_run_t *run)
{
    sink_store_touch(self, run);
    run->hurries = true;
}

void
sink_store_begun(sink_store_run_t *run)
{
    crema_list_remove(&run->dirty);
    run->written = run->shown.state;
    run->syncing_news = run->shown.news;
    run->syncing_appends = run->shown.appends;
    run->hurries = run->shown.is_crowded = false;
}

void
sink_store_synced(sink_store_t *self, sink_store_run_t *run)
{
    run->durable = run->written;
    run->shown.durable_news = run->syncing_news;
    run->shown.durable_appends = run->syncing_appends;
    s_set_bytes(self, run, sink_journal_bytes(run->journal));
}

/* ---- coming to rest */

static crema_err_t
s_begin_rest(sink_store_t *self, sink_store_run_t *run)
{
    const sink_journal_head_t head = sink_store_head(self);
    if (run->stage != SINK_STAGE_LIVE || sink_store_is_unsynced(run))
        return CREMA_EAGAIN;
    run->age_used_ns = self->age_ns; /* after a failure it is retried later */
    return sink_journal_begin_rest(run->journal, &head);
}

/* The journal has ended with a checkpoint. */
static crema_err_t
s_come_to_rest(sink_store_t *self, sink_store_run_t *run)
{
    s_set_bytes(self, run, sink_journal_bytes(run->journal));
    if (sink_store_is_unsynced(run) || !sink_commit_forget(self->watermarks, &run->shown.run_id))
        return CREMA_EAGAIN;
    s_enter_resting(self, run);
    return CREMA_OK;
}

static crema_err_t
s_end_resting(sink_store_t *self, sink_store_job_t *job)
{
    sink_store_run_t *run = CREMA_LIST_ITEM(job, sink_store_run_t, job);
    crema_err_t err = sink_journal_end(run->journal);
    if (err == CREMA_OK && sink_store_is_over(&run->shown))
        err = s_come_to_rest(self, run);
    (void)err; /* it stays live and is retried */
    return CREMA_OK;
}

/* Without success it stays live, and is retried. */
static void
s_begin_resting(sink_store_t *self, sink_store_run_t *run)
{
    if (s_begin_rest(self, run) == CREMA_OK)
        sink_store_sync(self, run, s_end_resting);
}

void
sink_store_tick(sink_store_t *self, int64_t mono_ns)
{
    const int64_t keep_every_ns = 600 * SECOND_NS;
    if (self->mono_ns > 0 && mono_ns > self->mono_ns)
        self->age_ns += mono_ns - self->mono_ns;
    self->mono_ns = mono_ns;
    if (self->age_ns - self->age_kept_ns >= keep_every_ns)
        sink_store_begin_age(self);
    for (size_t i = self->n_live; i > 0; i--) {
        sink_store_run_t *run = self->live[i - 1];
        if (!sink_store_is_over(&run->shown) || self->age_ns - run->age_used_ns < REST_AFTER_NS)
            continue;
        s_begin_resting(self, run);
    }
}

/* ---- freeing */

/* In a thread: of the store it touches its directory's name and `freeing`, which nobody else does
 * meanwhile. */
static void
s_write_tombs(void *context)
{
    sink_store_t *self = context;
    sink_freeing_t *freeing = &self->freeing;
    char path[PATH_MAX];
    freeing->err = sink_tombs_add(self->dir, freeing->run_ids, freeing->n);
    freeing->why = errno;
    for (size_t i = 0; freeing->err == CREMA_OK && i < freeing->n; i++)
        sink_store_remove_dir(sink_store_run_dir(self, &freeing->run_ids[i], path));
}

static crema_err_t
s_end_freeing(sink_store_t *self, sink_store_job_t *job)
{
    sink_freeing_t *freeing = &self->freeing;
    (void)job;
    for (size_t i = 0; i < freeing->n; i++) {
        sink_store_run_t *run = sink_store_run(self, &freeing->run_ids[i]);
        self->bytes += run->bytes; /* taken off when it began */
        if (freeing->err == CREMA_OK) {
            s_drop_run(self, run);
        } else {
            sink_ids_remove(&self->freed, &freeing->run_ids[i]);
            s_enter_resting(self, run);
        }
        errno = freeing->why;
        if (self->config.on_freed)
            self->config.on_freed(self->config.context, &freeing->run_ids[i], freeing->whys[i],
                                  freeing->err);
    }
    freeing->n = 0;
    return freeing->err == CREMA_EIO ? CREMA_EIO : CREMA_OK;
}

void
sink_store_begin_freeing(sink_store_t *self)
{
    sink_freeing_t *freeing = &self->freeing;
    if (freeing->job.busy || freeing->n == 0)
        return;
    sink_store_begin_job(self, &freeing->job, s_write_tombs, self, s_end_freeing);
}

crema_err_t
sink_store_begin_free(sink_store_t *self, const crema_id_t *run_id, const char *why)
{
    sink_freeing_t *freeing = &self->freeing;
    const sink_run_t *shown = sink_store_find(self, run_id);
    if (!shown || shown->freed || shown->aside || !sink_store_is_over(shown))
        return CREMA_EINVAL;
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (freeing->job.busy || freeing->n == SINK_FREED_AT_ONCE || run->stage == SINK_STAGE_FREEING)
        return CREMA_EAGAIN;
    if (run->stage != SINK_STAGE_RESTING) {
        s_begin_resting(self, run);
        return CREMA_EAGAIN;
    }
    crema_err_t err = sink_ids_add(&self->freed, run_id);
    if (err != CREMA_OK)
        return err;
    s_leave(self, run);
    run->stage = SINK_STAGE_FREEING;
    self->bytes -= run->bytes;
    freeing->run_ids[freeing->n] = *run_id;
    freeing->whys[freeing->n++] = why;
    return CREMA_OK;
}
