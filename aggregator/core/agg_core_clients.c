/* Agents: found, created, forgotten. An agent that is gone keeps its place until its key, or all
 * keys together, need it. */
#include <stdlib.h>

#include "agg_core_private.h"

void
agg_client_set_reported(agg_core_t *self, agg_client_t *client, agg_agent_state_t state)
{
    bool is_gone = state == AGG_AGENT_LOST || state == AGG_AGENT_LEAVING || state == AGG_AGENT_LEFT;
    self->n_reported[client->reported]--;
    self->n_reported[state]++;
    client->reported = state;
    if (is_gone) {
        crema_list_append(&self->gone, &client->gone);
        if (client->payer)
            crema_list_append(&client->payer->gone, &client->gone_of_owner);
    } else {
        crema_list_remove(&client->gone);
        crema_list_remove(&client->gone_of_owner);
    }
}

void
agg_client_plan(agg_core_t *self, agg_client_t *client, int64_t now_ns)
{
    int64_t due_ns = agg_agent_changes_ns(client->agent, now_ns);
    if (agg_agent_state(client->agent, now_ns) == AGG_AGENT_LEFT)
        due_ns = now_ns - agg_agent_silent_ns(client->agent, now_ns) + AGG_LEFT_NS;
    agg_due_plan(self, client, due_ns);
}

void
agg_client_free(agg_core_t *self, agg_client_t *client)
{
    agg_client_end_session(self, client);
    crema_map_take(self->clients, agg_agent_id(client->agent));
    for (agg_flow_t *flow; (flow = CREMA_LIST_FIRST(&client->flows, agg_flow_t, of_client));) {
        crema_list_remove(&flow->of_client);
        crema_list_remove(&flow->ack);
        flow->client = NULL;
    }
    crema_list_remove(&client->out);
    crema_list_remove(&client->look);
    crema_list_remove(&client->gone);
    crema_list_remove(&client->gone_of_owner);
    agg_owner_remove_agent(self, client);
    self->n_reported[client->reported]--;
    crema_msg_destroy(&client->faults);
    crema_offset_destroy(&client->offset);
    agg_agent_destroy(&client->agent);
    free(client);
}

/* Forgets the agent that has been gone for longest: of the sender's owner if that is at its share,
 * of anybody if there is no room at all. False: there is none. */
static bool
s_make_room(agg_core_t *self, agg_owner_t **owner_p)
{
    agg_owner_t *owner = *owner_p;
    agg_client_t *gone = NULL;
    if (!agg_owner_may_have_agent(self, owner))
        gone = CREMA_LIST_FIRST(&owner->gone, agg_client_t, gone_of_owner);
    else if (crema_map_count(self->clients) < self->config.agents_max)
        return true;
    else
        gone = CREMA_LIST_FIRST(&self->gone, agg_client_t, gone);
    if (gone)
        agg_client_free(self, gone);
    *owner_p = agg_owner_of_sender(self); /* it may have gone with its last agent */
    return gone != NULL;
}

agg_client_t *
agg_client_get(agg_core_t *self, const crema_id_t *agent_id, int64_t now_ns)
{
    agg_client_t *client = crema_map_find(self->clients, agent_id);
    agg_owner_t *owner = client ? NULL : agg_owner_of_sender(self);
    if (client)
        return client;
    client = s_make_room(self, &owner) ? calloc(1, sizeof *client) : NULL;
    if (!client)
        return NULL;
    if (agg_agent_new(agent_id, &client->agent) != CREMA_OK ||
        crema_offset_new(&client->offset) != CREMA_OK ||
        crema_map_add(self->clients, agent_id, client) != CREMA_OK) {
        crema_offset_destroy(&client->offset);
        agg_agent_destroy(&client->agent);
        free(client);
        return NULL;
    }
    crema_list_init(&client->flows);
    crema_list_init(&client->acks);
    agg_owner_add_agent(client, owner);
    self->n_reported[client->reported]++;
    agg_client_plan(self, client, now_ns);
    return client;
}
