#include "sink_freed.h"

#include <stdlib.h>
#include <string.h>

/* Index of the id, or where it belongs. */
static size_t
s_place(const sink_freed_t *self, const crema_id_t *id)
{
    size_t low = 0, high = self->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(&self->ids[middle], id, sizeof *id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool
sink_freed_has(const sink_freed_t *self, const crema_id_t *id)
{
    size_t at = s_place(self, id);
    return at < self->n && crema_id_equal(&self->ids[at], id);
}

static crema_err_t
s_make_room(sink_freed_t *self)
{
    if (self->n < self->room)
        return CREMA_OK;
    size_t room = self->room + self->room / 4 + 64;
    crema_id_t *grown = realloc(self->ids, room * sizeof *grown);
    if (!grown)
        return CREMA_ENOMEM;
    self->ids = grown;
    self->room = room;
    return CREMA_OK;
}

crema_err_t
sink_freed_load(sink_freed_t *self, const crema_id_t *id)
{
    crema_err_t err = s_make_room(self);
    if (err == CREMA_OK)
        self->ids[self->n++] = *id;
    return err;
}

static int
s_ascending(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(crema_id_t));
}

void
sink_freed_loaded(sink_freed_t *self)
{
    size_t kept = 0;
    if (self->n > 0)
        qsort(self->ids, self->n, sizeof *self->ids, s_ascending);
    for (size_t i = 0; i < self->n; i++)
        if (kept == 0 || !crema_id_equal(&self->ids[kept - 1], &self->ids[i]))
            self->ids[kept++] = self->ids[i];
    self->n = kept;
}

crema_err_t
sink_freed_add(sink_freed_t *self, const crema_id_t *id)
{
    size_t at = s_place(self, id);
    if (at < self->n && crema_id_equal(&self->ids[at], id))
        return CREMA_OK;
    if (s_make_room(self) != CREMA_OK)
        return CREMA_ENOMEM;
    memmove(self->ids + at + 1, self->ids + at, (self->n - at) * sizeof *self->ids);
    self->ids[at] = *id;
    self->n++;
    return CREMA_OK;
}

void
sink_freed_remove(sink_freed_t *self, const crema_id_t *id)
{
    size_t at = s_place(self, id);
    if (at == self->n || !crema_id_equal(&self->ids[at], id))
        return;
    self->n--;
    memmove(self->ids + at, self->ids + at + 1, (self->n - at) * sizeof *self->ids);
}

void
sink_freed_clear(sink_freed_t *self)
{
    free(self->ids);
    *self = (sink_freed_t){0};
}
