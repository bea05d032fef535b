#include "agg_core_private.h"

void
agg_due_init(agg_core_t *self)
{
    for (size_t i = 0; i < AGG_LOOK_SLOTS; i++)
        crema_list_init(&self->looks[i]);
    crema_list_init(&self->senders);
}

void
agg_due_plan(agg_core_t *self, agg_client_t *client, int64_t due_ns)
{
    if (crema_list_is_linked(&client->look) && client->look_ns <= due_ns)
        return;
    int64_t slot = due_ns / AGG_LOOK_NS + 1;
    int64_t least = self->look_slot + 1, most = self->look_slot + AGG_LOOK_SLOTS - 1;
    slot = slot < least ? least : slot > most ? most : slot;
    client->look_ns = slot * AGG_LOOK_NS;
    crema_list_remove(&client->look);
    crema_list_append(&self->looks[slot % AGG_LOOK_SLOTS], &client->look);
}

agg_client_t *
agg_due_next(agg_core_t *self, int64_t now_ns)
{
    int64_t last = now_ns / AGG_LOOK_NS;
    if (self->look_slot < last - AGG_LOOK_SLOTS)
        self->look_slot = last - AGG_LOOK_SLOTS;
    for (;; self->look_slot++) {
        agg_client_t *client =
            CREMA_LIST_FIRST(&self->looks[self->look_slot % AGG_LOOK_SLOTS], agg_client_t, look);
        if (client) {
            crema_list_remove(&client->look);
            return client;
        }
        if (self->look_slot >= last)
            return NULL;
    }
}

void
agg_due_sent(agg_core_t *self, agg_client_t *client, int64_t now_ns)
{
    client->data_ns = now_ns;
    agg_due_forget_sender(self, client);
    crema_list_append(&self->senders, &client->sender);
    self->n_senders++;
}

void
agg_due_forget_sender(agg_core_t *self, agg_client_t *client)
{
    self->n_senders -= crema_list_is_linked(&client->sender);
    crema_list_remove(&client->sender);
}

uint64_t
agg_due_senders(agg_core_t *self, int64_t now_ns, int64_t within_ns)
{
    agg_client_t *client;
    while ((client = CREMA_LIST_FIRST(&self->senders, agg_client_t, sender)) != NULL &&
           now_ns - client->data_ns >= within_ns)
        agg_due_forget_sender(self, client);
    return self->n_senders;
}
