/* sink_peers - the aggregators that the sink has heard of, by routing id, and sending to one or all of them.
 *
 * A message goes out as encoded once. One that a peer cannot take is as if lost: the other side asks again. */
#ifndef SINK_PEERS_H
#define SINK_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

#define SINK_PEER_UNSENT_MAX                                                                       \
    ((size_t)64 << 20)     /* bytes that wait for one peer: the table of all streams is the most */
#define SINK_PEERS_MAX 256 /* above it, the one silent for longest is forgotten */

typedef struct _zsock_t zsock_t;
typedef struct sink_peers sink_peers_t;

/* `router` is borrowed. `session`, not 0, goes into every envelope: the number of this start. */
CREMA_MUST_CHECK crema_err_t sink_peers_new(zsock_t *router, uint64_t session,
                                            sink_peers_t **ret_self);
void sink_peers_destroy(sink_peers_t **self_p);

/* Another number, as after a start: who reads it asks how far every stream is, and says again what it said of every run. */
void sink_peers_begin_anew(sink_peers_t *self, uint64_t session);

/* A message came from this routing id. *ret_new: not heard of before, or again after it went. The number is its place until another one
 * is forgotten. */
size_t sink_peers_heard(sink_peers_t *self, const void *routing_id, size_t size, int64_t now_ns,
                        bool *ret_new);

/* A message of the peer came by this descriptor; see crema_unsent.h. */
void sink_peers_came_by(sink_peers_t *self, size_t peer, int fd);

/* To one peer, or to all. */
void sink_peers_send(sink_peers_t *self, size_t peer, const crema_msg_t *msg);
void sink_peers_broadcast(sink_peers_t *self, const crema_msg_t *msg);
size_t sink_peers_count(const sink_peers_t *self);

typedef struct {
    /* messages out, not taken by a full socket, not sent to who does not read; peers that had left */
    uint64_t sent, dropped, untaken, gone;
} sink_peers_stats_t;
sink_peers_stats_t sink_peers_stats(const sink_peers_t *self);

#endif
