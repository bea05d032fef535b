/* The agents of a run: what each still owes, when it is asked, when it is given up. */
#include "agg_run.h"
#include "crema_grow.h"

#define S 1000000000ll
#define ANSWER_NS (2 * S) /* see agg_run_can_spare() */
#define EXPECTED_MAX 8    /* how often to wait for an agent that reconnects without answering */

bool
agg_run_is_mended(const agg_run_t *self)
{
    return self->phase >= CREMA_RUN_VERDICT && self->lacking > 0 && self->unsettled == 0 &&
           !self->list_due;
}

void
agg_run_follow_mended(agg_run_t *self)
{
    if (agg_run_is_mended(self))
        crema_list_append(agg_awaited_mended(self->awaited), &self->mended);
    else
        crema_list_remove(&self->mended);
}

void
agg_run_progress(agg_run_t *self, uint64_t n, int64_t now_ns)
{
    self->progress += n;
    self->progress_ns = now_ns;
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
    agg_run_follow_mended(self);
}

crema_err_t
agg_run_member(agg_run_t *self, const crema_id_t *agent_id, agg_member_t **ret_member)
{
    agg_member_t *member = crema_map_find(self->by_id, agent_id);
    if (member) {
        *ret_member = member;
        return CREMA_OK;
    }
    crema_link_t *of_agent;
    agg_member_t **members =
        crema_grow(self->members, self->n_members, &self->capacity, sizeof(agg_member_t *));
    if (!members)
        return CREMA_ENOMEM;
    self->members = members;
    crema_err_t err = agg_awaited_join(self->awaited, agent_id, &of_agent);
    if (err != CREMA_OK)
        return err;
    member = crema_map_make(self->by_id, agent_id, sizeof *member, &err);
    if (!member) {
        agg_awaited_leave(self->awaited, agent_id);
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

void
agg_run_set_optional(agg_member_t *member, bool is_optional)
{
    member->is_optional = is_optional;
}

bool
agg_run_can_spare(const agg_run_t *self, const agg_member_t *member, int64_t now_ns)
{
    return self->is_listed && member->is_optional && member->owes_answer && member->streams == 0 &&
           now_ns - self->end_ns >= ANSWER_NS;
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
    agg_run_begin_waits(self, member, now_ns); /* for records in flight */
}

void
agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen, int64_t now_ns)
{
    if (self->phase < CREMA_RUN_BARRIER || barrier_seen < self->barrier_id || !member->owes_answer)
        return;
    member->owes_answer = false;
    agg_run_progress(self, 1, now_ns);
    member->due = member->missing;
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
