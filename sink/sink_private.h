/* sink_private - what the parts of the reactor share: sink.c is its life and loop, sink_intake.c takes messages, sink_group.c commits. */
#ifndef SINK_PRIVATE_H
#define SINK_PRIVATE_H

#include "crema_record.h"
#include "crema_server.h"
#include "sink.h"
#include "sink_peers.h"
#include "sink_sealing.h"
#include "sink_store.h"
#include "sink_views.h"

#define SINK_FULL_RETRY_MS 1000

/* Counted, and told with the last line of the log. */
typedef struct {
    uint64_t messages, bad, puts, records, refused, full, nacks, commits, committed_bytes, sealed,
        seal_failed;
} counts_t;

struct sink {
    sink_config_t config;
    crema_server_t *server;
    zloop_t *loop;
    zsock_t *router; /* the server's */
    int signals;
    crema_arena_t *arena;
    sink_peers_t *peers;
    sink_store_t *store;
    sink_sealing_t *sealing;
    sink_views_t *views; /* NULL: none wanted */
    sink_space_t space;
    uint64_t free_b;
    bool commit_armed;     /* a timer is set */
    int64_t t_commit_ns;   /* monotonic time of the last commit */
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last tick */
    unsigned ticks;
    bool broken;    /* the journal failed */
    bool told_full; /* a peer was told in this batch */
    counts_t counts;
};

/* ---- sink_group.c: each is false when the loop must end */

/* Commits what waits and tells every aggregator what is durable by now. */
bool sink_group_commit(sink_t *self);
/* At once if the last commit is an interval ago or enough has come together, else when the interval is over. */
bool sink_group_commit_soon(sink_t *self);

/* ---- sink_intake.c */

/* Everything that waits at the socket, up to a bound. False: the loop must end. */
bool sink_intake_take(sink_t *self);

#endif
