/* agent_link - the agent's socket: a DEALER to the aggregator, created anew for each dial.
 *
 * A dial first searches a way (agent_reach.h), so the socket is available a little later. If the
 * way over Dask is silent for ten seconds, a new search begins. */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_keys.h"

typedef struct agent_link agent_link_t;
typedef struct _zloop_t zloop_t;

typedef struct {
    void (*on_message)(void *context, const uint8_t *bytes, size_t size); /* borrowed bytes */
    void (*on_turn)(void *context);                  /* after some messages; may dial or hang up */
    void (*on_found)(void *context, bool over_dask); /* messages can be sent from now on */
    void *context;
} agent_link_handler_t;

/* Endpoints and directory: see agent_reach.h. Everything except the handler is borrowed for the
 * link's life. */
CREMA_MUST_CHECK crema_err_t agent_link_new(zloop_t *loop, const char *endpoints,
                                            const char *way_dir, const crema_keys_t *keys,
                                            const agent_link_handler_t *handler,
                                            agent_link_t **ret_self);
/* Hangs up. Accepts NULL. */
void agent_link_destroy(agent_link_t **self_p);

/* Hangs up, then connects in the background. CREMA_EINVAL: not an endpoint. */
CREMA_MUST_CHECK crema_err_t agent_link_dial(agent_link_t *self);
void agent_link_hang_up(agent_link_t *self);

/* Takes ownership of the bytes, allocated with malloc(), in any case. CREMA_EAGAIN: not
 * connected, or the socket is full; nothing was sent. */
CREMA_MUST_CHECK crema_err_t agent_link_send(agent_link_t *self, uint8_t **bytes_p, size_t size);

#endif
