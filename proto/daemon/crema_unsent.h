/* crema_unsent - counts bytes sent to a peer that it has not received yet, so that a peer that
 * never reads is not sent more.
 *
 * libzmq limits only the number of messages queued for a peer. Bytes sent are counted here, and
 * the kernel is asked how many the peer's host has acknowledged. Peers that do not use TCP,
 * which belong to this user, are not counted. */
#ifndef CREMA_UNSENT_H
#define CREMA_UNSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: nothing is known of the peer, and everything is sent. */
typedef struct {
    int fd; /* of its connection */
    uint64_t sent, acked;
} crema_unsent_t;

/* A message of the peer came through this descriptor (ZMQ_SRCFD); below 1: unknown. */
void crema_unsent_heard(crema_unsent_t *self, int fd);

/* True if `size` more bytes leave at most `max` unreceived; they then count as sent. */
bool crema_unsent_takes(crema_unsent_t *self, size_t size, size_t max);

#endif
