#include "agg_core_private.h"

#define WHOLE_NS (600 * AGG_S) /* how long a complete sealed run can still be queried */
#define LACKING_NS                                                                                 \
    (24 * 3600 * AGG_S) /* how long missing data may still come; agents are known as long */

/* Ends the run on behalf of its client. */
static void
s_abandon(agg_core_t *self, agg_entry_t *entry, int64_t now_ns)
{
    bool is_known = entry->run->open_msg || !crema_list_is_empty(&entry->flows);
    if (!is_known ||
        agg_run_abandon(entry->run, self->barriers + 1, now_ns, entry->since_real_ns) != CREMA_OK) {
        agg_entry_forget(self, entry);
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
            if (entry->revoked && entry->run->phase < CREMA_RUN_BARRIER)
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
    while ((entry = agg_ages_oldest(self, AGG_AGE_OPEN, now_ns - self->config.abandon_after_ns)))
        if (s_is_served(entry))
            s_abandon(self, entry, now_ns);
        else
            agg_entry_forget(self, entry);
    while ((entry = agg_ages_oldest(self, AGG_AGE_WHOLE, now_ns - WHOLE_NS)))
        agg_entry_forget(self, entry);
    while ((entry = agg_ages_oldest(self, AGG_AGE_LACKING, now_ns - LACKING_NS)))
        agg_entry_forget(self, entry);
}
