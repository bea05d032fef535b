/* crema_map - a bounded hash map from 128-bit ids to pointers that it does not own.
 * Pure: memory only.
 *
 * Open addressing with linear probing in a power of two of slots, at most three quarters full; removing shifts the chain back, so there
 * are no tombstones and a long life does not slow it down. */
#ifndef CREMA_MAP_H
#define CREMA_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct crema_map crema_map_t;

/* Ids are placed by SipHash with this secret of the process, so that nobody who chooses ids can make them collide. Once, before the first
 * map; a simulation that must run the same each time leaves it at zeros. */
#define CREMA_MAP_SECRET_BYTES 16
void crema_map_keep_secret(const uint8_t secret[CREMA_MAP_SECRET_BYTES]);

/* What stands for a text of a peer's choice, by the same secret; who finds something under it compares the text. */
crema_id_t crema_map_id(const void *bytes, size_t size);

/* At most entries_max entries (at least 1, else CREMA_EINVAL); memory grows with what is in it. */
CREMA_MUST_CHECK crema_err_t crema_map_new(size_t entries_max, crema_map_t **ret_self);

/* Accepts NULL; the values are the caller's. */
void crema_map_destroy(crema_map_t **self_p);

/* CREMA_EREPEAT: the key is there already; CREMA_ELIMIT: the map is full; CREMA_EINVAL: value is NULL. Nothing changed then. */
CREMA_MUST_CHECK crema_err_t crema_map_add(crema_map_t *self, const crema_id_t *key, void *value);

/* NULL if there is none. */
void *crema_map_find(const crema_map_t *self, const crema_id_t *key);

/* Removes an entry and returns its value; NULL if there is none. */
void *crema_map_take(crema_map_t *self, const crema_id_t *key);

size_t crema_map_count(const crema_map_t *self);

/* Walks all values in no particular order: set *cursor to 0, then call until NULL. Adding or taking ends the walk. */
void *crema_map_next(const crema_map_t *self, size_t *cursor);

#endif
