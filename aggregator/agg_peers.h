/* agg_peers - maps routing ids of the ROUTER to the core's peer numbers and back.
 *
 * A number is never reused. A peer that has been silent for long is forgotten, after ten seconds
 * if there is no room for another; if it speaks again it gets a new number. One key, with those
 * that its runs admitted, has three quarters of the room: above that its own peers make room. */
#ifndef AGG_PEERS_H
#define AGG_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_error.h"
#include "crema_keyring.h"

#define AGG_PEER_UNSENT_MAX ((size_t)8 << 20) /* bytes that wait for one peer */
#define AGG_ROUTING_ID_MAX 15 /* bytes; those that ZeroMQ makes have 5, others are refused */

typedef struct agg_peers agg_peers_t;

typedef struct {
    uint8_t bytes[AGG_ROUTING_ID_MAX];
    uint8_t size;
} agg_routing_id_t;

/* `ring` is borrowed; NULL: there are no keys. */
CREMA_MUST_CHECK crema_err_t agg_peers_new(size_t peers_max, const crema_keyring_t *ring,
                                           agg_peers_t **ret_self);
void agg_peers_destroy(agg_peers_t **self_p);

/* The number of the peer that sent a message, and its principal. `user_id` comes from the ZAP
 * handler (crema_principal.h), NULL without keys. A routing id that returns with another key is
 * another peer. *ret_from is valid until the peer is forgotten. CREMA_ELIMIT: too many peers, or
 * too many of this key; CREMA_EPROTO: an invalid routing id or user id. */
CREMA_MUST_CHECK crema_err_t agg_peers_heard(agg_peers_t *self, const void *routing_id, size_t size,
                                             const char *user_id, int64_t now_ns,
                                             agg_peer_t *ret_peer,
                                             const crema_principal_t **ret_from);

/* False: unknown, or forgotten. */
bool agg_peers_find(const agg_peers_t *self, agg_peer_t peer, agg_routing_id_t *ret_id);

/* A message of the peer came through this descriptor; see crema_unsent.h. */
void agg_peers_came_by(agg_peers_t *self, agg_peer_t peer, int fd);
/* False: too much is already queued for the peer, do not send this. */
bool agg_peers_takes(agg_peers_t *self, agg_peer_t peer, size_t size);

/* Iterates over all peers: set *cursor to 0, call until false. Adding or forgetting a peer ends
 * the iteration. */
bool agg_peers_next(const agg_peers_t *self, size_t *cursor, agg_peer_t *ret_peer,
                    const crema_principal_t **ret_from);

void agg_peers_forget(agg_peers_t *self, agg_peer_t peer);
/* Forgets peers not heard from since `before_ns`; returns how many. */
size_t agg_peers_sweep(agg_peers_t *self, int64_t before_ns);

#endif
