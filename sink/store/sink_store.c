#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crema_clock.h"
#include "sink_fs.h"
#include "sink_put.h"
#include "sink_store_private.h"

#define LIST_CHANGES_B                                                                             \
    (64u << 20) /* changes to the list of writers that the journal of a run may hold */

/* ---- taking */

static void
s_note_news(sink_store_run_t *run, int64_t t_real_ns)
{
    run->shown.news++;
    run->shown.t_news_ns = t_real_ns;
    sink_store_note_life(run, CREMA_LIFE_NEWS);
    run->shown.state.late = run->shown.state.revision > 0;
}

static crema_err_t
s_take_run(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    return self->n_stuck > 0 ? CREMA_ENOSPC : sink_store_take_run(self, run_id, ret_run);
}

static bool
s_is_full(sink_store_t *self, sink_store_run_t *run)
{
    uint64_t limit = (uint64_t)self->config.run_limit_bytes;
    uint64_t bytes = sink_journal_bytes(run->journal) + sink_journal_pending_bytes(run->journal);
    if (limit == 0 || bytes < limit)
        return false;
    if (!run->shown.is_full)
        sink_store_tell(
            self, SINK_STORE_RUN_FULL, &run->shown.run_id,
            "its journal has reached the limit of a run; further records are counted as lost");
    run->shown.is_full = true;
    return true;
}

/* Appends a checked PUT without its first `skip` numbers. */
static crema_err_t
s_append(sink_store_t *self, sink_store_run_t *run, const Crema__Put *put,
         const sink_put_range_t *range, uint32_t skip, int64_t t_real_ns)
{
    sink_put_rest_t rest = {
        .frames = put->frames.data,
        .frames_bytes = put->frames.len,
        .n = range->frames,
        .first_seq = put->first_seq,
    };
    crema_err_t err = CREMA_OK;
    if (skip > 0)
        err = sink_put_cut(put, put->first_seq + skip, self->arena, &rest);
    if (err == CREMA_OK && s_is_full(self, run))
        err = sink_put_lose(&rest, t_real_ns);
    if (err != CREMA_OK) {
        free(rest.owned);
        return err;
    }
    sink_journal_put_t entry = {
        .stream_id = *crema_id_of(put->stream_id),
        .agent_id = *crema_id_of(put->agent_id),
        .first_seq = rest.first_seq,
        .n = rest.n,
        .late = run->shown.state.seal_asked,
        .frames = rest.frames,
        .frames_bytes = rest.frames_bytes,
        .t_recv_ns = t_real_ns,
    };
    err = sink_journal_put(run->journal, &entry);
    run->shown.is_crowded = err == CREMA_EAGAIN;
    free(rest.owned);
    return err;
}

crema_err_t
sink_store_put(sink_store_t *self, const Crema__Put *put, int64_t t_real_ns,
               sink_store_put_t *ret_put)
{
    const crema_id_t *stream_id = crema_id_of(put->stream_id), *run_id = crema_id_of(put->run_id);
    sink_put_range_t range;
    crema_stream_row_t known;
    sink_store_run_t *run;
    crema_err_t err = sink_put_check(put, self->arena, &range);
    if (err == CREMA_OK && sink_commit_get(self->watermarks, stream_id, &known) &&
        !crema_id_equal(&known.run_id, run_id))
        err = CREMA_EPROTO;
    if (err == CREMA_OK && sink_put_names_other_run(put, self->arena))
        err = CREMA_EPROTO;
    if (err == CREMA_OK)
        err = s_take_run(self, run_id, &run);
    if (err == CREMA_OK && run->shown.is_crowded) /* also if this one is small enough */
        err = CREMA_EAGAIN;
    uint32_t skip = 0;
    sink_store_put_t answer = {0};
    if (err == CREMA_OK)
        err = sink_commit_put(self->watermarks, stream_id, run_id, put->first_seq,
                              (uint32_t)(range.last_seq - put->first_seq + 1), &answer.decision,
                              &skip, &answer.next);
    if (err == CREMA_OK && answer.decision == SINK_PUT_APPEND) {
        err = s_append(self, run, put, &range, skip, t_real_ns);
        if (err == CREMA_OK) {
            sink_commit_written(self->watermarks, stream_id, range.last_seq, range.closed);
            sink_store_touch(self, run);
            s_note_news(run, t_real_ns);
        }
    }
    if (err == CREMA_OK)
        *ret_put = answer;
    return err;
}

/* True if another key opened the run. An aggregator that does not know the owner sends none. */
static bool
s_is_denied(const sink_store_run_t *run, const crema_id_t *key)
{
    return !crema_id_is_zero(key) && !crema_id_is_zero(&run->shown.state.owner) &&
           !crema_id_equal(key, &run->shown.state.owner);
}

/* True if the message fits the run's state. A run that ended without a verdict may be sealed as
 * abandoned, and still counts as ended. */
static bool
s_is_possible(const sink_run_t *run, const crema_msg_t *msg, crema_life_t *ret_life)
{
    crema_life_event_t event = crema_life_event(msg);
    if (event == CREMA_LIFE_SILENCE && run->state.life == CREMA_LIFE_ENDED &&
        !run->state.seal_asked)
        event = CREMA_LIFE_END;
    return crema_life_step(run->state.life, event, ret_life) == CREMA_OK;
}

/* Journals the cost as a RUN_OPEN that changes only attributes. */
static crema_err_t
s_append_cost(sink_store_run_t *run, const crema_cost_t *cost, int64_t t_real_ns)
{
    crema_cost_attributes_t words;
    crema_cost_describe(cost, "sink", &words);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_OPEN,
                             .run_open = {.run_id = crema_id_field(&run->shown.run_id),
                                          .n_keys = CREMA_COST_ATTRIBUTES,
                                          .keys = words.keys,
                                          .n_values = CREMA_COST_ATTRIBUTES,
                                          .values = words.values}};
    return sink_journal_run(run->journal, &msg, t_real_ns);
}

crema_err_t
sink_store_run_msg(sink_store_t *self, const crema_msg_t *msg, const crema_cost_t *cost,
                   int64_t t_real_ns, bool *ret_new)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, crema_id_of(msg->run_id), &run);
    if (err != CREMA_OK)
        return err;
    if (!sink_store_said(run, msg->type))
        return CREMA_EINVAL;
    if (s_is_denied(run, crema_id_of(msg->run_open.owner)))
        return CREMA_EDENIED;
    crema_life_t life;
    uint32_t fingerprint = sink_store_fingerprint(msg);
    bool new =
        s_is_possible(&run->shown, msg, &life) && fingerprint != *sink_store_said(run, msg->type);
    if (new) {
        if (cost)
            err = s_append_cost(run, cost, t_real_ns);
        if (cost && err == CREMA_OK)
            sink_store_touch(self, run); /* also if the message has no room */
        if (err == CREMA_OK)
            err = sink_journal_run(run->journal, msg, t_real_ns);
        if (err != CREMA_OK)
            return err;
        /* A file that is being made does not contain what was said meanwhile. */
        bool matters = msg->type == CREMA_MSG_RUN_SEAL || run->shown.state.life != life;
        sink_store_note_message(run, msg, fingerprint);
        if (matters)
            s_note_news(run, t_real_ns);
        sink_store_hurry(self, run);
    }
    *ret_new = new;
    return CREMA_OK;
}

crema_err_t
sink_store_writers(sink_store_t *self, const Crema__RunWriters *msg, int64_t t_real_ns,
                   bool *ret_new)
{
    sink_store_run_t *run;
    bool new;
    crema_err_t err = s_take_run(self, crema_id_of(msg->run_id), &run);
    if (err == CREMA_OK && s_is_denied(run, crema_id_of(msg->owner)))
        err = CREMA_EDENIED;
    uint64_t changed = err == CREMA_OK ? sink_store_list_change(run, msg) : 0;
    if (changed > 0 && (run->list_changed_b + changed > LIST_CHANGES_B || s_is_full(self, run)))
        err = CREMA_ELIMIT;
    if (err == CREMA_OK)
        err = sink_store_note_writers(run, msg, &new);
    if (err != CREMA_OK)
        return err;
    if (new) {
        err = sink_journal_writers(run->journal, msg, t_real_ns);
        if (err != CREMA_OK) {
            run->said_writers[msg->part] = 0;
            return err;
        }
        s_note_news(run, t_real_ns);
        sink_store_hurry(self, run);
        run->list_appends = run->shown.appends;
    }
    *ret_new = new;
    return CREMA_OK;
}

crema_err_t
sink_store_clock(sink_store_t *self, const Crema__ClockSample *sample, int64_t t_real_ns)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, crema_id_of(sample->run_id), &run);
    if (err == CREMA_OK)
        err = sink_journal_clock(run->journal, sample, t_real_ns);
    if (err == CREMA_OK)
        sink_store_touch(self, run);
    return err;
}

crema_err_t
sink_store_sealed(sink_store_t *self, const crema_id_t *run_id, const sink_journal_sealed_t *sealed,
                  int64_t t_real_ns)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, run_id, &run);
    if (err == CREMA_OK)
        err = sink_journal_sealed(run->journal, sealed, t_real_ns);
    if (err != CREMA_OK)
        return err;
    sink_store_hurry(self, run);
    run->shown.state.revision = sealed->revision;
    run->shown.state.t_sealed_ns = t_real_ns;
    run->shown.state.late = false;
    run->verdict_read = false;
    sink_store_note_life(run, CREMA_LIFE_FILE);
    run->shown.state.age_sealed_ns = self->age_ns;
    return CREMA_OK;
}

crema_err_t
sink_store_keep_answer(sink_store_t *self, const crema_id_t *run_id, const uint8_t *bytes,
                       size_t size)
{
    sink_store_run_t *run;
    crema_err_t err = s_take_run(self, run_id, &run);
    return err == CREMA_OK ? sink_journal_file(run->journal, SINK_STORE_ANSWER, bytes, size) : err;
}

crema_err_t
sink_store_answer(const sink_store_t *self, const crema_id_t *run_id, uint8_t **ret_bytes,
                  size_t *ret_size)
{
    char dir[PATH_MAX], path[PATH_MAX];
    sink_fs_path(sink_store_run_dir(self, run_id, dir), SINK_STORE_ANSWER, path);
    return sink_fs_read(path, CREMA_WIRE_MESSAGE_MAX, ret_bytes, ret_size);
}

/* ---- committing */

#define REST_NS_MIN INT64_C(1000000)
#define S_DIRTY(link) CREMA_LIST_ITEM(link, sink_store_run_t, dirty)

size_t
sink_store_pending_bytes(const sink_store_t *self)
{
    size_t bytes = 0;
    for (const crema_link_t *at = self->dirty.next; at != &self->dirty; at = at->next)
        bytes += sink_journal_pending_bytes(S_DIRTY(at)->journal);
    return bytes;
}

static crema_err_t
s_report_broken(sink_store_t *self, const sink_store_run_t *run, int why)
{
    char path[PATH_MAX];
    sink_store_tell(self, SINK_STORE_BROKEN, &run->shown.run_id, "%s: %s",
                    sink_store_run_dir(self, &run->shown.run_id, path), strerror(why));
    return CREMA_EIO;
}

static void
s_note_stuck(sink_store_t *self, sink_store_run_t *run, bool stuck)
{
    self->n_stuck += stuck - run->stuck;
    run->stuck = stuck;
    run->ended_ns = crema_clock_mono_ns();
}

/* The group stays in memory, and its run waits to be begun again. */
static crema_err_t
s_end_stuck(sink_store_t *self, sink_store_run_t *run, crema_err_t err)
{
    run->again = true;
    s_note_stuck(self, run, true);
    sink_store_touch(self, run);
    return err;
}

static crema_err_t
s_end_group(sink_store_t *self, sink_store_job_t *job)
{
    sink_store_run_t *run = CREMA_LIST_ITEM(job, sink_store_run_t, job);
    crema_err_t err = sink_journal_end(run->journal);
    if (err == CREMA_EIO)
        return s_report_broken(self, run, errno);
    if (err != CREMA_OK)
        return s_end_stuck(self, run, err);
    run->again = false;
    s_note_stuck(self, run, false);
    if (sink_journal_pending_bytes(run->journal) == 0)
        crema_list_remove(&run->dirty);
    run->took_ns = run->ended_ns - run->begun_ns;
    sink_commit_durable(self->watermarks, &run->shown.run_id);
    sink_store_synced(self, run);
    sink_store_report_group(self, run, run->syncing_bytes);
    return CREMA_OK;
}

/* Has what was collected written and synced. */
static crema_err_t
s_begin(sink_store_t *self, sink_store_run_t *run)
{
    const sink_journal_head_t head = sink_store_head(self);
    run->begun_ns = crema_clock_mono_ns();
    crema_err_t err = sink_journal_begin(run->journal, &head);
    if (err == CREMA_EIO)
        return s_report_broken(self, run, errno);
    if (err != CREMA_OK) {
        s_note_stuck(self, run, true);
        return err;
    }
    if (!run->again) {
        run->waits_ns = run->dirty_ns;
        run->syncing_bytes = sink_journal_pending_bytes(run->journal);
        sink_commit_begin(self->watermarks, &run->shown.run_id);
        sink_store_begun(run);
    }
    sink_store_sync(self, run, s_end_group);
    return CREMA_OK;
}

/* When the run's next group may be written. */
static int64_t
s_due_ns(const sink_store_run_t *run, const sink_store_pace_t *pace)
{
    int64_t rest_ns = run->took_ns > REST_NS_MIN ? run->took_ns : REST_NS_MIN;
    if (run->stuck)
        rest_ns = pace->rest_max_ns;
    else if (run->hurries || sink_journal_pending_bytes(run->journal) >= pace->bytes)
        rest_ns = 0;
    else if (rest_ns > pace->rest_max_ns)
        rest_ns = pace->rest_max_ns;
    return run->ended_ns + rest_ns;
}

crema_err_t
sink_store_begin(sink_store_t *self, const sink_store_pace_t *pace, int64_t *ret_due_ns)
{
    const int64_t now_ns = crema_clock_mono_ns();
    crema_err_t err = CREMA_OK;
    *ret_due_ns = INT64_MAX;
    sink_store_begin_freeing(self);
    for (crema_link_t *at = self->dirty.next, *next; at != &self->dirty; at = next) {
        sink_store_run_t *run = S_DIRTY(at);
        next = at->next;
        const int64_t due_ns = run->job.busy ? INT64_MAX : pace ? s_due_ns(run, pace) : now_ns;
        if (due_ns > now_ns) {
            *ret_due_ns = due_ns < *ret_due_ns ? due_ns : *ret_due_ns;
            continue;
        }
        crema_err_t one = s_begin(self, run);
        if (one == CREMA_EIO)
            return one;
        if (one != CREMA_OK)
            err = one;
    }
    return err;
}

/* With `waits` also what is under way. */
static crema_err_t
s_end(sink_store_t *self, bool waits)
{
    crema_err_t err = CREMA_OK;
    sink_sync_t *sync;
    while (err != CREMA_EIO && (sync = sink_syncs_ended(self->syncs, waits))) {
        sink_store_job_t *job = CREMA_LIST_ITEM(sync, sink_store_job_t, sync);
        job->busy = false;
        crema_err_t one = job->end(self, job);
        if (one != CREMA_OK)
            err = one;
    }
    return err;
}

crema_err_t
sink_store_end(sink_store_t *self)
{
    return s_end(self, false);
}

bool
sink_store_has_ended(const sink_store_t *self)
{
    return sink_syncs_have_ended(self->syncs);
}

int
sink_store_fd(const sink_store_t *self)
{
    return sink_syncs_fd(self->syncs);
}

crema_err_t
sink_store_commit(sink_store_t *self)
{
    int64_t ignored;
    crema_err_t err, end;
    do { /* again if something was appended while it was being synced */
        err = sink_store_begin(self, NULL, &ignored);
        end = err == CREMA_EIO ? err : s_end(self, true);
        if (end != CREMA_OK)
            err = end;
    } while (err == CREMA_OK && !crema_list_is_empty(&self->dirty));
    return err;
}
