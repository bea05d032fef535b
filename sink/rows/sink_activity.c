#include "sink_activity.h"

#include <math.h>
#include <stdlib.h>

#include "sink_intern.h"

typedef struct {
    double total;
    int64_t t_ns;
} previous_t;

struct sink_activity {
    sink_intern_t *keys;
    previous_t *previous; /* by number of the key */
    uint32_t room;
    crema_limits_t *limits;
};

crema_err_t
sink_activity_new(crema_limits_t *limits, sink_activity_t **ret_self)
{
    sink_activity_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &self->keys);
    if (err != CREMA_OK)
        sink_activity_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_activity_destroy(sink_activity_t **self_p)
{
    sink_activity_t *self = *self_p;
    if (!self)
        return;
    sink_intern_destroy(&self->keys);
    free(self->previous);
    free(self);
    *self_p = NULL;
}

static crema_err_t
s_make_room(sink_activity_t *self, uint32_t number)
{
    if (number < self->room)
        return CREMA_OK;
    uint32_t room = self->room ? self->room * 2 : 256;
    previous_t *previous = realloc(self->previous, room * sizeof *previous);
    if (!previous)
        return CREMA_ENOMEM;
    self->previous = previous;
    self->room = room;
    return CREMA_OK;
}

crema_err_t
sink_activity_take(sink_activity_t *self, const sink_activity_key_t *key, int64_t t1_ns,
                   int64_t t_known_ns, double total, bool baseline, int64_t *ret_t0_ns,
                   double *ret_value)
{
    uint32_t number;
    bool fresh;
    if (sink_intern_count(self->keys) >= self->limits->limit[CREMA_LIMIT_ACTIVITY_KEYS] &&
        sink_intern_find(self->keys, key, sizeof *key) == SINK_INTERN_NONE) {
        crema_limits_met(self->limits, CREMA_LIMIT_ACTIVITY_KEYS, 1);
        *ret_t0_ns = 0;
        *ret_value = NAN;
        return CREMA_OK;
    }
    crema_err_t err = sink_intern_add(self->keys, key, sizeof *key, &number, &fresh);
    if (err == CREMA_OK)
        err = s_make_room(self, number);
    if (err != CREMA_OK)
        return err;
    previous_t *previous = &self->previous[number];
    if (fresh)
        *previous = (previous_t){0, t_known_ns};
    *ret_t0_ns = baseline ? t1_ns : previous->t_ns;
    *ret_value = baseline ? 0 : total - previous->total;
    *previous = (previous_t){total, t1_ns};
    return CREMA_OK;
}
