#include "sink_arrived.h"

#include <stdlib.h>
#include <string.h>

#include "sink_intern.h"

struct sink_arrived {
    sink_intern_t *chunks; /* chunks, each with the task that processes it */
    uint32_t *counts;      /* by number in `chunks` */
    uint32_t room;
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
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &self->chunks);
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
    if (!self)
        return;
    sink_intern_destroy(&self->chunks);
    free(self->counts);
    free(self);
    *self_p = NULL;
}

uint16_t
sink_arrived_count(sink_arrived_t *self, const crema_chunks_row_t *row)
{
    const work_key_t key = {row->chunk_id, row->task_key, row->submission_key};
    uint32_t number;
    bool fresh;
    if (sink_intern_count(self->chunks) == self->room) {
        uint32_t room = self->room ? self->room * 2 : 256;
        uint32_t *counts = realloc(self->counts, room * sizeof *counts);
        if (!counts)
            return UINT16_MAX;
        memset(counts + self->room, 0, (room - self->room) * sizeof *counts);
        self->counts = counts;
        self->room = room;
    }
    if (key.chunk_id == 0 ||
        sink_intern_add(self->chunks, &key, sizeof key, &number, &fresh) != CREMA_OK)
        return UINT16_MAX;
    uint32_t n = ++self->counts[number];
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}
