#include "agg_census.h"

#include "agg_core_private.h"

/* Those with the most records stay. */
static void
s_rank(agg_census_t *census, const agg_behind_t *behind)
{
    size_t at = census->n_behind;
    if (at == AGG_CENSUS_BEHIND_MAX) {
        if (census->behind[at - 1].records >= behind->records)
            return;
        at--;
    } else {
        census->n_behind++;
    }
    for (; at > 0 && census->behind[at - 1].records < behind->records; at--)
        census->behind[at] = census->behind[at - 1];
    census->behind[at] = *behind;
}

static void
s_count_members(const agg_core_t *core, const agg_run_t *run, agg_census_t *census)
{
    for (size_t i = 0; i < run->n_members; i++) {
        const agg_member_t *member = run->members[i];
        agg_client_t *client = crema_map_find(core->clients, &member->agent_id);
        census->backlog += member->missing;
        if (client)
            client->behind += member->missing;
    }
}

void
agg_census(const agg_core_t *core, agg_census_t *ret_census)
{
    size_t cursor = 0;
    *ret_census = (agg_census_t){0};
    for (size_t i = 0; i <= AGG_AGENT_LEFT; i++)
        ret_census->agents[i] = (size_t)core->n_reported[i];
    for (agg_client_t *client; (client = crema_map_next(core->clients, &cursor)) != NULL;)
        client->behind = 0;
    cursor = 0;
    for (const agg_entry_t *entry; (entry = crema_map_next(core->entries, &cursor)) != NULL;) {
        const crema_run_phase_t phase = entry->run->phase;
        ret_census->runs[phase]++;
        if (phase < CREMA_RUN_SEALED)
            s_count_members(core, entry->run, ret_census);
    }
    cursor = 0;
    for (const agg_client_t *client; (client = crema_map_next(core->clients, &cursor)) != NULL;)
        if (client->behind > 0)
            s_rank(ret_census, &(agg_behind_t){.agent_id = *agg_agent_id(client->agent),
                                               .host = agg_agent_name(client->agent),
                                               .records = client->behind});
}
