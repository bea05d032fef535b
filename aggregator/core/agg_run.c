#include "agg_run.h"

#include <math.h>
#include <stdlib.h>

#include "agg_core_impl.h"
#include "crema_frame.h"
#include "crema_life.h"
#include "crema_text.h"

/* The list of writers is not waited for longer: its collector may be gone. */
#define LIST_NS (30 * AGG_S)

static const crema_id_t s_no_agent;

/* ---------------------------------------------------------------- the run alone */

crema_err_t
agg_run_new(const crema_id_t *run_id, size_t members_max, int64_t retries, int64_t cap_ns,
            agg_awaited_t *awaited, agg_run_t **ret_self)
{
    agg_run_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->run_id = *run_id;
    self->retries = retries;
    self->cap_ns = cap_ns;
    self->awaited = awaited;
    crema_list_init(&self->asks);
    crema_list_init(&self->streams);
    crema_err_t err = crema_map_new(members_max, &self->by_id);
    if (err != CREMA_OK) {
        agg_run_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_run_destroy(agg_run_t **self_p)
{
    agg_run_t *self = *self_p;
    if (!self)
        return;
    crema_list_remove(&self->recovered);
    agg_run_free_members(self);
    crema_writers_destroy(&self->list.writers);
    free(self->list.parts);
    agg_rollup_destroy(&self->rollup);
    crema_msg_destroy(&self->open_msg);
    crema_msg_destroy(&self->end_msg);
    crema_msg_destroy(&self->sealed_msg);
    free(self);
    *self_p = NULL;
}

crema_err_t
agg_run_on_open(agg_run_t *self, const Crema__RunOpen *msg)
{
    self->opened = true;
    if (self->open_msg)
        return CREMA_OK;
    crema_err_t err = crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_RUN_OPEN, .run_open = *msg},
                                     &self->open_msg);
    if (err == CREMA_OK && self->phase == CREMA_RUN_UNKNOWN)
        self->phase = CREMA_RUN_OPEN;
    return err;
}

static crema_err_t
s_end(agg_run_t *self, bool abandoned, const Crema__RunEnd *msg, uint64_t barrier_id,
      int64_t now_ns)
{
    crema_msg_t *copy;
    crema_err_t err =
        crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_RUN_END, .run_end = *msg}, &copy);
    if (err != CREMA_OK)
        return err;
    crema_msg_destroy(&self->end_msg);
    crema_msg_destroy(&self->sealed_msg);
    self->end_msg = copy;
    self->abandoned = abandoned;
    self->phase = CREMA_RUN_BARRIER;
    self->seal = (crema_msg_t){0};
    self->dismiss = msg->dismiss;
    self->barrier_id = barrier_id;
    self->end_ns = now_ns;
    self->progress = 0;
    agg_run_progress(self, 1, now_ns);
    agg_run_follow_recovered(self);
    return CREMA_OK;
}

crema_err_t
agg_run_on_end(agg_run_t *self, const Crema__RunEnd *msg, uint64_t barrier_id, int64_t now_ns)
{
    if (self->end_msg && !self->abandoned)
        return CREMA_EREPEAT;
    return s_end(self, false, msg, barrier_id, now_ns);
}

void
agg_run_forget_client(agg_run_t *self)
{
    crema_msg_destroy(&self->open_msg);
    crema_msg_destroy(&self->end_msg);
    self->phase = CREMA_RUN_UNKNOWN;
    self->opened = self->abandoned = self->dismiss = false;
    agg_run_follow_recovered(self);
}

crema_err_t
agg_run_abandon(agg_run_t *self, uint64_t barrier_id, int64_t now_ns, int64_t real_ns)
{
    if (self->phase >= CREMA_RUN_BARRIER)
        return CREMA_EINVAL;
    /* Nothing started for the run is needed any more. */
    const Crema__RunEnd msg = {
        .run_id = crema_id_field(&self->run_id),
        .t_start_ns = self->open_msg ? self->open_msg->run_open.t_start_ns : 0,
        .t_end_ns = real_ns,
        .dismiss = true,
    };
    return s_end(self, true, &msg, barrier_id, now_ns);
}

crema_err_t
agg_run_on_sealed(agg_run_t *self, const Crema__Sealed *sealed)
{
    crema_msg_t *copy;
    bool lacks_end = crema_life_lacks_end(sealed->n_reasons, sealed->reasons);
    if (lacks_end && self->end_msg && !self->abandoned)
        return CREMA_EREPEAT;
    crema_err_t err =
        crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_SEALED, .sealed = *sealed}, &copy);
    if (err != CREMA_OK)
        return err;
    crema_msg_destroy(&self->sealed_msg);
    self->sealed_msg = copy;
    bool failed = copy->sealed.error[0] != '\0';
    self->phase = failed ? CREMA_RUN_FAILED : CREMA_RUN_SEALED;
    agg_run_follow_recovered(self);
    return CREMA_OK;
}

bool
agg_run_is_ready(const agg_run_t *self, int64_t now_ns)
{
    if (self->phase != CREMA_RUN_BARRIER)
        return false;
    int64_t limit_ns = self->end_msg->run_end.limit_ns;
    if (limit_ns > 0 && now_ns - self->progress_ns >= limit_ns)
        return true;
    return self->waiting == 0 && (!self->list_due || now_ns - self->end_ns >= LIST_NS);
}

void
agg_run_set_list_due(agg_run_t *self, bool due)
{
    self->list_due = due;
    agg_run_follow_recovered(self);
}

uint32_t
agg_run_writer_parts(const agg_run_t *self)
{
    return self->end_msg ? self->end_msg->run_end.writer_parts : 0;
}

bool
agg_run_reopen(agg_run_t *self, int64_t now_ns)
{
    bool lacks_file = self->phase == CREMA_RUN_VERDICT || self->phase == CREMA_RUN_FAILED;
    if (!lacks_file || self->removable > 0 || self->unsettled == 0)
        return false;
    self->phase = CREMA_RUN_BARRIER;
    agg_run_progress(self, 1, now_ns);
    for (size_t i = 0; i < self->n_members; i++)
        if (!self->members[i]->settled)
            agg_run_begin_waits(self, self->members[i], now_ns);
    agg_run_follow_recovered(self);
    return true;
}

bool
agg_run_wants_answers(const agg_run_t *self)
{
    return self->phase == CREMA_RUN_BARRIER ||
           (self->phase >= CREMA_RUN_VERDICT && self->removable > 0);
}

void
agg_run_clear_reasons(agg_run_t *self)
{
    self->n_reasons = 0;
    self->reasons_left_out = 0;
    if (self->abandoned)
        agg_run_add_reason(self, CREMA_LIFE_NOT_ENDED, "", 0,
                           "its client disappeared before it ended the run");
    self->removable = 0;
    agg_run_follow_recovered(self);
}

void
agg_run_add_reason(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                   const char *text)
{
    self->removable++;
    if (self->n_reasons >= AGG_RUN_REASONS_MAX) {
        self->reasons_left_out++;
        return;
    }
    size_t i = self->n_reasons++;
    crema_text_copy(self->subjects[i].subject, AGG_RUN_SUBJECT_BYTES, subject);
    crema_text_copy(self->subjects[i].text, AGG_RUN_TEXT_BYTES, text);
    self->reason_rows[i] =
        crema_reason(code, self->subjects[i].subject, self->subjects[i].text, count);
    self->reasons[i] = &self->reason_rows[i];
}

void
agg_run_add_final_reason(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                         const char *text)
{
    agg_run_add_reason(self, code, subject, count, text);
    self->removable--;
}

void
agg_run_give_verdict(agg_run_t *self, int64_t now_ns, int64_t real_ns)
{
    size_t n = self->n_reasons;
    if (self->reasons_left_out > 0) {
        self->reason_rows[n] =
            crema_reason(self->reasons[n - 1]->code, "",
                         "this many further reasons, which are not listed", self->reasons_left_out);
        self->reasons[n] = &self->reason_rows[n];
        n++;
    }
    if (self->phase == CREMA_RUN_BARRIER)
        self->verdict_ns = now_ns;
    self->phase = CREMA_RUN_VERDICT;
    self->seal = *self->end_msg;
    self->seal.type = CREMA_MSG_RUN_SEAL;
    self->seal.run_seal.t_verdict_ns = real_ns;
    self->seal.run_seal.n_reasons = n;
    self->seal.run_seal.reasons = self->reasons;
    agg_run_follow_recovered(self);
}

Crema__RunState
agg_run_state(const agg_run_t *self)
{
    Crema__RunState state = {
        .run_id = crema_id_field(&self->run_id),
        .phase = self->phase,
        .streams = (uint32_t)self->sums.streams,
        .streams_done = (uint32_t)(self->sums.streams - self->sums.undone),
        .committed = self->sums.committed,
        .missing = self->sums.missing,
        .progress = self->progress,
        .n_reasons = self->seal.run_seal.n_reasons,
        .reasons = self->seal.run_seal.reasons,
    };
    if (self->phase >= CREMA_RUN_VERDICT)
        state.verdict_after_ns = self->verdict_ns - self->end_ns;
    if (self->sealed_msg) {
        const Crema__Sealed *sealed = &self->sealed_msg->sealed;
        state.path = sealed->path;
        state.verdict = sealed->verdict;
        state.error = sealed->error;
        state.revision = sealed->revision;
        if (self->phase >= CREMA_RUN_SEALED) { /* otherwise a verdict was given since */
            state.n_reasons = sealed->n_reasons;
            state.reasons = sealed->reasons;
        }
    }
    return state;
}

void
agg_run_out(agg_core_t *core, agg_run_t *run)
{
    crema_list_append(&core->runs_out, &run->out);
}

/* ---------------------------------------------------------------- runs by age */

static void
s_put(crema_link_t *list, crema_link_t *link, bool wanted)
{
    if (wanted)
        crema_list_append(list, link);
    else
        crema_list_remove(link);
}

static agg_age_t
s_age_of(const agg_run_t *run)
{
    switch (run->phase) {
    case CREMA_RUN_UNKNOWN:
    case CREMA_RUN_OPEN:
        return AGG_AGE_OPEN;
    case CREMA_RUN_SEALED:
        return agg_run_wants_answers(run) ? AGG_AGE_MISSING : AGG_AGE_WHOLE;
    case CREMA_RUN_FAILED:
        return AGG_AGE_MISSING;
    default:
        return AGG_AGE_NONE;
    }
}

/* True if the run has a verdict of this aggregator but no file. A failure is not final: its
 * cause may go away, and a restarted sink retries at once. */
static bool
s_waits_for_file(const agg_run_t *run)
{
    crema_run_phase_t phase = run->phase;
    return phase == CREMA_RUN_VERDICT ||
           (phase == CREMA_RUN_FAILED && run->seal.type == CREMA_MSG_RUN_SEAL);
}

void
agg_run_follow_phase(agg_core_t *core, agg_run_t *run, int64_t now_ns)
{
    crema_run_phase_t phase = run->phase;
    agg_age_t age = s_age_of(run);
    s_put(&core->ending, &run->ending, phase == CREMA_RUN_BARRIER);
    s_put(&core->filing, &run->filing, s_waits_for_file(run));
    s_put(&core->over, &run->over,
          phase >= CREMA_RUN_SEALED && !crema_list_is_empty(&run->streams));
    if (phase == CREMA_RUN_SEALED)
        agg_owner_release(run);
    if (age == AGG_AGE_NONE)
        crema_list_remove(&run->age);
    if (age != run->age_of || !crema_list_is_linked(&run->age))
        agg_run_begin_age(core, run, age, now_ns);
}

agg_run_t *
agg_run_oldest(const agg_core_t *core, agg_age_t age, int64_t before_ns)
{
    agg_run_t *run = CREMA_LIST_FIRST(&core->ages[age], agg_run_t, age);
    return run && run->since_ns <= before_ns ? run : NULL;
}

/* ---------------------------------------------------------------- known and forgotten */

void
agg_run_free_list(agg_run_t *run)
{
    crema_writers_destroy(&run->list.writers);
    free(run->list.parts);
    agg_owner_keep(run, &run->list.kept_b, 0);
    run->list = (agg_list_t){0};
}

void
agg_run_forget(agg_core_t *core, agg_run_t *run)
{
    for (crema_link_t *link = run->streams.next; link != &run->streams;) {
        agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_run);
        link = link->next;
        agg_stream_forget(core, stream);
    }
    crema_map_take(core->runs, &run->run_id);
    agg_run_free_list(run);
    agg_owner_leave(core, run);
    crema_list_remove(&run->out);
    crema_list_remove(&run->ending);
    crema_list_remove(&run->filing);
    crema_list_remove(&run->over);
    crema_list_remove(&run->age);
    agg_run_destroy(&run);
}

static agg_run_t *
s_oldest_of(const agg_core_t *core, agg_age_t age, const agg_owner_t *owner)
{
    const crema_link_t *list = &core->ages[age];
    for (crema_link_t *link = list->next; link != list; link = link->next) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, age);
        if (!owner || run->owner == owner)
            return run;
    }
    return NULL;
}

bool
agg_runs_make_room(agg_core_t *core, const agg_owner_t *owner)
{
    agg_run_t *run = s_oldest_of(core, AGG_AGE_WHOLE, owner);
    if (!run)
        run = s_oldest_of(core, AGG_AGE_MISSING, owner);
    if (run)
        agg_run_forget(core, run);
    return run != NULL;
}

void
agg_runs_forget_finished(agg_core_t *core, agg_peer_t peer)
{
    agg_owner_t *owner;
    while ((owner = agg_owner_of_client(core, peer)) &&
           (!agg_owner_may_have_run(core, owner) || !agg_owner_may_keep(owner, 1)) &&
           agg_runs_make_room(core, owner))
        ;
}

agg_run_t *
agg_run_get(agg_core_t *core, const crema_id_t *run_id, int64_t now_ns)
{
    agg_run_t *run = crema_map_find(core->runs, run_id);
    if (run)
        return run;
    if (crema_map_count(core->runs) >= core->config.runs_max && !agg_runs_make_room(core, NULL))
        return NULL;
    if (agg_run_new(run_id, core->config.agents_max + 1, core->config.barrier_retries,
                    core->config.barrier_cap_ns, &core->awaited, &run) != CREMA_OK)
        return NULL;
    if (crema_map_add(core->runs, run_id, run) != CREMA_OK) {
        agg_run_destroy(&run);
        return NULL;
    }
    agg_run_follow_phase(core, run, now_ns);
    return run;
}

/* ---------------------------------------------------------------- streams */

static agg_stream_t *
s_make(agg_core_t *core, const crema_id_t *stream_id, const crema_id_t *run_id, int64_t now_ns)
{
    agg_run_t *run = agg_run_get(core, run_id, now_ns);
    agg_stream_t *stream = NULL;
    if (!run || agg_stream_new(stream_id, run, &stream) != CREMA_OK)
        return NULL;
    if (agg_run_member(run, &s_no_agent, &stream->member) != CREMA_OK ||
        crema_map_add(core->streams, stream_id, stream) != CREMA_OK) {
        agg_stream_destroy(&stream);
        return NULL;
    }
    crema_list_append(&run->streams, &stream->of_run);
    agg_owner_use(run, (agg_usage_t){.streams = 1});
    agg_run_follow_phase(core, run, now_ns);
    crema_list_append(&core->due, &stream->due);
    agg_run_tally(run, stream->member, NULL, &(agg_tally_t){0}, now_ns);
    return stream;
}

agg_stream_t *
agg_stream_get(agg_core_t *core, const crema_id_t *stream_id, const crema_id_t *run_id,
               int64_t now_ns)
{
    agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    if (!stream && !crema_id_is_zero(run_id))
        stream = s_make(core, stream_id, run_id, now_ns);
    core->stats.refused += !stream;
    core->stats.no_room += !stream;
    return stream;
}

agg_stream_t *
agg_stream_bring(agg_core_t *core, const crema_id_t *stream_id, const crema_id_t *run_id,
                 int64_t now_ns)
{
    agg_stream_t *stream = crema_map_find(core->streams, stream_id);
    if (stream)
        return stream;
    agg_run_t *run = crema_map_find(core->runs, run_id);
    agg_owner_t *owner = run && run->owner ? run->owner : agg_owner_of_sender(core);
    bool has_room =
        agg_owner_may_have_stream(core, owner) && (run || agg_owner_may_have_run(core, owner));
    if (has_room)
        stream = agg_stream_get(core, stream_id, run_id, now_ns);
    else
        core->stats.refused++, core->stats.no_room++;
    if (stream)
        agg_owner_adopt(core, stream->run);
    return stream;
}

agg_stream_t *
agg_stream_make_listed(agg_core_t *core, agg_run_t *run, const crema_id_t *stream_id,
                       int64_t now_ns)
{
    agg_stream_t *stream = NULL;
    if (core->n_only_listed < core->config.streams_max / 2)
        stream = s_make(core, stream_id, &run->run_id, now_ns);
    core->stats.refused += !stream;
    if (stream) {
        stream->only_listed = true;
        core->n_only_listed++;
        agg_owner_use(run, (agg_usage_t){.only_listed = 1});
    }
    return stream;
}

/* The run keeps its sums, so a finished stream can be forgotten. */
static bool
s_is_forgettable(const agg_stream_t *stream)
{
    const agg_session_t *session = stream->session;
    return agg_stream_is_done(stream) && stream->run->phase >= CREMA_RUN_SEALED &&
           agg_stream_short(stream) == 0 &&
           (!session || !session->is_open || stream->table < session->whole_table);
}

static void
s_sweep(agg_core_t *core, agg_run_t *run)
{
    for (crema_link_t *link = run->streams.next; link != &run->streams;) {
        agg_stream_t *stream = CREMA_LIST_ITEM(link, agg_stream_t, of_run);
        link = link->next;
        if (s_is_forgettable(stream))
            agg_stream_forget(core, stream);
    }
}

void
agg_streams_sweep(agg_core_t *core)
{
    for (crema_link_t *link = core->over.next; link != &core->over;) {
        agg_run_t *run = CREMA_LIST_ITEM(link, agg_run_t, over);
        link = link->next;
        s_sweep(core, run);
        if (crema_list_is_empty(&run->streams))
            crema_list_remove(&run->over);
    }
}

/* ---------------------------------------------------------------- the live split */

/* With what its owner has left for it. NULL: the run has its file, or memory ran out. */
static agg_rollup_t *
s_rollup(agg_core_t *core, agg_run_t *run)
{
    if (!run->rollup && !run->split_is_over &&
        agg_rollup_new(AGG_ROLLUP_LIMITS, &run->rollup) != CREMA_OK)
        core->stats.split_left++;
    if (run->rollup)
        agg_rollup_allow(run->rollup, agg_owner_room_split(run->owner));
    return run->rollup;
}

/* After it has taken something: what it holds now counts for the owner. */
static void
s_keep_split(agg_run_t *run)
{
    const uint64_t bytes = run->rollup ? agg_rollup_stats(run->rollup).bytes : 0;
    agg_owner_use(run, (agg_usage_t){.split_b = bytes - run->uses.split_b});
}

static void
s_take_record(agg_core_t *core, agg_run_t *run, const crema_id_t *stream_id,
              const agg_frames_t *frames)
{
    crema_frame_t frame;
    crema_record_t record;
    if (crema_frame_decode(frames->at, frames->left, &frame) != CREMA_OK ||
        crema_record_decode(&frame, core->record_arena, &record) != CREMA_OK)
        core->stats.split_left++;
    else
        agg_rollup_take(run->rollup, stream_id, &record);
}

void
agg_split_take(agg_core_t *core, agg_run_t *run, const crema_id_t *stream_id, agg_frames_t frames)
{
    crema_frame_t peek;
    if (!s_rollup(core, run))
        return;
    const uint64_t was = agg_rollup_stats(run->rollup).not_taken;
    while (crema_frame_look(frames.at, frames.left, &peek)) {
        if (peek.type == CREMA_RECORD_DICT ||
            crema_record_is_batch_of(&peek, CREMA_TABLE_ACTIVITIES))
            s_take_record(core, run, stream_id, &frames);
        frames.at += crema_frame_bytes(&peek);
        frames.left -= crema_frame_bytes(&peek);
    }
    core->stats.split_left += agg_rollup_stats(run->rollup).not_taken - was;
    s_keep_split(run);
}

void
agg_split_set_prefixes(agg_core_t *core, agg_run_t *run, const Crema__RunOpen *msg)
{
    agg_rollup_t *rollup = s_rollup(core, run);
    if (rollup && msg->n_processor_prefixes > 0 &&
        agg_rollup_set_prefixes(rollup, msg->n_processor_prefixes, msg->processor_prefixes) !=
            CREMA_OK)
        core->stats.split_left++;
    s_keep_split(run);
}

/* What RUN_STATE says of it: nothing (NaN) where it is known to be too small. */
static void
s_sums(const agg_rollup_t *rollup, double *ret_processor_s, double *ret_overhead_s)
{
    const bool is_whole = agg_rollup_is_whole(rollup);
    *ret_processor_s = is_whole ? agg_rollup_side_s(rollup, CREMA_SIDE_PROCESSOR) : NAN;
    *ret_overhead_s = is_whole ? agg_rollup_overhead_s(rollup) : NAN;
}

void
agg_run_end_split(agg_run_t *run)
{
    if (run->rollup)
        s_sums(run->rollup, &run->processor_s, &run->overhead_s);
    run->split_is_over = true;
    agg_rollup_destroy(&run->rollup);
    s_keep_split(run);
}

Crema__RunState
agg_run_report(const agg_core_t *core, const agg_run_t *run)
{
    Crema__RunState state = agg_run_state(run);
    state.agents = (uint32_t)core->n_reported[AGG_SESSION_LIVE];
    state.processor_s = run->processor_s;
    state.overhead_s = run->overhead_s;
    if (run->rollup)
        s_sums(run->rollup, &state.processor_s, &state.overhead_s);
    return state;
}
