#include "agg_peers.h"

#include <stdlib.h>
#include <string.h>

#include "crema_list.h"
#include "crema_map.h"
#include "crema_unsent.h"

#define SILENT_NS (10 * INT64_C(1000000000)) /* after which a peer makes room for another */
#define PEERS_LEFT 4                         /* a quarter of all places is left to other keys */
#define SWEEP_MAX 1024 /* peers forgotten per sweep; the rest waits for the next one */

/* The peers of one key, and of those that its runs admitted. */
typedef struct {
    crema_id_t key;
    size_t n;
    crema_link_t heard; /* peer_t.of_owner, longest silent first */
} owner_t;

typedef struct {
    agg_routing_id_t id;
    agg_peer_t number;
    int64_t heard_ns;
    crema_link_t heard; /* in agg_peers.heard */
    owner_t *owner;
    crema_link_t of_owner; /* in its list */
    crema_unsent_t unsent;
    crema_principal_t from;
    char user_id[CREMA_PRINCIPAL_TEXT_MAX]; /* source of `from`; "": none */
} peer_t;

struct agg_peers {
    crema_map_t *by_id;     /* peer_t * by routing id and its length */
    crema_map_t *by_number; /* the same peers by number */
    crema_map_t *owners;    /* owner_t * by key */
    crema_link_t heard;     /* peer_t.heard, longest silent first */
    size_t peers_max;
    const crema_keyring_t *ring;
    agg_peer_t last; /* the last number given */
};

static crema_id_t
s_id_key(const agg_routing_id_t *id)
{
    crema_id_t key = {{0}};
    memcpy(key.bytes, id->bytes, id->size);
    key.bytes[CREMA_ID_BYTES - 1] = id->size;
    return key;
}

static crema_id_t
s_number_key(agg_peer_t number)
{
    crema_id_t key = {{0}};
    memcpy(key.bytes, &number, sizeof number);
    return key;
}

crema_err_t
agg_peers_new(size_t peers_max, const crema_keyring_t *ring, agg_peers_t **ret_self)
{
    agg_peers_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->heard);
    self->peers_max = peers_max;
    self->ring = ring;
    crema_err_t err = crema_map_new(peers_max, &self->by_id);
    if (err == CREMA_OK)
        err = crema_map_new(peers_max, &self->by_number);
    if (err == CREMA_OK)
        err = crema_map_new(peers_max, &self->owners);
    if (err != CREMA_OK) {
        agg_peers_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_peers_destroy(agg_peers_t **self_p)
{
    agg_peers_t *self = *self_p;
    if (self) {
        crema_map_destroy_all(&self->by_id, free);
        crema_map_destroy(&self->by_number);
        crema_map_destroy_all(&self->owners, free);
        free(self);
    }
    *self_p = NULL;
}

/* Makes room for one more peer with that key, if a silent one has to give way. */
static crema_err_t
s_make_room(agg_peers_t *self, const crema_id_t *key, int64_t now_ns)
{
    const owner_t *owner = crema_map_find(self->owners, key);
    const peer_t *oldest = CREMA_LIST_FIRST(&self->heard, peer_t, heard);
    if (owner && !crema_id_is_zero(key) &&
        owner->n >= self->peers_max - self->peers_max / PEERS_LEFT)
        oldest = CREMA_LIST_FIRST(&owner->heard, peer_t, of_owner);
    else if (crema_map_count(self->by_id) < self->peers_max)
        return CREMA_OK;
    if (!oldest || now_ns - oldest->heard_ns < SILENT_NS)
        return CREMA_ELIMIT;
    agg_peers_forget(self, oldest->number);
    return CREMA_OK;
}

/* NULL: no memory. */
static owner_t *
s_owner(agg_peers_t *self, const crema_id_t *key)
{
    crema_err_t err;
    owner_t *owner = crema_map_find(self->owners, key);
    if (!owner && (owner = crema_map_make(self->owners, key, sizeof *owner, &err)) != NULL) {
        owner->key = *key;
        crema_list_init(&owner->heard);
    }
    return owner;
}

static void
s_drop_empty(agg_peers_t *self, owner_t *owner)
{
    if (owner->n > 0)
        return;
    (void)crema_map_take(self->owners, &owner->key);
    free(owner);
}

/* The peer is in no map if there is an error. */
static crema_err_t
s_map(agg_peers_t *self, peer_t *peer)
{
    crema_id_t id_key = s_id_key(&peer->id), number_key = s_number_key(peer->number);
    crema_err_t err = crema_map_add(self->by_id, &id_key, peer);
    if (err == CREMA_OK) {
        err = crema_map_add(self->by_number, &number_key, peer);
        if (err != CREMA_OK)
            crema_map_take(self->by_id, &id_key);
    }
    return err;
}

static crema_err_t
s_add(agg_peers_t *self, const agg_routing_id_t *id, const char *user_id, int64_t now_ns,
      peer_t **ret_peer)
{
    crema_principal_t from;
    if (crema_principal_parse(user_id, &from) != CREMA_OK)
        return CREMA_EPROTO;
    const crema_id_t key = crema_keyring_owner(self->ring, &from.key);
    crema_err_t err = s_make_room(self, &key, now_ns);
    if (err != CREMA_OK)
        return err;
    owner_t *owner = s_owner(self, &key);
    if (!owner)
        return CREMA_ENOMEM;
    peer_t *peer = calloc(1, sizeof *peer);
    if (peer) {
        *peer = (peer_t){.id = *id, .number = self->last + 1, .owner = owner, .from = from};
        strcpy(peer->user_id, user_id); /* its parts were checked, so it fits */
    }
    err = peer ? s_map(self, peer) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        s_drop_empty(self, owner);
        free(peer);
        return err;
    }
    owner->n++;
    self->last++;
    *ret_peer = peer;
    return CREMA_OK;
}

crema_err_t
agg_peers_heard(agg_peers_t *self, const void *routing_id, size_t size, const char *user_id,
                int64_t now_ns, agg_peer_t *ret_peer, const crema_principal_t **ret_from)
{
    if (!user_id)
        user_id = "";
    if (size < 1 || size > AGG_ROUTING_ID_MAX)
        return CREMA_EPROTO;
    agg_routing_id_t id = {.size = (uint8_t)size};
    memcpy(id.bytes, routing_id, size);
    crema_id_t key = s_id_key(&id);
    peer_t *peer = crema_map_find(self->by_id, &key);
    if (peer && strcmp(peer->user_id, user_id) != 0) {
        agg_peers_forget(self, peer->number);
        peer = NULL;
    }
    crema_err_t err = peer ? CREMA_OK : s_add(self, &id, user_id, now_ns, &peer);
    if (err != CREMA_OK)
        return err;
    peer->heard_ns = now_ns;
    crema_list_remove(&peer->heard);
    crema_list_append(&self->heard, &peer->heard);
    crema_list_remove(&peer->of_owner);
    crema_list_append(&peer->owner->heard, &peer->of_owner);
    *ret_peer = peer->number;
    *ret_from = &peer->from;
    return CREMA_OK;
}

bool
agg_peers_find(const agg_peers_t *self, agg_peer_t number, agg_routing_id_t *ret_id)
{
    crema_id_t key = s_number_key(number);
    const peer_t *peer = crema_map_find(self->by_number, &key);
    if (peer)
        *ret_id = peer->id;
    return peer != NULL;
}

void
agg_peers_came_by(agg_peers_t *self, agg_peer_t number, int fd)
{
    crema_id_t key = s_number_key(number);
    peer_t *peer = crema_map_find(self->by_number, &key);
    if (peer)
        crema_unsent_heard(&peer->unsent, fd);
}

bool
agg_peers_takes(agg_peers_t *self, agg_peer_t number, size_t size)
{
    crema_id_t key = s_number_key(number);
    peer_t *peer = crema_map_find(self->by_number, &key);
    return !peer || crema_unsent_takes(&peer->unsent, size, AGG_PEER_UNSENT_MAX);
}

bool
agg_peers_next(const agg_peers_t *self, size_t *cursor, agg_peer_t *ret_peer,
               const crema_principal_t **ret_from)
{
    const peer_t *peer = crema_map_next(self->by_number, cursor);
    if (peer) {
        *ret_peer = peer->number;
        *ret_from = &peer->from;
    }
    return peer != NULL;
}

void
agg_peers_forget(agg_peers_t *self, agg_peer_t number)
{
    crema_id_t key = s_number_key(number);
    peer_t *peer = crema_map_take(self->by_number, &key);
    if (!peer)
        return;
    key = s_id_key(&peer->id);
    crema_map_take(self->by_id, &key);
    crema_list_remove(&peer->heard);
    crema_list_remove(&peer->of_owner);
    peer->owner->n--;
    s_drop_empty(self, peer->owner);
    free(peer);
}

size_t
agg_peers_sweep(agg_peers_t *self, int64_t before_ns)
{
    agg_peer_t old[SWEEP_MAX];
    size_t n = 0, cursor = 0;
    const peer_t *peer;
    while (n < SWEEP_MAX && (peer = crema_map_next(self->by_id, &cursor)))
        if (peer->heard_ns < before_ns)
            old[n++] = peer->number;
    for (size_t i = 0; i < n; i++)
        agg_peers_forget(self, old[i]);
    return n;
}
