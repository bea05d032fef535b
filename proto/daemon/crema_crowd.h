/* crema_crowd - limits the connections per address to a program's ports: those beyond the limit
 * are shut down, newest first.
 *
 * They are found among the descriptors of the process, since libzmq does not report where a
 * connection comes from before it has sent something. */
#ifndef CREMA_CROWD_H
#define CREMA_CROWD_H

#include <stddef.h>

#include "crema_error.h"

#define CREMA_CROWD_PORTS_MAX 4
#define CREMA_CROWD_ADDRESS_BYTES 46
/* All users of a host, and everything that comes through a tunnel, share its loopback addresses. */
#define CREMA_CROWD_LOOPBACK_TIMES 16

typedef struct crema_crowd crema_crowd_t;

CREMA_MUST_CHECK crema_err_t crema_crowd_new(size_t each_max, crema_crowd_t **ret_self);
void crema_crowd_destroy(crema_crowd_t **self_p);

/* Also watches the TCP port of this bound endpoint; other kinds of endpoint are ignored. */
void crema_crowd_watch(crema_crowd_t *self, const char *endpoint);

/* Checks all connections; returns how many were shut down, and the address of one of them. */
size_t crema_crowd_thin(crema_crowd_t *self, char ret_address[CREMA_CROWD_ADDRESS_BYTES]);

#endif
