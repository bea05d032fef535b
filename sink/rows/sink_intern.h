/* sink_intern - numbers keys in the order they are added, from 0. Pure: a hash table with its
 * own copies of the keys.
 *
 * A value of fixed size may be kept for each key. Keys are never removed. */
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
/* With a value of that many bytes for each key, at first all zero. */
CREMA_MUST_CHECK crema_err_t sink_intern_new_with(size_t value_bytes, sink_intern_t **ret_self);
void sink_intern_destroy(sink_intern_t **self_p);

/* The key's number, which is new if the key is. CREMA_ELIMIT: the key is new and the table is
 * full. */
CREMA_MUST_CHECK crema_err_t sink_intern_add(sink_intern_t *self, const void *key, size_t size,
                                             uint32_t *ret_number, bool *ret_new);

/* SINK_INTERN_NONE if unknown. */
uint32_t sink_intern_find(const sink_intern_t *self, const void *key, size_t size);

/* The value of a key; valid until another key is added. */
void *sink_intern_value(const sink_intern_t *self, uint32_t number);

/* The stored copy of the key, with a NUL after its last byte. */
const void *sink_intern_key(const sink_intern_t *self, uint32_t number, size_t *ret_size);

uint32_t sink_intern_count(const sink_intern_t *self);

/* FNV-1a, 64 bits; `seed` chains several pieces, 0 for the first. */
uint64_t sink_hash(uint64_t seed, const void *bytes, size_t size);

#endif
