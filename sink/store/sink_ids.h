/* sink_ids - a set of ids as a sorted array, 16 bytes each. Pure: memory only. */
#ifndef SINK_IDS_H
#define SINK_IDS_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct {
    crema_id_t *ids; /* sorted */
    size_t n, room;
} sink_ids_t;

/* To add many: sink_ids_append() in any order, then sink_ids_sort(), nothing else in between. */
CREMA_MUST_CHECK crema_err_t sink_ids_append(sink_ids_t *self, const crema_id_t *id);
void sink_ids_sort(sink_ids_t *self);

/* Adding an id twice changes nothing. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t sink_ids_add(sink_ids_t *self, const crema_id_t *id);
void sink_ids_remove(sink_ids_t *self, const crema_id_t *id);
bool sink_ids_has(const sink_ids_t *self, const crema_id_t *id);
void sink_ids_clear(sink_ids_t *self);

#endif
