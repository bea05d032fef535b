/* agg_private - shared by the source files of agg, of which each uses only those before it:
 * agg_send.c carries out what the core asks for, agg_receive.c takes messages, agg.c starts, keeps
 * time and stops. */
#ifndef AGG_PRIVATE_H
#define AGG_PRIVATE_H

#include "agg.h"
#include "agg_core.h"
#include "agg_peers.h"
#include "agg_scrape.h"
#include "agg_tap.h"
#include "crema_keys.h"
#include "crema_server.h"

typedef struct _zloop_t zloop_t;
typedef struct _zsock_t zsock_t;

struct agg {
    agg_options_t options;
    crema_server_t *server;    /* towards agents and collectors */
    crema_keys_t *client_keys; /* towards the sink */
    zloop_t *loop;
    zsock_t *router; /* belongs to the server */
    zsock_t *sink;
    agg_tap_t *tap; /* NULL: no tap */
    int signals;
    uint64_t session;
    int patience_s;       /* seconds left to wait for unknown keys */
    crema_arena_t *arena; /* for messages */
    agg_core_t *core;
    agg_peers_t *peers;
    int64_t wall_ahead_ns; /* of the monotonic clock, at the last tick */
    int tick_timer;        /* -1: not armed */
    bool tick_is_slow;
    int64_t ticked_ns, second_ns; /* the last tick, and the last that did what each second needs */
    int64_t redialled_ns;         /* the sink, for its silence */
    unsigned seconds;
    uint64_t logged_no_room, logged_not_taken; /* values when last logged */
    agg_counts_t counts;
    agg_scrape_t scraped;
    crema_scrape_t *scrape; /* NULL: no metrics */
    crema_id_t opened;      /* the run opened last by a client */
};

/* ---- agg_send.c */

void agg_send(agg_t *self, const agg_action_t *action);
/* Admits the key of a run's own agents. */
void agg_admit_key(agg_t *self, const crema_id_t *run_id, const crema_id_t *owner,
                   ProtobufCBinaryData key);
/* Ends the keys of runs that were forgotten; with `spares_new` not those that were admitted, or
 * whose run was still known, a minute ago. */
void agg_take_back_keys(agg_t *self, bool spares_new);
/* Carries out all pending actions. */
void agg_act(agg_t *self);

/* ---- agg_receive.c */

/* Fences every connection whose key was revoked; its sessions and open runs end. */
void agg_fence_revoked(agg_t *self);
/* Take what waits in the sockets, of agents and collectors and of the sink. */
void agg_take_from_peers(agg_t *self);
void agg_take_from_sink(agg_t *self);

#endif
