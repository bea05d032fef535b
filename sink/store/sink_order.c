#include "sink_order.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_list.h"
#include "crema_map.h"

#define STREAMS_MAX (1u << 24)

typedef struct {
    crema_link_t waits;        /* in the list of streams with waiting PUTs */
    uint64_t next;             /* number expected next */
    sink_order_put_t *waiting; /* by first number, from `from` on */
    size_t from, n, room;
} stream_t;

struct sink_order {
    crema_map_t *streams;
    crema_link_t waiting;
    stream_t *due; /* stream whose waiting PUTs may be due; NULL: none */
};

crema_err_t
sink_order_new(sink_order_t **ret_self)
{
    sink_order_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->waiting);
    crema_err_t err = crema_map_new(STREAMS_MAX, &self->streams);
    if (err != CREMA_OK)
        sink_order_destroy(&self);
    else
        *ret_self = self;
    return err;
}

static void
s_destroy_stream(void *value)
{
    free(((stream_t *)value)->waiting);
    free(value);
}

void
sink_order_destroy(sink_order_t **self_p)
{
    sink_order_t *self = *self_p;
    if (self)
        crema_map_destroy_all(&self->streams, s_destroy_stream);
    free(self);
    *self_p = NULL;
}

/* NULL: *ret_err says why. */
static stream_t *
s_stream(sink_order_t *self, const crema_id_t *stream_id, uint64_t next, crema_err_t *ret_err)
{
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (stream)
        return stream;
    stream = crema_map_make(self->streams, stream_id, sizeof *stream, ret_err);
    if (stream)
        stream->next = next;
    return stream;
}

crema_err_t
sink_order_begin(sink_order_t *self, const crema_id_t *stream_id, uint64_t last)
{
    crema_err_t err;
    return s_stream(self, stream_id, last + 1, &err) ? CREMA_OK : err;
}

/* Inserts in order, searching from the end, where most PUTs belong. */
static crema_err_t
s_wait(sink_order_t *self, stream_t *stream, const sink_order_put_t *place)
{
    sink_order_put_t *waiting =
        crema_grow(stream->waiting, stream->n, &stream->room, sizeof *waiting);
    if (!waiting)
        return CREMA_ENOMEM;
    stream->waiting = waiting;
    size_t at = stream->n++;
    while (at > stream->from && stream->waiting[at - 1].first > place->first) {
        stream->waiting[at] = stream->waiting[at - 1];
        at--;
    }
    stream->waiting[at] = *place;
    crema_list_append(&self->waiting, &stream->waits);
    return CREMA_OK;
}

crema_err_t
sink_order_take(sink_order_t *self, const crema_id_t *stream_id, const sink_order_put_t *place,
                bool *ret_now)
{
    crema_err_t err;
    stream_t *stream = s_stream(self, stream_id, 1, &err);
    if (!stream)
        return err;
    *ret_now = place->first <= stream->next;
    if (!*ret_now)
        return s_wait(self, stream, place);
    if (place->last >= stream->next)
        stream->next = place->last + 1;
    if (stream->from < stream->n)
        self->due = stream;
    return CREMA_OK;
}

bool
sink_order_due(sink_order_t *self, bool all, sink_order_put_t *ret_place)
{
    stream_t *stream = all ? CREMA_LIST_FIRST(&self->waiting, stream_t, waits) : self->due;
    if (!stream || (!all && stream->waiting[stream->from].first > stream->next)) {
        self->due = NULL;
        return false;
    }
    *ret_place = stream->waiting[stream->from++];
    if (ret_place->last >= stream->next)
        stream->next = ret_place->last + 1;
    if (stream->from == stream->n) {
        crema_list_remove(&stream->waits);
        stream->from = stream->n = 0;
        self->due = NULL;
    }
    return true;
}
