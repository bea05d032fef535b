/* agent_network - bytes through the host's network devices, from /proc/net/dev, each byte once: of
 * those backed by hardware or, if there are none (in a container), of those with a default route
 * or, if there are none, of all except the loopback. The hook in the worker counts in the same
 * way. Its file stays open, and a device is looked up when it first appears, since it is read with
 * each sample. */
#ifndef AGENT_NETWORK_H
#define AGENT_NETWORK_H

#include <stdint.h>

#include "crema_error.h"

typedef struct agent_network agent_network_t;

/* `proc` is "/proc" and `sys` is "/sys" except in tests; both are borrowed. */
CREMA_MUST_CHECK crema_err_t agent_network_new(const char *proc, const char *sys,
                                               agent_network_t **ret_self);
void agent_network_destroy(agent_network_t **self_p);

/* Cumulative; -1 where the kernel does not tell. */
void agent_network_read(agent_network_t *self, int64_t *ret_read_b, int64_t *ret_write_b);

#endif
