#include "crema_limit.h"

#include <string.h>

#define ROW(id, name, part, unit, limit, lost) {name, part, unit, lost, limit},
static const crema_limit_t c_limits[] = {CREMA_LIMITS(ROW)};
#undef ROW

const crema_limit_t *
crema_limit(crema_limit_id_t id)
{
    return &c_limits[id];
}

crema_limit_id_t
crema_limit_find(const char *name)
{
    int i = 0;
    while (i < CREMA_LIMIT_COUNT && strcmp(c_limits[i].name, name) != 0)
        i++;
    return (crema_limit_id_t)i;
}

crema_limits_t
crema_limits(void)
{
    crema_limits_t self = {{0}, {0}};
    for (int i = 0; i < CREMA_LIMIT_COUNT; i++)
        self.limit[i] = c_limits[i].limit;
    return self;
}

void
crema_limits_met(crema_limits_t *self, crema_limit_id_t id, uint64_t n)
{
    if (__builtin_add_overflow(self->met[id], n, &self->met[id]))
        self->met[id] = UINT64_MAX;
}
