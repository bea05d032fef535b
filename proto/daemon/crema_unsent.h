/* crema_unsent - how much of what was sent to a peer it has not taken yet, so that one that never reads is not sent more.
 *
 * libzmq bounds what waits for a peer in messages only. What was sent is counted here in bytes, and what the peer's host has acknowledged
 * is asked of the kernel. Peers on a socket other than TCP, which are of this user, are not counted. */
#ifndef CREMA_UNSENT_H
#define CREMA_UNSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: nothing is known of the peer, and it is sent everything. */
typedef struct {
    int fd; /* of its connection */
    uint64_t sent, acked;
} crema_unsent_t;

/* A message of the peer came by this descriptor (ZMQ_SRCFD); less than 1: that is not known. */
void crema_unsent_heard(crema_unsent_t *self, int fd);

/* Whether the peer may be sent `size` bytes, having taken all but `max` of what it was sent with them; they count as sent then. */
bool crema_unsent_takes(crema_unsent_t *self, size_t size, size_t max);

#endif
