#include "agg_run.h"

#include <stdlib.h>
#include <string.h>

#include "agg_text.h"
#include "crema_list.h"
#include "crema_map.h"
#include "crema_text.h"

#define S 1000000000ll
#define LIST_NS                                                                                    \
    (30 * S) /* the list of writers is not waited for longer: its collector may be gone */
#define SUBJECT_BYTES 64
#define TEXT_BYTES 192
#define EXPECTED_MAX 8 /* how often to wait for an agent that reconnects without answering */

struct agg_member {
    crema_id_t agent_id;
    uint64_t streams, undone, missing;
    bool owes_answer;
    bool given_up;
    bool settled;    /* neither an answer nor a stream is outstanding */
    bool waited_for; /* neither settled nor given up */
    agg_run_t *run;
    crema_link_t *of_agent; /* its agent's list of unsettled members */
    crema_link_t awaited;   /* in that list */
    uint64_t due;           /* records that were missing when it answered and still are */
    int64_t interval_ns;
    unsigned expected; /* how often an answer was expected */
    int64_t asks;      /* questions asked so far */
    int64_t ask_at_ns; /* time of the next question, or of giving up */
    crema_link_t ask;  /* in `asks`: it is to be asked */
};

typedef struct {
    char subject[SUBJECT_BYTES], text[TEXT_BYTES];
} subject_t;

struct agg_run {
    crema_id_t run_id;
    crema_run_phase_t phase;
    crema_life_t life;
    bool abandoned; /* end_msg is not from its client */
    size_t members_max;
    int64_t retries, cap_ns;
    bool opened, dismiss;
    uint64_t barrier_id;
    int64_t end_ns, verdict_ns;
    uint64_t streams, undone, missing, committed;
    uint64_t waiting;   /* members still waited for */
    uint64_t unsettled; /* members, including those given up */
    bool list_due;
    agg_member_t *unlisted; /* the member with the zero id, or NULL */
    agg_member_t **members;
    size_t n_members, capacity;
    crema_map_t *by_id;
    crema_link_t asks;
    agg_awaited_t *awaited;
    crema_link_t mended;                 /* in agg_awaited_mended() */
    crema_run_msg_t *open_msg, *end_msg; /* copies, one block each */
    crema_run_msg_t seal;                /* end_msg with the verdict */
    crema_sealed_t *sealed;              /* copy */
    size_t n_reasons;
    size_t lacking; /* reasons of the last verdict that late data can remove */
    uint64_t reasons_left_out;
    crema_reason_t reasons[AGG_RUN_REASONS_MAX + 1];
    subject_t subjects[AGG_RUN_REASONS_MAX + 1];
};

crema_err_t
agg_run_new(const crema_id_t *run_id, size_t members_max, int64_t retries, int64_t cap_ns,
            agg_awaited_t *awaited, agg_run_t **ret_self)
{
    agg_run_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->run_id = *run_id;
    self->members_max = members_max;
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
    free(self->open_msg);
    free(self->end_msg);
    free(self->sealed);
    free(self);
    *self_p = NULL;
}

/* ---------------------------------------------------------------- members */

/* Updates what depends on agg_run_is_mended(). */
static void
s_follow_mended(agg_run_t *self)
{
    if (agg_run_is_mended(self))
        crema_list_append(agg_awaited_mended(self->awaited), &self->mended);
    else
        crema_list_remove(&self->mended);
}

/* Updates the member after a change of owes_answer, given_up or its streams. */
static void
s_update(agg_run_t *self, agg_member_t *member)
{
    bool settled = !member->owes_answer && member->undone == 0;
    bool waited_for = !settled && !member->given_up;
    self->unsettled += (uint64_t)!settled - (uint64_t)!member->settled;
    self->waiting += (uint64_t)waited_for - (uint64_t)member->waited_for;
    member->settled = settled;
    member->waited_for = waited_for;
    if (settled)
        crema_list_remove(&member->awaited);
    else
        crema_list_append(member->of_agent, &member->awaited);
    s_follow_mended(self);
}

crema_err_t
agg_run_member(agg_run_t *self, const crema_id_t *agent_id, agg_member_t **ret_member)
{
    agg_member_t *member = crema_map_find(self->by_id, agent_id);
    if (member) {
        *ret_member = member;
        return CREMA_OK;
    }
    if (self->n_members == self->capacity) {
        size_t capacity = self->capacity ? 2 * self->capacity : 4;
        agg_member_t **members = realloc(self->members, capacity * sizeof(agg_member_t *));
        if (!members)
            return CREMA_ENOMEM;
        self->members = members;
        self->capacity = capacity;
    }
    member = calloc(1, sizeof *member);
    if (!member)
        return CREMA_ENOMEM;
    crema_err_t err = agg_awaited_join(self->awaited, agent_id, &member->of_agent);
    if (err == CREMA_OK) {
        err = crema_map_add(self->by_id, agent_id, member);
        if (err != CREMA_OK)
            agg_awaited_leave(self->awaited, agent_id);
    }
    if (err != CREMA_OK) {
        free(member);
        return err;
    }
    member->agent_id = *agent_id;
    member->run = self;
    member->interval_ns = S;
    member->settled = true;
    self->members[self->n_members++] = member;
    if (crema_id_is_zero(agent_id))
        self->unlisted = member;
    *ret_member = member;
    return CREMA_OK;
}

agg_member_t *
agg_run_find(const agg_run_t *self, const crema_id_t *agent_id)
{
    return crema_map_find(self->by_id, agent_id);
}

/* The wait after question `ask`, counted from 0. */
static int64_t
s_wait_ns(const agg_run_t *self, const agg_member_t *member, int64_t ask)
{
    int64_t wait = 2 * member->interval_ns;
    for (int64_t i = 0; i < ask && wait < self->cap_ns; i++)
        wait *= 2;
    return wait < self->cap_ns ? wait : self->cap_ns;
}

/* A question was just asked in some way: the waits start over. */
static void
s_begin_waits(agg_run_t *self, agg_member_t *member, int64_t now_ns)
{
    member->asks = 1;
    member->ask_at_ns = now_ns + s_wait_ns(self, member, 0);
    member->given_up = false;
    s_update(self, member);
}

/* Asks if it is time, or gives up after the last wait. */
static void
s_ask_if_due(agg_run_t *self, agg_member_t *member, int64_t now_ns)
{
    if (self->phase != CREMA_RUN_BARRIER || !member->waited_for || now_ns < member->ask_at_ns)
        return;
    if (member->asks >= self->retries) {
        member->given_up = true;
        s_update(self, member);
        return;
    }
    member->ask_at_ns = now_ns + s_wait_ns(self, member, member->asks);
    member->asks++;
    crema_list_append(&self->asks, &member->ask);
}

void
agg_run_expect(agg_run_t *self, agg_member_t *member, int64_t interval_ns, int64_t silent_ns,
               int64_t now_ns)
{
    int64_t all_waits = 0;
    member->interval_ns = interval_ns;
    for (int64_t i = 0; i < self->retries; i++)
        all_waits += s_wait_ns(self, member, i);
    member->owes_answer = true;
    member->due = 0;
    if (++member->expected <= EXPECTED_MAX)
        s_begin_waits(self, member, now_ns);
    member->given_up = member->given_up || silent_ns > all_waits;
    s_update(self, member);
    crema_list_append(&self->asks, &member->ask);
}

void
agg_run_pace(agg_member_t *member, int64_t interval_ns)
{
    member->interval_ns = interval_ns;
}

void
agg_run_excuse(agg_run_t *self, agg_member_t *member, int64_t now_ns)
{
    if (!member->owes_answer)
        return;
    member->owes_answer = false;
    s_begin_waits(self, member, now_ns); /* for records in flight */
}

void
agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen, int64_t now_ns)
{
    if (self->phase < CREMA_RUN_BARRIER || barrier_seen < self->barrier_id || !member->owes_answer)
        return;
    member->owes_answer = false;
    member->due = member->missing;
    if (member->due > 0)
        s_begin_waits(self, member, now_ns);
    s_update(self, member);
}

static void
s_add(agg_run_t *self, agg_member_t *member, const agg_tally_t *tally, uint64_t sign)
{
    self->streams += sign;
    self->undone += sign * !tally->done;
    self->missing += sign * tally->missing;
    self->committed += sign * tally->committed;
    member->streams += sign;
    member->undone += sign * !tally->done;
    member->missing += sign * tally->missing;
}

void
agg_run_tally(agg_run_t *self, agg_member_t *member, const agg_tally_t *was, const agg_tally_t *is,
              int64_t now_ns)
{
    if (was)
        s_add(self, member, was, (uint64_t)-1);
    if (is)
        s_add(self, member, is, 1);
    if (is && !was &&
        self->unlisted) { /* the run is no longer without streams, which this member stood for */
        self->unlisted->owes_answer = false;
        s_update(self, self->unlisted);
    }
    if (was && is && is->committed > was->committed && member->due > 0) {
        uint64_t came = is->committed - was->committed;
        member->due -= came < member->due ? came : member->due;
        s_begin_waits(self, member, now_ns); /* outstanding records are arriving */
    }
    s_update(self, member);
}

void
agg_run_on_tick(agg_run_t *self, int64_t now_ns)
{
    for (size_t i = 0; i < self->n_members; i++)
        s_ask_if_due(self, self->members[i], now_ns);
}

agg_member_t *
agg_run_ask(agg_run_t *self)
{
    agg_member_t *member = CREMA_LIST_FIRST(&self->asks, agg_member_t, ask);
    if (member)
        crema_list_remove(&member->ask);
    return member;
}

/* ---------------------------------------------------------------- the run itself */

crema_err_t
agg_run_on_open(agg_run_t *self, const crema_run_msg_t *msg)
{
    crema_err_t err = crema_life_step(self->life, CREMA_LIFE_NEWS, &self->life);
    if (err != CREMA_OK)
        return err;
    self->opened = true;
    if (self->open_msg)
        return CREMA_OK;
    err = agg_text_copy_run(msg, &self->open_msg);
    if (err == CREMA_OK && self->phase == CREMA_RUN_UNKNOWN)
        self->phase = CREMA_RUN_OPEN;
    return err;
}

static crema_err_t
s_end(agg_run_t *self, crema_life_event_t event, const crema_run_msg_t *msg, uint64_t barrier_id,
      int64_t now_ns)
{
    crema_life_t life;
    crema_run_msg_t *copy;
    crema_err_t err = crema_life_step(self->life, event, &life);
    if (err == CREMA_OK)
        err = agg_text_copy_run(msg, &copy);
    if (err != CREMA_OK)
        return err;
    free(self->end_msg);
    free(self->sealed);
    self->sealed = NULL;
    self->end_msg = copy;
    self->life = life;
    self->abandoned = event == CREMA_LIFE_SILENCE;
    self->phase = CREMA_RUN_BARRIER;
    self->seal = (crema_run_msg_t){0};
    self->dismiss = msg->dismiss;
    self->barrier_id = barrier_id;
    self->end_ns = now_ns;
    s_follow_mended(self);
    return CREMA_OK;
}

crema_err_t
agg_run_on_end(agg_run_t *self, const crema_run_msg_t *msg, uint64_t barrier_id, int64_t now_ns)
{
    if (self->end_msg && !self->abandoned)
        return CREMA_EREPEAT;
    return s_end(self, CREMA_LIFE_END, msg, barrier_id, now_ns);
}

void
agg_run_forget_client(agg_run_t *self)
{
    free(self->open_msg);
    free(self->end_msg);
    self->open_msg = self->end_msg = NULL;
    self->phase = CREMA_RUN_UNKNOWN;
    self->life = CREMA_LIFE_NONE;
    self->opened = self->abandoned = self->dismiss = false;
    s_follow_mended(self);
}

crema_err_t
agg_run_abandon(agg_run_t *self, uint64_t barrier_id, int64_t now_ns, int64_t real_ns)
{
    /* Nothing started for the run is needed any more. */
    const crema_run_msg_t msg = {
        .run_id = self->run_id,
        .t_start_ns = self->open_msg ? self->open_msg->t_start_ns : 0,
        .t_end_ns = real_ns,
        .dismiss = true,
    };
    return s_end(self, CREMA_LIFE_SILENCE, &msg, barrier_id, now_ns);
}

crema_err_t
agg_run_on_sealed(agg_run_t *self, const crema_sealed_t *sealed)
{
    crema_sealed_t *copy = NULL;
    bool lacks_end = crema_life_lacks_end(sealed->n_reasons, sealed->reasons);
    if (lacks_end && self->end_msg && !self->abandoned)
        return CREMA_EREPEAT;
    crema_err_t err = agg_text_copy_sealed(sealed, &copy);
    if (err != CREMA_OK)
        return err;
    free(self->sealed);
    self->sealed = copy;
    bool failed = copy->error && *copy->error;
    self->phase = failed ? CREMA_RUN_FAILED : CREMA_RUN_SEALED;
    if (!failed) /* whatever is known here: another aggregator may have ended it */
        self->life = lacks_end ? CREMA_LIFE_UNENDED : CREMA_LIFE_SEALED;
    s_follow_mended(self);
    return CREMA_OK;
}

bool
agg_run_is_ready(const agg_run_t *self, int64_t now_ns)
{
    return self->phase == CREMA_RUN_BARRIER && self->waiting == 0 &&
           (!self->list_due || now_ns - self->end_ns >= LIST_NS);
}

void
agg_run_set_list_due(agg_run_t *self, bool due)
{
    self->list_due = due;
    s_follow_mended(self);
}

bool
agg_run_list_is_due(const agg_run_t *self)
{
    return self->list_due;
}

uint32_t
agg_run_writer_parts(const agg_run_t *self)
{
    return self->end_msg ? self->end_msg->writer_parts : 0;
}

bool
agg_run_reopen(agg_run_t *self, int64_t now_ns)
{
    bool lacks_file = self->phase == CREMA_RUN_VERDICT || self->phase == CREMA_RUN_FAILED;
    if (!lacks_file || self->lacking > 0 || self->unsettled == 0)
        return false;
    self->phase = CREMA_RUN_BARRIER;
    for (size_t i = 0; i < self->n_members; i++)
        if (!self->members[i]->settled)
            s_begin_waits(self, self->members[i], now_ns);
    s_follow_mended(self);
    return true;
}

bool
agg_run_is_mended(const agg_run_t *self)
{
    return self->phase >= CREMA_RUN_VERDICT && self->lacking > 0 && self->unsettled == 0 &&
           !self->list_due;
}

bool
agg_run_wants_answers(const agg_run_t *self)
{
    return self->phase == CREMA_RUN_BARRIER ||
           (self->phase >= CREMA_RUN_VERDICT && self->lacking > 0);
}

agg_run_t *
agg_run_of_mended(crema_link_t *link)
{
    return CREMA_LIST_ITEM(link, agg_run_t, mended);
}

agg_run_t *
agg_run_of_awaited(crema_link_t *link, agg_member_t **ret_member)
{
    *ret_member = CREMA_LIST_ITEM(link, agg_member_t, awaited);
    return (*ret_member)->run;
}

void
agg_run_clear_reasons(agg_run_t *self)
{
    self->n_reasons = 0;
    self->reasons_left_out = 0;
    if (self->abandoned)
        agg_run_blame(self, CREMA_LIFE_NOT_ENDED, "", 0,
                      "its client was gone before it said that the run was over");
    self->lacking = 0;
    s_follow_mended(self);
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
    crema_text_copy(self->subjects[i].subject, SUBJECT_BYTES, subject);
    crema_text_copy(self->subjects[i].text, TEXT_BYTES, text);
    self->reasons[i] = (crema_reason_t){.code = code,
                                        .subject = self->subjects[i].subject,
                                        .text = self->subjects[i].text,
                                        .count = count};
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
        self->reasons[n] = (crema_reason_t){
            .code = self->reasons[n - 1].code,
            .subject = "",
            .text = "and so many further reasons, which are not listed",
            .count = self->reasons_left_out,
        };
        n++;
    }
    if (self->phase == CREMA_RUN_BARRIER)
        self->verdict_ns = now_ns;
    self->phase = CREMA_RUN_VERDICT;
    self->seal = *self->end_msg;
    self->seal.t_verdict_ns = real_ns;
    self->seal.n_reasons = n;
    self->seal.reasons = self->reasons;
    s_follow_mended(self);
}

const crema_run_msg_t *
agg_run_open_msg(const agg_run_t *self)
{
    return self->open_msg;
}

const crema_run_msg_t *
agg_run_end_msg(const agg_run_t *self)
{
    return self->end_msg;
}

const crema_run_msg_t *
agg_run_seal_msg(agg_run_t *self)
{
    return &self->seal;
}

crema_run_state_t
agg_run_state(const agg_run_t *self)
{
    crema_run_state_t state = {
        .run_id = self->run_id,
        .phase = self->phase,
        .streams = (uint32_t)self->streams,
        .streams_done = (uint32_t)(self->streams - self->undone),
        .committed = self->committed,
        .missing = self->missing,
        .n_reasons = self->seal.n_reasons,
        .reasons = self->seal.reasons,
    };
    if (self->phase >= CREMA_RUN_VERDICT)
        state.verdict_after_ns = self->verdict_ns - self->end_ns;
    if (self->sealed) {
        state.path = self->sealed->path;
        state.verdict = self->sealed->verdict;
        state.error = self->sealed->error;
        state.revision = self->sealed->revision;
    }
    if (self->sealed && self->phase >= CREMA_RUN_SEALED) { /* otherwise a verdict was given since */
        state.n_reasons = self->sealed->n_reasons;
        state.reasons = self->sealed->reasons;
    }
    return state;
}

/* ---------------------------------------------------------------- queries */

const crema_id_t *
agg_run_id(const agg_run_t *self)
{
    return &self->run_id;
}

crema_run_phase_t
agg_run_phase(const agg_run_t *self)
{
    return self->phase;
}

bool
agg_run_is_abandoned(const agg_run_t *self)
{
    return self->abandoned;
}

uint64_t
agg_run_barrier_id(const agg_run_t *self)
{
    return self->barrier_id;
}

bool
agg_run_was_opened(const agg_run_t *self)
{
    return self->opened;
}

bool
agg_run_dismisses(const agg_run_t *self)
{
    return self->dismiss;
}

uint64_t
agg_run_streams(const agg_run_t *self)
{
    return self->streams;
}

size_t
agg_run_members(const agg_run_t *self)
{
    return self->n_members;
}

const agg_member_t *
agg_run_member_at(const agg_run_t *self, size_t i)
{
    return self->members[i];
}

const crema_id_t *
agg_member_id(const agg_member_t *member)
{
    return &member->agent_id;
}

uint64_t
agg_member_streams(const agg_member_t *member)
{
    return member->streams;
}

uint64_t
agg_member_missing(const agg_member_t *member)
{
    return member->missing;
}

bool
agg_member_is_settled(const agg_member_t *member)
{
    return member->settled;
}

bool
agg_member_owes_answer(const agg_member_t *member)
{
    return member->owes_answer;
}
