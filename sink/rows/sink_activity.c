#include "sink_activity.h"

#include <math.h>
#include <stdlib.h>

#include "sink_intern.h"

typedef struct {
    double total;
    int64_t t_ns;
} previous_t;

struct sink_activity {
    sink_intern_t *keys; /* with a previous_t each */
    crema_limits_t *limits;
};

crema_err_t
sink_activity_new(crema_limits_t *limits, sink_activity_t **ret_self)
{
    sink_activity_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = sink_intern_new_with(sizeof(previous_t), &self->keys);
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
    if (self)
        sink_intern_destroy(&self->keys);
    free(self);
    *self_p = NULL;
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
    if (err != CREMA_OK)
        return err;
    previous_t *previous = sink_intern_value(self->keys, number);
    if (fresh)
        previous->t_ns = t_known_ns;
    *ret_t0_ns = baseline ? t1_ns : previous->t_ns;
    *ret_value = baseline ? 0 : total - previous->total;
    if (!isnan(total))
        *previous = (previous_t){total, t1_ns};
    return CREMA_OK;
}
