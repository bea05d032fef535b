#include "crema_arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16

struct crema_arena {
    uint8_t *bytes;   /* one block of max_bytes */
    size_t max_bytes; /* hard limit */
    size_t cap;       /* limit for this message; <= max_bytes */
    size_t used;      /* <= cap */
    bool refused;     /* a request was refused */
};

crema_err_t
crema_arena_new(size_t max_bytes, crema_arena_t **ret_self)
{
    if (max_bytes == 0)
        return CREMA_EINVAL;
    crema_arena_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->max_bytes = max_bytes;
    self->cap = max_bytes;
    self->bytes = malloc(max_bytes);
    if (!self->bytes) {
        crema_arena_destroy(&self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_arena_destroy(crema_arena_t **self_p)
{
    crema_arena_t *self = *self_p;
    if (!self)
        return;
    free(self->bytes);
    free(self);
    *self_p = NULL;
}

void
crema_arena_begin(crema_arena_t *self, size_t wire_bytes)
{
    size_t cap;
    if (__builtin_mul_overflow(wire_bytes, CREMA_ARENA_FACTOR, &cap) ||
        __builtin_add_overflow(cap, CREMA_ARENA_SLACK, &cap) || cap > self->max_bytes)
        cap = self->max_bytes;
    self->cap = cap;
    self->used = 0;
    self->refused = false;
}

void *
crema_arena_room(crema_arena_t *self, size_t bytes)
{
    size_t start = (self->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (start > self->cap || bytes > self->cap - start) {
        self->refused = true;
        return NULL;
    }
    self->used = start + bytes;
    return self->bytes + start;
}

void *
crema_arena_take(crema_arena_t *self, size_t bytes)
{
    void *memory = crema_arena_room(self, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

bool
crema_arena_refused(const crema_arena_t *self)
{
    return self->refused;
}

size_t
crema_arena_used(const crema_arena_t *self)
{
    return self->used;
}
