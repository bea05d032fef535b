#include "crema_writers.h"

#include <stdlib.h>
#include <string.h>

struct crema_writers {
    uint32_t parts, held;
    crema_msg_t **at; /* RUN_WRITERS by part number; NULL: missing */
};

crema_err_t
crema_writers_new(crema_writers_t **ret_self)
{
    crema_writers_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    *ret_self = self;
    return CREMA_OK;
}

static void
s_clear(crema_writers_t *self)
{
    for (uint32_t i = 0; i < self->parts; i++)
        crema_msg_destroy(&self->at[i]);
    free(self->at);
    *self = (crema_writers_t){0};
}

void
crema_writers_destroy(crema_writers_t **self_p)
{
    if (*self_p)
        s_clear(*self_p);
    free(*self_p);
    *self_p = NULL;
}

static bool
s_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool
s_same(const Crema__RunWriters *a, const Crema__RunWriters *b)
{
    if (!a || a->n_writers != b->n_writers)
        return false;
    for (size_t i = 0; i < a->n_writers; i++) {
        const Crema__Writer *x = a->writers[i], *y = b->writers[i];
        if (!crema_id_equal(crema_id_of(x->stream_id), crema_id_of(y->stream_id)) ||
            x->last != y->last || x->dropped != y->dropped || x->kind != y->kind ||
            x->state != y->state || !s_same_text(x->name, y->name) ||
            !s_same_text(x->uuid, y->uuid) || !s_same_text(x->text, y->text))
            return false;
    }
    return true;
}

const Crema__RunWriters *
crema_writers_part(const crema_writers_t *self, uint32_t part)
{
    return part < self->parts && self->at[part] ? &self->at[part]->run_writers : NULL;
}

crema_err_t
crema_writers_take(crema_writers_t *self, const Crema__RunWriters *msg)
{
    if (msg->part >= msg->parts)
        return CREMA_EINVAL;
    if (msg->parts > CREMA_WIRE_WRITER_PARTS_MAX)
        return CREMA_ELIMIT;
    if (msg->parts == self->parts && s_same(crema_writers_part(self, msg->part), msg))
        return CREMA_EREPEAT;
    crema_msg_t *copy;
    crema_err_t err =
        crema_msg_copy(&(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .run_writers = *msg}, &copy);
    if (err != CREMA_OK)
        return err;
    if (msg->parts != self->parts) {
        crema_msg_t **at = calloc(msg->parts, sizeof(crema_msg_t *));
        if (!at) {
            crema_msg_destroy(&copy);
            return CREMA_ENOMEM;
        }
        s_clear(self);
        self->at = at;
        self->parts = msg->parts;
    }
    self->held += !self->at[msg->part];
    crema_msg_destroy(&self->at[msg->part]);
    self->at[msg->part] = copy;
    return CREMA_OK;
}

uint32_t
crema_writers_parts(const crema_writers_t *self)
{
    return self->parts;
}

bool
crema_writers_is_whole(const crema_writers_t *self)
{
    return self->parts > 0 && self->held == self->parts;
}

const Crema__Writer *
crema_writers_next(const crema_writers_t *self, crema_writers_cursor_t *cursor)
{
    for (; cursor->part < self->parts; cursor->part++, cursor->row = 0) {
        const Crema__RunWriters *part = crema_writers_part(self, cursor->part);
        if (part && cursor->row < part->n_writers)
            return part->writers[cursor->row++];
    }
    return NULL;
}
