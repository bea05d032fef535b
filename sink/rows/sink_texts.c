#include "sink_texts.h"

#include <stdlib.h>
#include <string.h>

struct sink_texts {
    crema_limits_t *limits;
    char **names;
    char **values;
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
        free(self->names[i]);
        free(self->values[i]);
    }
    free(self->names);
    free(self->values);
    free(self);
    *self_p = NULL;
}

static size_t
s_find(const sink_texts_t *self, const char *name)
{
    size_t i = 0;
    while (i < self->n && strcmp(self->names[i], name) != 0)
        i++;
    return i;
}

static crema_err_t
s_make_room(sink_texts_t *self)
{
    if (self->n < self->room)
        return CREMA_OK;
    size_t room = self->room ? 2 * self->room : 32;
    char **names = realloc(self->names, room * sizeof *names);
    if (names)
        self->names = names;
    char **values = realloc(self->values, room * sizeof *values);
    if (values)
        self->values = values;
    if (!names || !values)
        return CREMA_ENOMEM;
    self->room = room;
    return CREMA_OK;
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
    if (s_make_room(self) != CREMA_OK)
        return CREMA_ENOMEM;
    char *copy = strdup(value);
    char *label = i == self->n ? strdup(name) : self->names[i];
    if (!copy || !label) {
        free(copy);
        if (i == self->n)
            free(label);
        return CREMA_ENOMEM;
    }
    if (i == self->n)
        self->n++;
    else
        free(self->values[i]);
    self->names[i] = label;
    self->values[i] = copy;
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
    return self->names[i];
}

const char *
sink_texts_value(const sink_texts_t *self, size_t i)
{
    return self->values[i];
}

const char *
sink_texts_find(const sink_texts_t *self, const char *name)
{
    size_t i = s_find(self, name);
    return i < self->n ? self->values[i] : NULL;
}
