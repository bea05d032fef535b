#include "sink_stream.h"

#include <stdlib.h>
#include <string.h>

#include "sink_bound.h"

crema_err_t
sink_stream_new(const crema_id_t *id, uint32_t row, sink_stream_t **ret_self)
{
    sink_stream_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->id = *id;
    self->row = row;
    self->worker = UINT32_MAX;
    self->next_seq = 1;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_stream_destroy(sink_stream_t **self_p)
{
    sink_stream_t *self = *self_p;
    if (!self)
        return;
    for (int kind = 0; kind < CREMA_DICT_COUNT; kind++)
        free(self->ids[kind]);
    free(self);
    *self_p = NULL;
}

int64_t
sink_stream_real_ns(const sink_stream_t *self, int64_t t_mono_ns)
{
    if (!self->has_info || t_mono_ns == 0)
        return 0;
    int64_t since, real;
    if (__builtin_sub_overflow(t_mono_ns, self->t_mono_ns, &since) ||
        __builtin_add_overflow(self->t_real_ns, since, &real))
        return 0;
    return sink_bound_time_ns(real);
}

crema_err_t
sink_stream_name(sink_stream_t *self, crema_dict_t kind, uint32_t local, uint32_t id,
                 crema_limits_t *limits, uint64_t *held_b)
{
    if ((unsigned)kind >= CREMA_DICT_COUNT)
        return CREMA_OK; /* a dictionary of a newer version */
    if (local >= self->room[kind]) {
        uint64_t room = self->room[kind] ? self->room[kind] : 16;
        while (room <= local)
            room *= 2;
        uint64_t more_b = (room - self->room[kind]) * sizeof *self->ids[kind];
        if (*held_b + more_b > limits->limit[CREMA_LIMIT_NAME_NUMBERS]) {
            crema_limits_met(limits, CREMA_LIMIT_NAME_NUMBERS, 1);
            return CREMA_OK;
        }
        uint32_t *ids = realloc(self->ids[kind], room * sizeof *ids);
        if (!ids)
            return CREMA_ENOMEM;
        memset(ids + self->n_ids[kind], 0xff, (room - self->n_ids[kind]) * sizeof *ids);
        self->ids[kind] = ids;
        self->room[kind] = (uint32_t)room;
        *held_b += more_b;
    }
    self->ids[kind][local] = id;
    if (local >= self->n_ids[kind])
        self->n_ids[kind] = local + 1;
    return CREMA_OK;
}

uint32_t
sink_stream_id(const sink_stream_t *self, crema_dict_t kind, int64_t local)
{
    if (local < 0 || local >= (int64_t)self->n_ids[kind])
        return UINT32_MAX;
    return self->ids[kind][local];
}
