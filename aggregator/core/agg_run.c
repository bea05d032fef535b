#include "agg_run.h"

#include <stdlib.h>
#include <string.h>

#include "crema_text.h"

#define S 1000000000ll
#define LIST_NS                                                                                    \
    (30 * S) /* the list of writers is not waited for longer: its collector may be gone */

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
    for (size_t i = 0; i < self->n_members; i++) {
        crema_list_remove(&self->members[i]->awaited);
        agg_awaited_leave(self->awaited, &self->members[i]->agent_id);
        free(self->members[i]);
    }
    crema_list_remove(&self->mended);
    free(self->members);
    crema_map_destroy(&self->by_id);
    crema_msg_destroy(&self->open_msg);
    crema_msg_destroy(&self->end_msg);
    crema_msg_destroy(&self->sealed_msg);
    free(self);
    *self_p = NULL;
}

/* ---------------------------------------------------------------- the run itself */

crema_err_t
agg_run_on_open(agg_run_t *self, const Crema__RunOpen *msg)
{
    crema_err_t err = crema_life_step(self->life, CREMA_LIFE_NEWS, &self->life);
    if (err != CREMA_OK)
        return err;
    self->opened = true;
    if (self->open_msg)
        return CREMA_OK;
    err = crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_RUN_OPEN, .run_open = *msg},
                         &self->open_msg);
    if (err == CREMA_OK && self->phase == CREMA_RUN_UNKNOWN)
        self->phase = CREMA_RUN_OPEN;
    return err;
}

static crema_err_t
s_end(agg_run_t *self, crema_life_event_t event, const Crema__RunEnd *msg, uint64_t barrier_id,
      int64_t now_ns)
{
    crema_life_t life;
    crema_msg_t *copy;
    crema_err_t err = crema_life_step(self->life, event, &life);
    if (err == CREMA_OK)
        err = crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_RUN_END, .run_end = *msg}, &copy);
    if (err != CREMA_OK)
        return err;
    crema_msg_destroy(&self->end_msg);
    crema_msg_destroy(&self->sealed_msg);
    self->end_msg = copy;
    self->life = life;
    self->abandoned = event == CREMA_LIFE_SILENCE;
    self->phase = CREMA_RUN_BARRIER;
    self->seal = (crema_msg_t){0};
    self->dismiss = msg->dismiss;
    self->barrier_id = barrier_id;
    self->end_ns = now_ns;
    self->progress = 0;
    agg_run_progress(self, 1, now_ns);
    agg_run_follow_mended(self);
    return CREMA_OK;
}

crema_err_t
agg_run_on_end(agg_run_t *self, const Crema__RunEnd *msg, uint64_t barrier_id, int64_t now_ns)
{
    if (self->end_msg && !self->abandoned)
        return CREMA_EREPEAT;
    return s_end(self, CREMA_LIFE_END, msg, barrier_id, now_ns);
}

void
agg_run_forget_client(agg_run_t *self)
{
    crema_msg_destroy(&self->open_msg);
    crema_msg_destroy(&self->end_msg);
    self->phase = CREMA_RUN_UNKNOWN;
    self->life = CREMA_LIFE_NONE;
    self->opened = self->abandoned = self->dismiss = false;
    agg_run_follow_mended(self);
}

crema_err_t
agg_run_abandon(agg_run_t *self, uint64_t barrier_id, int64_t now_ns, int64_t real_ns)
{
    /* Nothing started for the run is needed any more. */
    const Crema__RunEnd msg = {
        .run_id = crema_id_field(&self->run_id),
        .t_start_ns = self->open_msg ? self->open_msg->run_open.t_start_ns : 0,
        .t_end_ns = real_ns,
        .dismiss = true,
    };
    return s_end(self, CREMA_LIFE_SILENCE, &msg, barrier_id, now_ns);
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
    if (!failed) /* whatever is known here: another aggregator may have ended it */
        self->life = lacks_end ? CREMA_LIFE_UNENDED : CREMA_LIFE_SEALED;
    agg_run_follow_mended(self);
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
    agg_run_follow_mended(self);
}

void
agg_run_set_listed(agg_run_t *self, bool is_listed)
{
    self->is_listed = is_listed;
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
    if (!lacks_file || self->lacking > 0 || self->unsettled == 0)
        return false;
    self->phase = CREMA_RUN_BARRIER;
    agg_run_progress(self, 1, now_ns);
    for (size_t i = 0; i < self->n_members; i++)
        if (!self->members[i]->settled)
            agg_run_begin_waits(self, self->members[i], now_ns);
    agg_run_follow_mended(self);
    return true;
}

bool
agg_run_wants_answers(const agg_run_t *self)
{
    return self->phase == CREMA_RUN_BARRIER ||
           (self->phase >= CREMA_RUN_VERDICT && self->lacking > 0);
}

void
agg_run_clear_reasons(agg_run_t *self)
{
    self->n_reasons = 0;
    self->reasons_left_out = 0;
    if (self->abandoned)
        agg_run_blame(self, CREMA_LIFE_NOT_ENDED, "", 0,
                      "its client disappeared before it ended the run");
    self->lacking = 0;
    agg_run_follow_mended(self);
}

void
agg_run_blame(agg_run_t *self, const char *code, const char *subject, uint64_t count,
              const char *text)
{
    self->lacking++;
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
agg_run_blame_for_good(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                       const char *text)
{
    agg_run_blame(self, code, subject, count, text);
    self->lacking--;
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
    agg_run_follow_mended(self);
}

Crema__RunState
agg_run_state(const agg_run_t *self)
{
    Crema__RunState state = {
        .run_id = crema_id_field(&self->run_id),
        .phase = self->phase,
        .streams = (uint32_t)self->streams,
        .streams_done = (uint32_t)(self->streams - self->undone),
        .committed = self->committed,
        .missing = self->missing,
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
