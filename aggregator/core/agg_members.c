#include "agg_members.h"

#include <stdlib.h>

#include "agg_core_impl.h"
#include "crema_grow.h"

#define S AGG_S
#define ANSWER_NS (2 * S) /* see agg_run_can_spare() */
#define EXPECTED_MAX 8    /* how often to wait for an agent that reconnects without answering */

/* ---------------------------------------------------------------- the index */

crema_err_t
agg_awaited_init(agg_awaited_t *self)
{
    crema_list_init(&self->recovered);
    return agg_lists_new(&self->of_agents);
}

/* ---------------------------------------------------------------- the run as a whole */

bool
agg_run_is_recovered(const agg_run_t *self)
{
    return self->phase >= CREMA_RUN_VERDICT && self->removable > 0 && self->unsettled == 0 &&
           !self->list_due;
}

void
agg_run_follow_recovered(agg_run_t *self)
{
    if (agg_run_is_recovered(self))
        crema_list_append(&self->awaited->recovered, &self->recovered);
    else
        crema_list_remove(&self->recovered);
}

void
agg_run_progress(agg_run_t *self, uint64_t n, int64_t now_ns)
{
    self->progress += n;
    self->progress_ns = now_ns;
}

void
agg_run_heard(agg_core_t *core, agg_run_t *self, int64_t now_ns)
{
    if (self->phase == CREMA_RUN_UNKNOWN || self->phase == CREMA_RUN_OPEN)
        agg_run_begin_age(core, self, AGG_AGE_OPEN, now_ns);
}

void
agg_run_begin_age(agg_core_t *core, agg_run_t *self, agg_age_t age, int64_t now_ns)
{
    crema_list_remove(&self->age);
    self->age_of = age;
    self->since_ns = now_ns;
    self->since_real_ns = core->real_ns;
    crema_list_append(&core->ages[age], &self->age);
}

/* ---------------------------------------------------------------- members */

/* Updates the member after a change of owes_answer, given_up or its streams. */
static void
s_update(agg_run_t *self, agg_member_t *member)
{
    bool settled = !member->owes_answer && member->sums.undone == 0;
    bool waited_for = !settled && !member->given_up;
    self->unsettled += (uint64_t)!settled - (uint64_t)!member->settled;
    self->waiting += (uint64_t)waited_for - (uint64_t)member->waited_for;
    member->settled = settled;
    member->waited_for = waited_for;
    if (settled)
        crema_list_remove(&member->awaited);
    else
        crema_list_append(member->of_agent, &member->awaited);
    agg_run_follow_recovered(self);
}

crema_err_t
agg_run_member(agg_run_t *self, const crema_id_t *agent_id, agg_member_t **ret_member)
{
    agg_member_t *member = crema_map_find(self->by_id, agent_id);
    if (member) {
        *ret_member = member;
        return CREMA_OK;
    }
    agg_member_t **members =
        crema_grow(self->members, self->n_members, &self->capacity, sizeof(agg_member_t *));
    if (!members)
        return CREMA_ENOMEM;
    self->members = members;
    crema_err_t err;
    crema_link_t *of_agent = agg_lists_join(self->awaited->of_agents, agent_id, &err);
    if (!of_agent)
        return err;
    member = crema_map_make(self->by_id, agent_id, sizeof *member, &err);
    if (!member) {
        agg_lists_leave(self->awaited->of_agents, agent_id);
        return err;
    }
    member->of_agent = of_agent;
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

void
agg_run_free_members(agg_run_t *self)
{
    for (size_t i = 0; i < self->n_members; i++) {
        crema_list_remove(&self->members[i]->awaited);
        agg_lists_leave(self->awaited->of_agents, &self->members[i]->agent_id);
        free(self->members[i]);
    }
    free(self->members);
    crema_map_destroy(&self->by_id);
}

bool
agg_session_may_have(const agg_session_t *session, const agg_run_t *run)
{
    const agg_member_t *member = agg_run_find(run, &session->agent_id);
    return (member && member->sums.streams > 0) || agg_session_serves(session, &run->run_id);
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

void
agg_run_begin_waits(agg_run_t *self, agg_member_t *member, int64_t now_ns)
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
        agg_run_begin_waits(self, member, now_ns);
    member->given_up = member->given_up || silent_ns > all_waits;
    s_update(self, member);
    crema_list_append(&self->asks, &member->ask);
}

bool
agg_run_needs_no_answer(const agg_run_t *self, const agg_member_t *member)
{
    return self->is_listed && member->is_optional && member->owes_answer &&
           member->sums.streams == 0;
}

bool
agg_run_can_spare(const agg_run_t *self, const agg_member_t *member, int64_t now_ns)
{
    return agg_run_needs_no_answer(self, member) && now_ns - self->end_ns >= ANSWER_NS;
}

void
agg_run_excuse(agg_run_t *self, agg_member_t *member, int64_t now_ns)
{
    if (!member->owes_answer)
        return;
    member->owes_answer = false;
    agg_run_begin_waits(self, member, now_ns); /* for records in flight */
}

void
agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen, int64_t now_ns)
{
    if (self->phase < CREMA_RUN_BARRIER || barrier_seen < self->barrier_id || !member->owes_answer)
        return;
    member->owes_answer = false;
    agg_run_progress(self, 1, now_ns);
    member->due = member->sums.missing;
    if (member->due > 0)
        agg_run_begin_waits(self, member, now_ns);
    s_update(self, member);
}

void
agg_run_expect_no_stream(agg_run_t *self)
{
    if (!self->unlisted)
        return;
    self->unlisted->given_up = true;
    s_update(self, self->unlisted);
}

static void
s_add(agg_sums_t *sums, const agg_tally_t *tally, uint64_t sign)
{
    sums->streams += sign;
    sums->undone += sign * !tally->done;
    sums->missing += sign * tally->missing;
    sums->committed += sign * tally->committed;
}

static void
s_add_to_both(agg_run_t *self, agg_member_t *member, const agg_tally_t *tally, uint64_t sign)
{
    s_add(&self->sums, tally, sign);
    s_add(&member->sums, tally, sign);
}

void
agg_run_tally(agg_run_t *self, agg_member_t *member, const agg_tally_t *was, const agg_tally_t *is,
              int64_t now_ns)
{
    if (was)
        s_add_to_both(self, member, was, (uint64_t)-1);
    if (is)
        s_add_to_both(self, member, is, 1);
    if (is && !was &&
        self->unlisted) { /* the run is no longer without streams, which this member stood for */
        self->unlisted->owes_answer = false;
        s_update(self, self->unlisted);
    }
    if (was && is && is->committed > was->committed && member->due > 0) {
        uint64_t came = is->committed - was->committed;
        came = came < member->due ? came : member->due;
        member->due -= came;
        agg_run_progress(self, came, now_ns);
        agg_run_begin_waits(self, member, now_ns); /* outstanding records are arriving */
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
