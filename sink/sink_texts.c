#include "sink_texts.h"

#include <stdlib.h>
#include <string.h>

struct sink_texts {
    char *names[SINK_TEXTS_MAX];
    char *values[SINK_TEXTS_MAX];
    size_t n;
};

crema_err_t
sink_texts_new(sink_texts_t **ret_self)
{
    sink_texts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
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

crema_err_t
sink_texts_put(sink_texts_t *self, const char *name, const char *value, bool replace)
{
    size_t i = s_find(self, name);
    if (i == SINK_TEXTS_MAX || (i < self->n && !replace))
        return CREMA_OK;
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
