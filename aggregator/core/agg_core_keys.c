#include <string.h>

#include "agg_core_private.h"

void
agg_key_learn(agg_core_t *self, const Crema__RunOpen *msg, int64_t now_ns)
{
    const crema_id_t *run_id = crema_id_of(msg->run_id), *owner = crema_id_of(msg->owner);
    agg_entry_t *entry = crema_map_find(self->entries, run_id);
    bool is_open = msg->t_end_ns == 0;
    if (!entry && is_open)
        entry = agg_entry_get(self, run_id, now_ns);
    if (!entry || (entry->has_opener && crema_id_equal(&entry->opened_by.key, owner)))
        return;
    if (entry->has_opener) { /* another key sent messages about it before the sink reported it */
        entry->was_asked = entry->has_watcher = entry->want_open = entry->want_end =
            entry->want_seal = entry->want_lend = false;
        agg_run_forget_client(entry->run);
        agg_writers_discard(self, entry, now_ns);
        agg_owner_leave(self, entry);
        agg_ages_follow(self, entry, now_ns);
    }
    self->from = (crema_principal_t){.as = CREMA_AS_CLIENT, .key = *owner};
    entry->has_opener = false;
    agg_owner_take(self, entry, 0);
}

/* ---------------------------------------------------------------- revoked */

static void
s_revoke_agents(agg_core_t *self, const crema_id_t *key)
{
    size_t cursor = 0;
    for (agg_client_t *client; (client = crema_map_next(self->clients, &cursor)) != NULL;) {
        if (!client->claimed || !crema_id_equal(&client->owner, key))
            continue;
        client->claimed = false; /* the spool may return with another key */
        for (crema_link_t *link = client->flows.next; link != &client->flows; link = link->next)
            CREMA_LIST_ITEM(link, agg_flow_t, of_client)->claimed = false;
        if (client->has_session) {
            agg_client_end_session(self, client);
            client->events |= 1u << AGG_EVENT_AGENT_FENCED;
            agg_client_out(self, client);
        }
    }
}

void
agg_core_on_revoked(agg_core_t *self, const crema_id_t *key, int64_t mono_ns, int64_t real_ns)
{
    self->real_ns = real_ns;
    s_revoke_agents(self, key);
    size_t cursor = 0;
    for (agg_entry_t *entry; (entry = crema_map_next(self->entries, &cursor)) != NULL;)
        if (entry->has_opener && crema_id_equal(&entry->opened_by.key, key) &&
            entry->run->phase < CREMA_RUN_VERDICT) {
            entry->revoked = true;
            entry->has_watcher = entry->want_state = false; /* it gets no more updates */
        }
    agg_ages_end_revoked(self, mono_ns);
    agg_runs_decide(self, mono_ns, real_ns);
}
