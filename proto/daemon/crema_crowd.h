/* crema_crowd - the connections that one address has to a program's ports: those beyond a limit are shut down, the newest first.
 *
 * They are found among the descriptors of the process, as libzmq tells nobody where a connection comes from before it speaks. */
#ifndef CREMA_CROWD_H
#define CREMA_CROWD_H

#include <stddef.h>

#include "crema_error.h"

#define CREMA_CROWD_PORTS_MAX 4
#define CREMA_CROWD_ADDRESS_BYTES 46
/* All users of a host, and all who come through a tunnel, share its loopback addresses. */
#define CREMA_CROWD_LOOPBACK_TIMES 16

typedef struct crema_crowd crema_crowd_t;

CREMA_MUST_CHECK crema_err_t crema_crowd_new(size_t each_max, crema_crowd_t **ret_self);
void crema_crowd_destroy(crema_crowd_t **self_p);

/* From now on the TCP port of this bound endpoint is looked at too; of another endpoint nothing is. */
void crema_crowd_watch(crema_crowd_t *self, const char *endpoint);

/* Looks at all connections; returns how many it shut down, and the address of one of them. */
size_t crema_crowd_thin(crema_crowd_t *self, char ret_address[CREMA_CROWD_ADDRESS_BYTES]);

#endif
