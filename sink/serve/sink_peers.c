#include "sink_peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <czmq.h>

#include "crema_failpoint.h"
#include "crema_unsent.h"

typedef struct {
    uint8_t id[255];
    uint8_t size; /* 0: the slot is free */
    int64_t heard_ns;
    crema_unsent_t unsent;
} peer_t;

struct sink_peers {
    void *router;
    uint64_t session;
    size_t n; /* slots in use or used before */
    peer_t peers[SINK_PEERS_MAX];
    sink_peers_stats_t stats;
};

crema_err_t
sink_peers_new(zsock_t *router, uint64_t session, sink_peers_t **ret_self)
{
    sink_peers_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->router = zsock_resolve(router);
    self->session = session;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_peers_destroy(sink_peers_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

void
sink_peers_begin_anew(sink_peers_t *self, uint64_t session)
{
    self->session = session;
    sink_peers_broadcast(self, &(crema_msg_t){.type = CREMA_MSG_COMMITTED});
}

/* A free slot, or that of the peer that has been silent longest. */
static size_t
s_place(sink_peers_t *self)
{
    size_t best = 0;
    for (size_t i = 0; i < self->n; i++) {
        if (self->peers[i].size == 0)
            return i;
        if (self->peers[i].heard_ns < self->peers[best].heard_ns)
            best = i;
    }
    return self->n < SINK_PEERS_MAX ? self->n++ : best;
}

size_t
sink_peers_heard(sink_peers_t *self, const void *routing_id, size_t size, int64_t now_ns,
                 bool *ret_new)
{
    *ret_new = false;
    for (size_t i = 0; i < self->n; i++) {
        peer_t *peer = &self->peers[i];
        if (peer->size == size && memcmp(peer->id, routing_id, size) == 0) {
            peer->heard_ns = now_ns;
            return i;
        }
    }
    *ret_new = true;
    size_t place = s_place(self);
    peer_t *peer = &self->peers[place];
    peer->size = (uint8_t)(size <= sizeof peer->id ? size : sizeof peer->id);
    memcpy(peer->id, routing_id, peer->size);
    peer->heard_ns = now_ns;
    peer->unsent = (crema_unsent_t){0};
    return place;
}

void
sink_peers_came_by(sink_peers_t *self, size_t place, int fd)
{
    crema_unsent_heard(&self->peers[place].unsent, fd);
}

static void
s_send_bytes(sink_peers_t *self, size_t place, const uint8_t *bytes, size_t size)
{
    peer_t *peer = &self->peers[place];
    if (peer->size == 0)
        return;
    if (!crema_unsent_takes(&peer->unsent, size, SINK_PEER_UNSENT_MAX)) {
        self->stats.untaken++;
        return;
    }
    if (zmq_send(self->router, peer->id, peer->size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EHOSTUNREACH) {
            self->stats.gone++;
            peer->size = 0;
        }
        return;
    }
    self->stats.sent += zmq_send(self->router, bytes, size, ZMQ_DONTWAIT) >= 0;
}

static bool
s_encode(sink_peers_t *self, const crema_msg_t *msg, uint8_t **ret_bytes, size_t *ret_size)
{
    crema_msg_t stamped = *msg;
    stamped.session = self->session;
    return crema_wire_encode(&stamped, ret_bytes, ret_size) == CREMA_OK;
}

void
sink_peers_send(sink_peers_t *self, size_t place, const crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    if (!s_encode(self, msg, &bytes, &size))
        return;
    crema_failpoint_message("sink.before_send", msg->type);
    s_send_bytes(self, place, bytes, size);
    crema_failpoint_message("sink.after_send", msg->type);
    free(bytes);
}

void
sink_peers_broadcast(sink_peers_t *self, const crema_msg_t *msg)
{
    uint8_t *bytes;
    size_t size;
    if (!s_encode(self, msg, &bytes, &size))
        return;
    self->stats.broadcasts++;
    crema_failpoint_message("sink.before_send", msg->type);
    for (size_t i = 0; i < self->n; i++)
        s_send_bytes(self, i, bytes, size);
    crema_failpoint_message("sink.after_send", msg->type);
    free(bytes);
}

size_t
sink_peers_count(const sink_peers_t *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->n; i++)
        count += self->peers[i].size > 0;
    return count;
}

sink_peers_stats_t
sink_peers_stats(const sink_peers_t *self)
{
    return self->stats;
}
