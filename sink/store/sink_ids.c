#include "sink_ids.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"

static int
s_ascending(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(crema_id_t));
}

/* NULL: it is not among them. */
static crema_id_t *
s_find(const sink_ids_t *self, const crema_id_t *id)
{
    return self->n ? bsearch(id, self->ids, self->n, sizeof *id, s_ascending) : NULL;
}

bool
sink_ids_has(const sink_ids_t *self, const crema_id_t *id)
{
    return s_find(self, id) != NULL;
}

crema_err_t
sink_ids_append(sink_ids_t *self, const crema_id_t *id)
{
    crema_id_t *ids = crema_grow(self->ids, self->n, &self->room, sizeof *ids);
    if (!ids)
        return CREMA_ENOMEM;
    self->ids = ids;
    self->ids[self->n++] = *id;
    return CREMA_OK;
}

void
sink_ids_sort(sink_ids_t *self)
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
sink_ids_add(sink_ids_t *self, const crema_id_t *id)
{
    crema_err_t err = sink_ids_append(self, id);
    sink_ids_sort(self);
    return err;
}

void
sink_ids_remove(sink_ids_t *self, const crema_id_t *id)
{
    crema_id_t *found = s_find(self, id);
    if (found)
        memmove(found, found + 1, (size_t)(self->ids + --self->n - found) * sizeof *found);
}

void
sink_ids_clear(sink_ids_t *self)
{
    free(self->ids);
    *self = (sink_ids_t){0};
}
