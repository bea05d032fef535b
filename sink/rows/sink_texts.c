#include "sink_texts.h"

#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"

typedef struct {
    char *name, *value;
} pair_t;

struct sink_texts {
    crema_limits_t *limits;
    pair_t *pairs;
    size_t n, room;
};

crema_err_t
sink_texts_new(crema_limits_t *limits, sink_texts_t **ret_self)
{
    sink_texts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    *ret_self = self;
    return CREMA_OK;
}

void
sink_texts_destroy(sink_texts_t **self_p)
{
    sink_texts_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n; i++) {
        free(self->pairs[i].name);
        free(self->pairs[i].value);
    }
    free(self->pairs);
    free(self);
    *self_p = NULL;
}

static size_t
s_find(const sink_texts_t *self, const char *name)
{
    size_t i = 0;
    while (i < self->n && strcmp(self->pairs[i].name, name) != 0)
        i++;
    return i;
}

crema_err_t
sink_texts_put(sink_texts_t *self, const char *name, const char *value, bool replace)
{
    size_t i = s_find(self, name);
    if (i < self->n && !replace)
        return CREMA_OK;
    if (i >= self->limits->limit[CREMA_LIMIT_ATTRIBUTES]) {
        crema_limits_met(self->limits, CREMA_LIMIT_ATTRIBUTES, 1);
        return CREMA_OK;
    }
    pair_t *pairs = crema_grow(self->pairs, self->n, &self->room, sizeof *pairs);
    if (!pairs)
        return CREMA_ENOMEM;
    self->pairs = pairs;
    pair_t pair = {i == self->n ? strdup(name) : pairs[i].name, strdup(value)};
    if (!pair.name || !pair.value) {
        free(pair.value);
        if (i == self->n)
            free(pair.name);
        return CREMA_ENOMEM;
    }
    if (i == self->n)
        self->n++;
    else
        free(pairs[i].value);
    pairs[i] = pair;
    return CREMA_OK;
}

size_t
sink_texts_count(const sink_texts_t *self)
{
    return self->n;
}

const char *
sink_texts_name(const sink_texts_t *self, size_t i)
{
    return self->pairs[i].name;
}

const char *
sink_texts_value(const sink_texts_t *self, size_t i)
{
    return self->pairs[i].value;
}

const char *
sink_texts_find(const sink_texts_t *self, const char *name)
{
    size_t i = s_find(self, name);
    return i < self->n ? self->pairs[i].value : NULL;
}
