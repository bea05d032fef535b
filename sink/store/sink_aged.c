#include "sink_aged.h"

#include <stdlib.h>

#include "crema_grow.h"

static void
s_set(sink_aged_t *self, size_t at, sink_age_t *item)
{
    self->items[at] = item;
    item->index = at + 1;
}

static void
s_up(sink_aged_t *self, size_t at)
{
    sink_age_t *item = self->items[at];
    while (at > 0 && self->items[(at - 1) / 2]->age_ns > item->age_ns) {
        s_set(self, at, self->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    s_set(self, at, item);
}

static void
s_down(sink_aged_t *self, size_t at)
{
    sink_age_t *item = self->items[at];
    for (size_t child; (child = 2 * at + 1) < self->n; at = child) {
        if (child + 1 < self->n && self->items[child + 1]->age_ns < self->items[child]->age_ns)
            child++;
        if (self->items[child]->age_ns >= item->age_ns)
            break;
        s_set(self, at, self->items[child]);
    }
    s_set(self, at, item);
}

crema_err_t
sink_aged_add(sink_aged_t *self, sink_age_t *item, int64_t age_ns)
{
    if (item->index > 0)
        return CREMA_OK;
    sink_age_t **items = crema_grow(self->items, self->n, &self->room, sizeof(sink_age_t *));
    if (!items)
        return CREMA_ENOMEM;
    self->items = items;
    item->age_ns = age_ns;
    self->items[self->n] = item;
    s_up(self, self->n++);
    return CREMA_OK;
}

void
sink_aged_remove(sink_aged_t *self, sink_age_t *item)
{
    if (item->index == 0)
        return;
    size_t at = item->index - 1;
    sink_age_t *last = self->items[--self->n];
    item->index = 0;
    if (last == item)
        return;
    s_set(self, at, last);
    s_up(self, at);
    s_down(self, last->index - 1);
}

sink_age_t *
sink_aged_oldest(const sink_aged_t *self)
{
    return self->n ? self->items[0] : NULL;
}

void
sink_aged_clear(sink_aged_t *self)
{
    free(self->items);
    *self = (sink_aged_t){0};
}
