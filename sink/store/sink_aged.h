/* sink_aged - items ordered by age, the oldest first: a binary heap of pointers to items that
 * store their own index. Pure: memory only. */
#ifndef SINK_AGED_H
#define SINK_AGED_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* Embedded in each item. All zero: in no heap. */
typedef struct {
    int64_t age_ns; /* when it was added; the smallest is the oldest */
    size_t index;   /* in the heap, from 1; 0: in no heap */
} sink_age_t;

typedef struct {
    sink_age_t **items;
    size_t n, room;
} sink_aged_t;

/* Does nothing if the item is already in a heap. */
CREMA_MUST_CHECK crema_err_t sink_aged_add(sink_aged_t *self, sink_age_t *item, int64_t age_ns);
/* Does nothing if the item is in no heap. */
void sink_aged_remove(sink_aged_t *self, sink_age_t *item);
/* NULL if the heap is empty. */
sink_age_t *sink_aged_oldest(const sink_aged_t *self);
void sink_aged_clear(sink_aged_t *self);

#endif
