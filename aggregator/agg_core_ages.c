#include "agg_core_private.h"

#define WHOLE_NS (600 * AGG_S) /* how long a complete sealed run can still be queried */
#define LACKING_NS                                                                                 \
    (24 * 3600 * AGG_S) /* how long missing data may still come; agents are known as long */

/* ---------------------------------------------------------------- lists */

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
    switch (agg_run_phase(entry->run)) {
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
    crema_run_phase_t phase = agg_run_phase(entry->run);
    return phase == CREMA_RUN_VERDICT ||
           (phase == CREMA_RUN_FAILED && !crema_id_is_zero(&agg_run_seal_msg(entry->run)->run_id));
}

void
agg_ages_follow(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    crema_run_phase_t phase = agg_run_phase(entry->run);
    agg_age_t age = s_age_of(entry);
    s_put(&self->ending, &entry->ending, phase == CREMA_RUN_BARRIER);
    s_put(&self->filing, &entry->filing, s_waits_for_file(entry));
    s_put(&self->over, &entry->over,
          phase >= CREMA_RUN_SEALED && !crema_list_is_empty(&entry->flows));
    if (phase == CREMA_RUN_SEALED)
        agg_owner_release(self, entry);
    if (age == AGG_AGE_NONE)
        crema_list_remove(&entry->age);
    if (age != entry->age_of || !crema_list_is_linked(&entry->age))
        s_begin_age(self, entry, age, now_ns);
}

/* ---------------------------------------------------------------- time */

static void
s_forget(agg_core_t *self, agg_entry_t *entry)
{
    for (agg_flow_t *flow; (flow = CREMA_LIST_FIRST(&entry->flows, agg_flow_t, of_entry));)
        agg_flow_free(self, flow);
    agg_entry_free(self, entry);
}

static agg_entry_t *
s_oldest(const agg_core_t *self, agg_age_t age, int64_t before_ns)
{
    agg_entry_t *entry = CREMA_LIST_FIRST(&self->ages[age], agg_entry_t, age);
    return entry && entry->since_ns <= before_ns ? entry : NULL;
}

bool
agg_ages_make_room(agg_core_t *self)
{
    agg_entry_t *entry = s_oldest(self, AGG_AGE_WHOLE, INT64_MAX);
    if (!entry)
        entry = s_oldest(self, AGG_AGE_LACKING, INT64_MAX);
    if (entry)
        s_forget(self, entry);
    return entry != NULL;
}

/* Ends the run on behalf of its client. */
static void
s_abandon(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    bool is_known = agg_run_open_msg(entry->run) || !crema_list_is_empty(&entry->flows);
    if (!is_known ||
        agg_run_abandon(entry->run, self->barriers + 1, now_ns, entry->since_real_ns) != CREMA_OK) {
        s_forget(self, entry);
        return;
    }
    self->barriers++;
    entry->events |= 1u << AGG_EVENT_RUN_ABANDONED;
    agg_runs_begin_barrier(self, entry, now_ns);
}

void
agg_ages_end_revoked(agg_core_t *self, int64_t now_ns)
{
    agg_entry_t *found;
    do {
        size_t cursor = 0;
        found = NULL;
        for (agg_entry_t *entry; !found && (entry = crema_map_next(self->entries, &cursor));)
            if (entry->revoked && agg_run_phase(entry->run) < CREMA_RUN_BARRIER)
                found = entry;
        if (found)
            s_abandon(self, found, now_ns);
    } while (found);
}

/* True if its client has sent a message here, or an agent connected here lists a stream of it.
 * Other runs, known only from the sink, may be served by another aggregator or by none; the sink
 * ends the latter. */
static bool
s_is_served(const agg_entry_t *entry)
{
    bool is_served = entry->was_asked;
    for (crema_link_t *link = entry->flows.next; link != &entry->flows && !is_served;
         link = link->next)
        is_served = CREMA_LIST_ITEM(link, agg_flow_t, of_entry)->client != NULL;
    return is_served;
}

void
agg_ages_on_tick(agg_core_t *self, int64_t now_ns)
{
    agg_entry_t *entry;
    while ((entry = s_oldest(self, AGG_AGE_OPEN, now_ns - self->config.abandon_after_ns)))
        if (s_is_served(entry))
            s_abandon(self, entry, now_ns);
        else
            s_forget(self, entry);
    while ((entry = s_oldest(self, AGG_AGE_WHOLE, now_ns - WHOLE_NS)))
        s_forget(self, entry);
    while ((entry = s_oldest(self, AGG_AGE_LACKING, now_ns - LACKING_NS)))
        s_forget(self, entry);
}
