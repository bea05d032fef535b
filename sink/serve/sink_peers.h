/* sink_peers - the aggregators heard from, by routing id, and sending to one or all of them.
 *
 * A message is encoded once for all peers. If a peer cannot take it, it is dropped: the peer
 * asks again. */
#ifndef SINK_PEERS_H
#define SINK_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

#define SINK_PEER_UNSENT_MAX                                                                       \
    ((size_t)64                                                                                    \
     << 20) /* bytes waiting for one peer; the largest message is the table of all streams */
#define SINK_PEERS_MAX 256 /* above it, the one silent for longest is forgotten */

typedef struct _zsock_t zsock_t;
typedef struct sink_peers sink_peers_t;

/* `router` is borrowed. `session`, not 0, goes into every envelope: it identifies this start. */
CREMA_MUST_CHECK crema_err_t sink_peers_new(zsock_t *router, uint64_t session,
                                            sink_peers_t **ret_self);
void sink_peers_destroy(sink_peers_t **self_p);

/* Uses a new number, as after a start: aggregators then ask again for the state of every stream
 * and repeat their messages on every run. */
void sink_peers_begin_anew(sink_peers_t *self, uint64_t session);

/* A message came from this routing id. *ret_new: the peer is new, or has returned after it was
 * dropped. The returned index is valid until another peer is forgotten. */
size_t sink_peers_heard(sink_peers_t *self, const void *routing_id, size_t size, int64_t now_ns,
                        bool *ret_new);

/* A message of the peer came through this descriptor; see crema_unsent.h. */
void sink_peers_came_by(sink_peers_t *self, size_t peer, int fd);

/* Send to one peer, or to all. */
void sink_peers_send(sink_peers_t *self, size_t peer, const crema_msg_t *msg);
void sink_peers_broadcast(sink_peers_t *self, const crema_msg_t *msg);
size_t sink_peers_count(const sink_peers_t *self);

typedef struct {
    /* messages sent, dropped for a peer that does not read; peers that had left */
    uint64_t sent, untaken, gone;
    uint64_t broadcasts;
} sink_peers_stats_t;
sink_peers_stats_t sink_peers_stats(const sink_peers_t *self);

#endif
