/* crema_map - a bounded hash map from 128-bit ids to pointers that it does not own. Pure: memory
 * only. Not CZMQ's zhashx: it has no bound, and copies or formats each key.
 *
 * Open addressing with linear probing, a power of two of slots, at most three quarters full.
 * Removal shifts later entries back, so there are no tombstones and a long-lived map does not
 * slow down. */
#ifndef CREMA_MAP_H
#define CREMA_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct crema_map crema_map_t;

/* Ids are hashed by SipHash with this secret of the process, so that peers that choose ids
 * cannot make them collide. Call once, before the first map; a simulation that must be
 * reproducible leaves the secret zero. */
#define CREMA_MAP_SECRET_BYTES 16
void crema_map_keep_secret(const uint8_t secret[CREMA_MAP_SECRET_BYTES]);

/* Hashes a text chosen by a peer with the same secret. The caller compares the text of an entry
 * it finds. */
crema_id_t crema_map_id(const void *bytes, size_t size);

/* At most entries_max entries (at least 1, else CREMA_EINVAL); memory grows with the number of
 * entries. */
CREMA_MUST_CHECK crema_err_t crema_map_new(size_t entries_max, crema_map_t **ret_self);

/* Accepts NULL; the caller owns the values. */
void crema_map_destroy(crema_map_t **self_p);
/* The same, after each value was released. */
void crema_map_destroy_all(crema_map_t **self_p, void (*release)(void *value));

/* CREMA_EREPEAT: the key exists; CREMA_ELIMIT: the map is full; CREMA_EINVAL: value is NULL.
 * Nothing has changed then. */
CREMA_MUST_CHECK crema_err_t crema_map_add(crema_map_t *self, const crema_id_t *key, void *value);

/* Adds a value of that many bytes, all zero, which free() takes. NULL: *ret_err is CREMA_ENOMEM or
 * an error of crema_map_add(). */
void *crema_map_make(crema_map_t *self, const crema_id_t *key, size_t bytes, crema_err_t *ret_err);

/* NULL if there is no entry. */
void *crema_map_find(const crema_map_t *self, const crema_id_t *key);

/* Removes an entry and returns its value; NULL if there is no entry. */
void *crema_map_take(crema_map_t *self, const crema_id_t *key);

size_t crema_map_count(const crema_map_t *self);

/* Iterates over the values in no particular order: set *cursor to 0, call until NULL. Adding or
 * taking an entry ends the iteration. */
void *crema_map_next(const crema_map_t *self, size_t *cursor);

#endif
