#include <string.h>

#include "agg_core_private.h"

crema_id_t
agg_peer_key(agg_peer_t peer)
{
    crema_id_t key = {{0}};
    memcpy(key.bytes, &peer, sizeof peer);
    return key;
}

void
agg_reply(agg_core_t *self, agg_peer_t peer, const crema_msg_t *msg)
{
    if (self->n_replies == AGG_REPLIES_MAX) { /* dropped: the peer asks again */
        self->stats.refused++;
        return;
    }
    agg_reply_t *reply = &self->replies[self->n_replies++];
    *reply = (agg_reply_t){.peer = peer, .msg = *msg};
    if (msg->type == CREMA_MSG_RUN_STATE)
        reply->run_id = *crema_id_of(msg->run_id);
}

void
agg_fence(agg_core_t *self, agg_peer_t peer, crema_fence_reason_t reason, uint32_t retry_after_ms)
{
    /* 0.1.0 sees the type of a message of another version only if that has 40 bytes. */
    static const crema_id_t c_long = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                       0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    crema_msg_t msg = {.type = CREMA_MSG_FENCE,
                       .fence = {.reason = reason, .retry_after_ms = retry_after_ms}};
    self->stats.fences++;
    if (reason == CREMA_FENCE_VERSION)
        msg.fence.run_id = crema_id_field(&c_long);
    agg_reply(self, peer, &msg);
}

void
agg_refuse_principal(agg_core_t *self, agg_peer_t peer)
{
    self->stats.not_allowed++;
    agg_fence(self, peer, CREMA_FENCE_PRINCIPAL, 0);
}

void
agg_client_out(agg_core_t *self, agg_client_t *client)
{
    crema_list_append(&self->clients_out, &client->out);
}

void
agg_client_end_session(agg_core_t *self, agg_client_t *client)
{
    crema_id_t key = agg_peer_key(client->peer);
    if (crema_map_find(self->peers, &key) == client)
        crema_map_take(self->peers, &key);
    agg_credit_close(self->credit, &client->account);
    agg_due_forget_sender(self, client);
    client->has_session = client->leaving = false;
    client->want_welcome = client->want_ack = client->want_dismiss = false;
}

void
agg_entry_out(agg_core_t *self, agg_entry_t *entry)
{
    crema_list_append(&self->runs_out, &entry->out);
}
