/* agg_peers - routing ids of the ROUTER and the core's numbers for them, both ways.
 *
 * A number is never used twice. A peer that was silent for long is forgotten; if it speaks again it is a new one. */
#ifndef AGG_PEERS_H
#define AGG_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_error.h"

#define AGG_PEER_UNSENT_MAX ((size_t)8 << 20) /* bytes that wait for one peer */
#define AGG_ROUTING_ID_MAX 15 /* bytes; those that ZeroMQ makes have 5, others are refused */

typedef struct agg_peers agg_peers_t;

typedef struct {
    uint8_t bytes[AGG_ROUTING_ID_MAX];
    uint8_t size;
} agg_routing_id_t;

CREMA_MUST_CHECK crema_err_t agg_peers_new(size_t peers_max, agg_peers_t **ret_self);
void agg_peers_destroy(agg_peers_t **self_p);

/* The number of the peer that sent a message, and whose key it has: `user_id` is what the ZAP handler wrote (crema_principal.h), NULL without
 * keys. A routing id that comes back with another key is another peer. *ret_from is valid until the peer is forgotten. CREMA_ELIMIT: too
 * many peers; CREMA_EPROTO: a routing id or a user id of a kind that is not taken. */
CREMA_MUST_CHECK crema_err_t agg_peers_heard(agg_peers_t *self, const void *routing_id, size_t size,
                                             const char *user_id, int64_t now_ns,
                                             agg_peer_t *ret_peer,
                                             const crema_principal_t **ret_from);

/* False: not known, or forgotten. */
bool agg_peers_find(const agg_peers_t *self, agg_peer_t peer, agg_routing_id_t *ret_id);

/* A message of the peer came by this descriptor; see crema_unsent.h. */
void agg_peers_came_by(agg_peers_t *self, agg_peer_t peer, int fd);
/* False: the peer has so much to take already that this is not to be sent. */
bool agg_peers_takes(agg_peers_t *self, agg_peer_t peer, size_t size);

/* Walks all: set *cursor to 0, then call until false. Adding or forgetting ends the walk. */
bool agg_peers_next(const agg_peers_t *self, size_t *cursor, agg_peer_t *ret_peer,
                    const crema_principal_t **ret_from);

void agg_peers_forget(agg_peers_t *self, agg_peer_t peer);
/* Forgets who was not heard of since `before_ns`; returns how many. */
size_t agg_peers_sweep(agg_peers_t *self, int64_t before_ns);
size_t agg_peers_count(const agg_peers_t *self);

#endif
