/* agent_reach - finds a way to the aggregator: dials all addresses at once and takes the first
 * that proves itself.
 *
 * The proof is a CURVE handshake (without keys, ZMTP's own): an address such as 172.17.0.1 may
 * belong to any server. If no address has proven itself within a second, the way over Dask is
 * used, provided that a worker beside this agent has opened its socket "way" in the spool
 * directory. The search continues until something is found. An address that refuses this agent's
 * key is tried again after 0.1 s, then after twice as long each time, up to 5 s. */
#ifndef AGENT_REACH_H
#define AGENT_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_keys.h"

#define AGENT_REACH_MAX 8 /* addresses */

typedef struct agent_reach agent_reach_t;
typedef struct _zloop_t zloop_t;
typedef struct _zsock_t zsock_t;

typedef struct {
    const char *endpoints; /* one, or several separated by commas */
    const char *way_dir;   /* directory of the socket "way"; NULL: no way over Dask */
    const crema_keys_t *keys;
    /* Receives a connected DEALER and its ownership. */
    void (*on_found)(void *context, zsock_t *sock, const char *endpoint, bool over_dask);
    void *context;
} agent_reach_config_t;

/* True if `endpoints` is not a list of one to eight tcp:// and ipc:// endpoints, or one of them
 * is on another host and there are no keys; ret_why is then a sentence without a full stop. */
bool agent_reach_refuses(const char *endpoints, const char *keys_dir, bool insecure, char *ret_why,
                         size_t why_size);

/* The strings of the configuration, the loop and the keys are borrowed for its life. */
CREMA_MUST_CHECK crema_err_t agent_reach_new(zloop_t *loop, const agent_reach_config_t *config,
                                             agent_reach_t **ret_self);
/* Accepts NULL. */
void agent_reach_destroy(agent_reach_t **self_p);

/* Begins a search and cancels a running one. CREMA_EINVAL: not an endpoint. */
CREMA_MUST_CHECK crema_err_t agent_reach_begin(agent_reach_t *self);
void agent_reach_end(agent_reach_t *self);
/* True if an aggregator was reached within the last ten seconds and did not admit this agent's key,
 * and nothing was found since. */
bool agent_reach_is_refused(const agent_reach_t *self);

#endif
