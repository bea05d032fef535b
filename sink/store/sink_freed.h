/* sink_freed - the ids of freed runs as a sorted array, 16 bytes each. Pure: memory only. */
#ifndef SINK_FREED_H
#define SINK_FREED_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct {
    crema_id_t *ids; /* sorted */
    size_t n, room;
} sink_freed_t;

/* Bulk loading: sink_freed_load() appends in any order, sink_freed_loaded() sorts. Call nothing
 * else in between. */
CREMA_MUST_CHECK crema_err_t sink_freed_load(sink_freed_t *self, const crema_id_t *id);
void sink_freed_loaded(sink_freed_t *self);

/* Adding an id twice changes nothing. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t sink_freed_add(sink_freed_t *self, const crema_id_t *id);
void sink_freed_remove(sink_freed_t *self, const crema_id_t *id);
bool sink_freed_has(const sink_freed_t *self, const crema_id_t *id);
void sink_freed_clear(sink_freed_t *self);

#endif
