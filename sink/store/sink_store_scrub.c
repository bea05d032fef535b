#include <string.h>

#include "sink_store_private.h"

static bool
s_is_open(const sink_store_run_t *run)
{
    return run->stage == SINK_STAGE_LIVE && run->shown.state.revision == 0 &&
           !run->shown.state.seal_asked;
}

void
sink_store_end_scrub(sink_store_run_t *run)
{
    crema_list_remove(&run->scrubbed);
    sink_scrub_destroy(&run->scrub);
    run->scrub_for_list = run->scrub_holds = false;
    run->hole_appends = 0;
}

void
sink_store_scrub(sink_store_t *self, sink_store_run_t *run)
{
    char path[PATH_MAX];
    sink_store_end_scrub(run);
    if (!s_is_open(run) ||
        sink_scrub_new(sink_store_run_dir(self, &run->shown.run_id, path), &run->shown.run_id,
                       self->config.streams_max, &run->scrub) != CREMA_OK)
        return; /* sealing reads all of it anyway */
    crema_list_append(&self->scrubbed, &run->scrubbed);
}

/* ---- handling a hole */

typedef struct {
    sink_store_t *store;
    const sink_commit_t *marks;
    uint64_t records;
} fall_t;

static void
s_on_row(void *context, const crema_stream_row_t *row)
{
    fall_t *fall = context;
    crema_stream_row_t readable;
    (void)sink_commit_get(fall->marks, &row->stream_id, &readable);
    if (readable.committed >= row->committed)
        return;
    fall->records += row->committed - readable.committed;
    sink_commit_lower(fall->store->watermarks, &row->stream_id, readable.committed);
}

/* Lowers the watermarks, and forgets message checksums so that repeated messages are journaled
 * again. */
static void
s_fall_back(sink_store_t *self, sink_store_run_t *run, const sink_scrub_found_t *found)
{
    fall_t fall = {.store = self, .marks = sink_scrub_marks(run->scrub)};
    sink_commit_each(self->watermarks, &run->shown.run_id, s_on_row, &fall);
    run->shown.state.said_open = run->shown.state.said_end = 0;
    if (run->n_said_writers > 0)
        memset(run->said_writers, 0, run->n_said_writers * sizeof *run->said_writers);
    run->durable = run->shown.state;
    self->report.damaged_bytes += found->damaged_bytes;
    self->report.missing_frames += found->missing_frames;
    char why[SINK_UNREAD_TEXT_BYTES];
    sink_unread_text(sink_scrub_unread(run->scrub), why);
    sink_store_tell(self, SINK_STORE_DAMAGED, &run->shown.run_id,
                    "%llu bytes of its journal cannot be read%s%s%s and %llu entries are missing; "
                    "what spools still hold of %llu records is asked for again",
                    (unsigned long long)found->damaged_bytes, why[0] ? " (" : "", why,
                    why[0] ? ")" : "", (unsigned long long)found->missing_frames,
                    (unsigned long long)fall.records);
}

static void
s_report_row(void *context, const crema_stream_row_t *row)
{
    sink_commit_ask(((sink_store_t *)context)->watermarks, &row->stream_id);
}

static void
s_finish(sink_store_t *self, sink_store_run_t *run, bool sound, sink_store_scrubbed_t *ret_scrubbed)
{
    sink_scrub_found_t found = sink_scrub_found(run->scrub);
    *ret_scrubbed = (sink_store_scrubbed_t){
        .run_id = run->shown.run_id,
        .parts = run->n_said_writers,
        .for_list = run->scrub_for_list,
        .fell = sound && found.damaged_bytes + found.missing_frames > 0,
    };
    if (ret_scrubbed->fell)
        s_fall_back(self, run, &found);
    if (run->scrub_for_list || run->scrub_holds)
        sink_commit_each(self->watermarks, &run->shown.run_id, s_report_row, self);
    run->list_checked |= run->scrub_for_list;
    sink_store_end_scrub(run);
}

/* What looks like a hole may be a group that is being written: until everything that was appended
 * when it was seen first is durable. */
static void
s_note_hole(sink_store_run_t *run)
{
    if (run->hole_appends == 0)
        run->hole_appends = run->shown.appends;
    else if (run->shown.durable_appends >= run->hole_appends)
        run->scrub_holds = true;
}

/* At the end of the journal. What was read without a hole holds all that is durable, and more may
 * come. With a hole watermarks fall back, but only where nothing waits: senders learn nothing
 * meanwhile, stop sending, and the run comes to a pause. A list is confirmed only when it is
 * durable. */
static bool
s_must_wait(sink_store_run_t *run)
{
    const sink_scrub_found_t found = sink_scrub_found(run->scrub);
    const bool has_hole = found.damaged_bytes + found.missing_frames > 0;
    if (has_hole)
        s_note_hole(run);
    else
        run->hole_appends = 0;
    return (has_hole && sink_store_is_unsynced(run)) ||
           (run->scrub_for_list && run->shown.durable_appends < run->list_appends);
}

bool
sink_store_scrub_some(sink_store_t *self, sink_store_scrubbed_t *ret_scrubbed)
{
    bool end = false;
    crema_err_t err = CREMA_OK;
    sink_store_run_t *run = CREMA_LIST_FIRST(&self->scrubbed, sink_store_run_t, scrubbed);
    if (!run)
        return false;
    if (!run->shown.is_renewing) /* else its end may yet be cut */
        err = sink_scrub_read(run->scrub, sink_journal_position(run->journal).segment, &end);
    const bool is_open = s_is_open(run);
    /* After an error nothing is known, so nothing is confirmed: it is tried again. */
    if (is_open && (err != CREMA_OK || !end || s_must_wait(run))) {
        crema_list_remove(&run->scrubbed); /* take turns */
        crema_list_append(&self->scrubbed, &run->scrubbed);
        return false;
    }
    s_finish(self, run, is_open, ret_scrubbed);
    return true;
}

bool
sink_store_is_scrubbing(const sink_store_t *self)
{
    return !crema_list_is_empty(&self->scrubbed);
}

/* ---- the list of writers */

bool
sink_store_check_list(sink_store_t *self, const crema_id_t *run_id)
{
    sink_store_run_t *run = sink_store_run(self, run_id);
    if (!run || !s_is_open(run) || run->list_checked)
        return true;
    if (!run->scrub_for_list) {
        sink_store_scrub(self, run);
        run->scrub_for_list = run->scrub != NULL;
    }
    return !run->scrub_for_list;
}

bool
sink_store_is_held(const sink_store_t *self, const crema_id_t *run_id)
{
    const bool is_any = self->n_renewing > 0 || !crema_list_is_empty(&self->scrubbed);
    const sink_store_run_t *run = is_any ? sink_store_run(self, run_id) : NULL;
    return run && (run->scrub_for_list || run->scrub_holds || run->shown.is_renewing);
}

bool
sink_store_has_part(const sink_store_t *self, const crema_id_t *run_id, uint32_t part)
{
    const sink_store_run_t *run = sink_store_run(self, run_id);
    return run && part < run->n_said_writers && run->said_writers[part] != 0;
}
