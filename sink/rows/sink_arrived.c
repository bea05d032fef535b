#include "sink_arrived.h"

#include <stdlib.h>

#include "sink_intern.h"

struct sink_arrived {
    sink_intern_t *chunks; /* each with a uint32_t, the number of its attempts */
};

/* A chunk in one submission. */
typedef struct {
    int64_t chunk_id, task_key, submission_key;
} work_key_t;

crema_err_t
sink_arrived_new(sink_arrived_t **ret_self)
{
    sink_arrived_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = sink_intern_new_with(sizeof(uint32_t), &self->chunks);
    if (err != CREMA_OK)
        sink_arrived_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_arrived_destroy(sink_arrived_t **self_p)
{
    sink_arrived_t *self = *self_p;
    if (self)
        sink_intern_destroy(&self->chunks);
    free(self);
    *self_p = NULL;
}

uint16_t
sink_arrived_count(sink_arrived_t *self, const crema_chunks_row_t *row)
{
    const work_key_t key = {row->chunk_id, row->task_key, row->submission_key};
    uint32_t number;
    bool fresh;
    if (key.chunk_id == 0 ||
        sink_intern_add(self->chunks, &key, sizeof key, &number, &fresh) != CREMA_OK)
        return UINT16_MAX;
    uint32_t *n = sink_intern_value(self->chunks, number);
    ++*n;
    return *n < UINT16_MAX ? (uint16_t)*n : UINT16_MAX;
}
