/* agent_link - the agent's one socket: a DEALER to the aggregator that is thrown away and made anew with each dial. */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_keys.h"

typedef struct agent_link agent_link_t;
typedef struct _zloop_t zloop_t;

typedef struct {
    void (*on_message)(void *context, const uint8_t *bytes, size_t size); /* borrowed bytes */
    void (*on_turn)(void *context); /* after some messages; may dial or hang up */
    void *context;
} agent_link_handler_t;

/* Loop, endpoint and keys are borrowed for the link's life. */
CREMA_MUST_CHECK crema_err_t agent_link_new(zloop_t *loop, const char *endpoint,
                                            const crema_keys_t *keys,
                                            const agent_link_handler_t *handler,
                                            agent_link_t **ret_self);
/* Hangs up. Accepts NULL. */
void agent_link_destroy(agent_link_t **self_p);

/* Hangs up, then connects in the background. CREMA_EINVAL: not an endpoint. */
CREMA_MUST_CHECK crema_err_t agent_link_dial(agent_link_t *self);
void agent_link_hang_up(agent_link_t *self);

/* Takes the bytes, which malloc() made, in any case. CREMA_EAGAIN: not connected, or the socket is full; nothing was sent. */
CREMA_MUST_CHECK crema_err_t agent_link_send(agent_link_t *self, uint8_t **bytes_p, size_t size);

#endif
