/* crema_arena - memory of one decoded message: zeroed, bounded, released as a whole. Pure: a
 * bump pointer. Of our own since protobuf-c takes an allocator and has none with a bound.
 *
 * Unpacked protobuf can take 60 times its size on the wire, so the sender must not determine how
 * much memory that is. A message may take CREMA_ARENA_FACTOR times its wire size plus
 * CREMA_ARENA_SLACK; the slack admits a full record of the shortest names. Memory is valid until
 * the next crema_arena_begin(), which each decoder calls first. */
#ifndef CREMA_ARENA_H
#define CREMA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"

#define CREMA_ARENA_FACTOR 16
#define CREMA_ARENA_SLACK ((size_t)1 << 20)

typedef struct crema_arena crema_arena_t;

/* max_bytes is the limit for any message; memory that no message needs is never touched.
 * CREMA_EINVAL if it is 0. */
CREMA_MUST_CHECK crema_err_t crema_arena_new(size_t max_bytes, crema_arena_t **ret_self);

/* Accepts NULL; sets *self_p to NULL. */
void crema_arena_destroy(crema_arena_t **self_p);

/* Releases everything and sets the limit for a message of wire_bytes. */
void crema_arena_begin(crema_arena_t *self, size_t wire_bytes);

/* Zeroed memory, aligned for any type; NULL above the limit. */
void *crema_arena_take(crema_arena_t *self, size_t bytes);
/* The same, not zeroed, for what is written at once. */
void *crema_arena_room(crema_arena_t *self, size_t bytes);

/* True if a request was refused since crema_arena_begin(): distinguishes a bomb from a malformed
 * message. */
bool crema_arena_refused(const crema_arena_t *self);

/* Bytes taken since crema_arena_begin(). */
size_t crema_arena_used(const crema_arena_t *self);

#endif
