#include "agg_lists.h"

#include <stdint.h>
#include <stdlib.h>

#include "crema_map.h"

typedef struct {
    crema_link_t list;
    size_t joined;
} list_t;

struct agg_lists {
    crema_map_t *by_id; /* list_t */
};

crema_err_t
agg_lists_new(agg_lists_t **ret_self)
{
    agg_lists_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = crema_map_new(SIZE_MAX, &self->by_id);
    if (err != CREMA_OK) {
        free(self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agg_lists_destroy(agg_lists_t **self_p)
{
    agg_lists_t *self = *self_p;
    if (!self)
        return;
    crema_map_destroy(&self->by_id);
    free(self);
    *self_p = NULL;
}

crema_link_t *
agg_lists_join(agg_lists_t *self, const crema_id_t *id, crema_err_t *ret_err)
{
    list_t *found = crema_map_find(self->by_id, id);
    if (!found) {
        found = crema_map_make(self->by_id, id, sizeof *found, ret_err);
        if (!found)
            return NULL;
        crema_list_init(&found->list);
    }
    found->joined++;
    return &found->list;
}

void
agg_lists_leave(agg_lists_t *self, const crema_id_t *id)
{
    list_t *found = crema_map_find(self->by_id, id);
    if (found && --found->joined == 0)
        free(crema_map_take(self->by_id, id));
}

crema_link_t *
agg_lists_find(const agg_lists_t *self, const crema_id_t *id)
{
    list_t *found = crema_map_find(self->by_id, id);
    return found ? &found->list : NULL;
}
