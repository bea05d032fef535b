#include <stdlib.h>

#include "agg_core_private.h"

static const crema_id_t s_no_agent;

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
s_age_of(const agg_entry_t *entry)
{
    switch (entry->run->phase) {
    case CREMA_RUN_UNKNOWN:
    case CREMA_RUN_OPEN:
        return AGG_AGE_OPEN;
    case CREMA_RUN_SEALED:
        return agg_run_wants_answers(entry->run) ? AGG_AGE_LACKING : AGG_AGE_WHOLE;
    case CREMA_RUN_FAILED:
        return AGG_AGE_LACKING;
    default:
        return AGG_AGE_NONE;
    }
}

static void
s_begin_age(agg_core_t *self, agg_entry_t *entry, agg_age_t age, int64_t now_ns)
{
    crema_list_remove(&entry->age);
    entry->age_of = age;
    entry->since_ns = now_ns;
    entry->since_real_ns = self->real_ns;
    crema_list_append(&self->ages[age], &entry->age);
}

void
agg_ages_heard(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    if (s_age_of(entry) == AGG_AGE_OPEN)
        s_begin_age(self, entry, AGG_AGE_OPEN, now_ns);
}

/* True if the run has a verdict of this aggregator but no file. A failure is not final: its
 * cause may go away, and a restarted sink retries at once. */
static bool
s_waits_for_file(const agg_entry_t *entry)
{
    crema_run_phase_t phase = entry->run->phase;
    return phase == CREMA_RUN_VERDICT ||
           (phase == CREMA_RUN_FAILED && entry->run->seal.type == CREMA_MSG_RUN_SEAL);
}

void
agg_ages_follow(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    crema_run_phase_t phase = entry->run->phase;
    agg_age_t age = s_age_of(entry);
    s_put(&self->ending, &entry->ending, phase == CREMA_RUN_BARRIER);
    s_put(&self->filing, &entry->filing, s_waits_for_file(entry));
    s_put(&self->over, &entry->over,
          phase >= CREMA_RUN_SEALED && !crema_list_is_empty(&entry->flows));
    if (phase == CREMA_RUN_SEALED)
        agg_owner_release(entry);
    if (age == AGG_AGE_NONE)
        crema_list_remove(&entry->age);
    if (age != entry->age_of || !crema_list_is_linked(&entry->age))
        s_begin_age(self, entry, age, now_ns);
}

agg_entry_t *
agg_ages_oldest(const agg_core_t *self, agg_age_t age, int64_t before_ns)
{
    agg_entry_t *entry = CREMA_LIST_FIRST(&self->ages[age], agg_entry_t, age);
    return entry && entry->since_ns <= before_ns ? entry : NULL;
}

/* ---------------------------------------------------------------- streams are freed */

void
agg_flow_unmark_listed(agg_core_t *self, agg_flow_t *flow)
{
    if (!flow->only_listed)
        return;
    self->n_only_listed--;
    agg_owner_list(flow->entry, (size_t)-1);
    flow->only_listed = false;
}

void
agg_flow_free(agg_core_t *self, agg_flow_t *flow)
{
    crema_map_take(self->flows, &flow->row.stream_id);
    agg_flow_unmark_listed(self, flow);
    agg_owner_count_stream(flow->entry, (size_t)-1);
    if (flow->client)
        agg_credit_release(self->credit, &flow->client->account, flow->held_b);
    crema_list_remove(&flow->of_client);
    crema_list_remove(&flow->of_entry);
    crema_list_remove(&flow->ack);
    crema_list_remove(&flow->due);
    crema_list_remove(&flow->watch);
    crema_list_remove(&flow->open);
    crema_stream_destroy(&flow->line);
    free(flow);
}

/* ---------------------------------------------------------------- runs */

void
agg_entry_free_list(agg_entry_t *entry)
{
    crema_writers_destroy(&entry->list.writers);
    free(entry->list.parts);
    agg_owner_keep(entry, &entry->list.kept_b, 0);
    entry->list = (agg_list_t){0};
}

void
agg_entry_free(agg_core_t *self, agg_entry_t *entry)
{
    crema_map_take(self->entries, &entry->run->run_id);
    agg_entry_free_list(entry);
    agg_owner_leave(self, entry);
    crema_list_remove(&entry->out);
    crema_list_remove(&entry->ending);
    crema_list_remove(&entry->filing);
    crema_list_remove(&entry->over);
    crema_list_remove(&entry->age);
    agg_run_destroy(&entry->run);
    agg_rollup_destroy(&entry->rollup);
    free(entry);
}

void
agg_entry_forget(agg_core_t *self, agg_entry_t *entry)
{
    for (crema_link_t *link = entry->flows.next; link != &entry->flows;) {
        agg_flow_t *flow = CREMA_LIST_ITEM(link, agg_flow_t, of_entry);
        link = link->next;
        agg_flow_free(self, flow);
    }
    agg_entry_free(self, entry);
}

static agg_entry_t *
s_oldest_of(const agg_core_t *self, agg_age_t age, const agg_owner_t *owner)
{
    const crema_link_t *list = &self->ages[age];
    for (crema_link_t *link = list->next; link != list; link = link->next) {
        agg_entry_t *entry = CREMA_LIST_ITEM(link, agg_entry_t, age);
        if (!owner || entry->owner == owner)
            return entry;
    }
    return NULL;
}

bool
agg_entry_make_room(agg_core_t *self, const agg_owner_t *owner)
{
    agg_entry_t *entry = s_oldest_of(self, AGG_AGE_WHOLE, owner);
    if (!entry)
        entry = s_oldest_of(self, AGG_AGE_LACKING, owner);
    if (entry)
        agg_entry_forget(self, entry);
    return entry != NULL;
}

void
agg_entry_forget_finished(agg_core_t *self, agg_peer_t peer)
{
    agg_owner_t *owner;
    while ((owner = agg_owner_of_client(self, peer)) &&
           (!agg_owner_may_have_run(self, owner) || !agg_owner_may_keep(owner, 1)) &&
           agg_entry_make_room(self, owner))
        ;
}

agg_entry_t *
agg_entry_get(agg_core_t *self, const crema_id_t *run_id, int64_t now_ns)
{
    agg_entry_t *entry = crema_map_find(self->entries, run_id);
    if (entry)
        return entry;
    if (crema_map_count(self->entries) >= self->config.runs_max && !agg_entry_make_room(self, NULL))
        return NULL;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    if (agg_run_new(run_id, self->config.agents_max + 1, self->config.barrier_retries,
                    self->config.barrier_cap_ns, self->awaited, &entry->run) != CREMA_OK ||
        crema_map_add(self->entries, run_id, entry) != CREMA_OK) {
        agg_run_destroy(&entry->run);
        free(entry);
        return NULL;
    }
    crema_list_init(&entry->flows);
    agg_ages_follow(self, entry, now_ns);
    return entry;
}

/* ---------------------------------------------------------------- streams are made */

agg_flow_t *
agg_flow_make(agg_core_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
              int64_t now_ns)
{
    agg_entry_t *entry = agg_entry_get(self, run_id, now_ns);
    agg_flow_t *flow = entry ? calloc(1, sizeof *flow) : NULL;
    if (!flow)
        return NULL;
    if (crema_stream_new(stream_id, run_id, &flow->line) != CREMA_OK ||
        agg_run_member(entry->run, &s_no_agent, &flow->member) != CREMA_OK ||
        crema_map_add(self->flows, stream_id, flow) != CREMA_OK) {
        crema_stream_destroy(&flow->line);
        free(flow);
        return NULL;
    }
    flow->entry = entry;
    flow->row = crema_stream_row(flow->line);
    crema_list_append(&entry->flows, &flow->of_entry);
    agg_owner_count_stream(entry, 1);
    agg_ages_follow(self, entry, now_ns);
    crema_list_append(&self->due, &flow->due);
    agg_run_tally(entry->run, flow->member, NULL, &flow->tally, now_ns);
    return flow;
}
