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

/* Merges the sorted ids from `at` on into the sorted ones before them. */
static void
s_merge(sink_ids_t *self, size_t at)
{
    size_t left = at, right = self->n - at;
    crema_id_t *tail = malloc(right * sizeof *tail);
    if (!tail) {
        qsort(self->ids, self->n, sizeof *self->ids, s_ascending);
        return;
    }
    memcpy(tail, self->ids + at, right * sizeof *tail);
    while (right > 0) {
        const bool is_left = left > 0 && s_ascending(&self->ids[left - 1], &tail[right - 1]) > 0;
        const size_t to = left + right - 1;
        self->ids[to] = is_left ? self->ids[--left] : tail[--right];
    }
    free(tail);
}

void
sink_ids_sort(sink_ids_t *self)
{
    size_t kept = 0, sorted = self->n > 0;
    while (sorted < self->n && s_ascending(&self->ids[sorted - 1], &self->ids[sorted]) <= 0)
        sorted++;
    if (sorted < self->n) {
        qsort(self->ids + sorted, self->n - sorted, sizeof *self->ids, s_ascending);
        s_merge(self, sorted);
    }
    for (size_t i = 0; i < self->n; i++)
        if (kept == 0 || !crema_id_equal(&self->ids[kept - 1], &self->ids[i]))
            self->ids[kept++] = self->ids[i];
    self->n = kept;
}

crema_err_t
sink_ids_add(sink_ids_t *self, const crema_id_t *id)
{
    size_t low = 0, high = self->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s_ascending(&self->ids[middle], id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < self->n && crema_id_equal(&self->ids[low], id))
        return CREMA_OK;
    const crema_id_t added = *id;
    crema_err_t err = sink_ids_append(self, &added);
    if (err != CREMA_OK)
        return err;
    memmove(&self->ids[low + 1], &self->ids[low], (self->n - 1 - low) * sizeof *self->ids);
    self->ids[low] = added;
    return CREMA_OK;
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
