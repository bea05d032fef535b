/* sink_aged - things by age, the oldest at hand: a heap of pointers that each know their place in it.
 * Pure: memory only. */
#ifndef SINK_AGED_H
#define SINK_AGED_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* Member of whatever is kept. Zeroed means: in no heap. */
typedef struct {
    int64_t age_ns; /* when it was put there: the smallest is the oldest */
    size_t place;   /* in the heap, from 1 */
} sink_age_t;

typedef struct {
    sink_age_t **items;
    size_t n, room;
} sink_aged_t;

/* Does nothing if it is in a heap already. */
CREMA_MUST_CHECK crema_err_t sink_aged_add(sink_aged_t *self, sink_age_t *item, int64_t age_ns);
/* Does nothing if it is in none. */
void sink_aged_remove(sink_aged_t *self, sink_age_t *item);
/* NULL: there is none. */
sink_age_t *sink_aged_oldest(const sink_aged_t *self);
void sink_aged_clear(sink_aged_t *self);

#endif
