/* sink_intern - numbers for keys: the first key is 0, the next new one 1, and so on.
 * Pure: a hash table that keeps its own copies of the keys.
 *
 * Whoever needs a map keeps an array beside it, indexed by these numbers. Nothing is ever taken out. */
#ifndef SINK_INTERN_H
#define SINK_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

#define SINK_INTERN_NONE UINT32_MAX
#define SINK_INTERN_ANY (UINT32_MAX / 4) /* as many as memory holds */

typedef struct sink_intern sink_intern_t;

/* `max` keys at most. */
CREMA_MUST_CHECK crema_err_t sink_intern_new(uint32_t max, sink_intern_t **ret_self);
void sink_intern_destroy(sink_intern_t **self_p);

/* The key's number, a new one if it is new. CREMA_ELIMIT: it is new and the table is full. */
CREMA_MUST_CHECK crema_err_t sink_intern_add(sink_intern_t *self, const void *key, size_t size,
                                             uint32_t *ret_number, bool *ret_new);

/* SINK_INTERN_NONE if the key is not there. */
uint32_t sink_intern_find(const sink_intern_t *self, const void *key, size_t size);

/* The copy of key `number`, NUL-terminated beyond its size. */
const void *sink_intern_key(const sink_intern_t *self, uint32_t number, size_t *ret_size);

uint32_t sink_intern_count(const sink_intern_t *self);

/* FNV-1a, 64 bits; `seed` chains several pieces, 0 for the first. */
uint64_t sink_hash(uint64_t seed, const void *bytes, size_t size);

#endif
