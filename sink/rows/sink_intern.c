#include "sink_intern.h"

#include <stdlib.h>
#include <string.h>

#include "crema_map.h"

typedef struct {
    uint64_t hash;
    size_t offset; /* of the key in the pool */
    uint32_t size;
} entry_t;

struct sink_intern {
    uint32_t max;
    uint32_t n;
    entry_t *entries; /* by number */
    uint8_t *values;  /* by number */
    size_t value_bytes;
    uint32_t room;   /* allocated entries and values */
    uint32_t *slots; /* number + 1; 0 is free. A power of two, at most half full. */
    uint32_t mask;
    char *pool; /* the keys, each followed by a NUL */
    size_t pool_bytes, pool_room;
};

uint64_t
sink_hash(uint64_t seed, const void *bytes, size_t size)
{
    uint64_t hash = seed ? seed : 0xcbf29ce484222325u;
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

/* Seeded with the secret of the process, since peers choose the keys. */
static uint64_t
s_hash(const void *key, size_t size)
{
    uint64_t hash;
    const crema_id_t id = crema_map_id(key, size);
    memcpy(&hash, id.bytes, sizeof hash);
    return hash;
}

crema_err_t
sink_intern_new(uint32_t max, sink_intern_t **ret_self)
{
    if (max == 0 || max > UINT32_MAX / 4)
        return CREMA_EINVAL;
    sink_intern_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->max = max;
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_intern_new_with(size_t value_bytes, sink_intern_t **ret_self)
{
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, ret_self);
    if (err == CREMA_OK)
        (*ret_self)->value_bytes = value_bytes;
    return err;
}

void
sink_intern_destroy(sink_intern_t **self_p)
{
    sink_intern_t *self = *self_p;
    if (!self)
        return;
    free(self->entries);
    free(self->values);
    free(self->slots);
    free(self->pool);
    free(self);
    *self_p = NULL;
}

static crema_err_t
s_grow_slots(sink_intern_t *self)
{
    uint32_t n_slots = self->mask ? (self->mask + 1) * 2 : 64;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return CREMA_ENOMEM;
    for (uint32_t i = 0; i < self->n; i++) {
        uint32_t at = (uint32_t)self->entries[i].hash & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = i + 1;
    }
    free(self->slots);
    self->slots = slots;
    self->mask = n_slots - 1;
    return CREMA_OK;
}

static crema_err_t
s_make_room(sink_intern_t *self, size_t size)
{
    if (self->n == self->room) {
        uint32_t room = self->room ? self->room * 2 : 32;
        entry_t *entries = realloc(self->entries, room * sizeof *entries);
        if (!entries)
            return CREMA_ENOMEM;
        self->entries = entries;
        uint8_t *values =
            self->value_bytes ? realloc(self->values, room * self->value_bytes) : NULL;
        if (self->value_bytes > 0 && !values)
            return CREMA_ENOMEM;
        self->values = values;
        self->room = room;
    }
    if (self->pool_bytes + size + 1 > self->pool_room) {
        size_t room = (self->pool_bytes + size + 1) * 2;
        char *pool = realloc(self->pool, room);
        if (!pool)
            return CREMA_ENOMEM;
        self->pool = pool;
        self->pool_room = room;
    }
    if (self->mask == 0 || self->n >= (self->mask + 1) / 2)
        return s_grow_slots(self);
    return CREMA_OK;
}

static uint32_t
s_find(const sink_intern_t *self, uint64_t hash, const void *key, size_t size)
{
    if (self->mask == 0)
        return SINK_INTERN_NONE;
    for (uint32_t at = (uint32_t)hash & self->mask; self->slots[at]; at = (at + 1) & self->mask) {
        const entry_t *entry = &self->entries[self->slots[at] - 1];
        if (entry->hash == hash && entry->size == size &&
            memcmp(self->pool + entry->offset, key, size) == 0)
            return self->slots[at] - 1;
    }
    return SINK_INTERN_NONE;
}

crema_err_t
sink_intern_add(sink_intern_t *self, const void *key, size_t size, uint32_t *ret_number,
                bool *ret_new)
{
    uint64_t hash = s_hash(key, size);
    uint32_t number = s_find(self, hash, key, size);
    if (number != SINK_INTERN_NONE) {
        *ret_number = number;
        *ret_new = false;
        return CREMA_OK;
    }
    if (self->n == self->max || size > UINT32_MAX)
        return CREMA_ELIMIT;
    crema_err_t err = s_make_room(self, size);
    if (err != CREMA_OK)
        return err;
    number = self->n++;
    self->entries[number] = (entry_t){hash, self->pool_bytes, (uint32_t)size};
    if (self->value_bytes > 0)
        memset(sink_intern_value(self, number), 0, self->value_bytes);
    if (size > 0)
        memcpy(self->pool + self->pool_bytes, key, size);
    self->pool[self->pool_bytes + size] = '\0';
    self->pool_bytes += size + 1;
    uint32_t at = (uint32_t)hash & self->mask;
    while (self->slots[at])
        at = (at + 1) & self->mask;
    self->slots[at] = number + 1;
    *ret_number = number;
    *ret_new = true;
    return CREMA_OK;
}

uint32_t
sink_intern_find(const sink_intern_t *self, const void *key, size_t size)
{
    return s_find(self, s_hash(key, size), key, size);
}

void *
sink_intern_value(const sink_intern_t *self, uint32_t number)
{
    return self->values + number * self->value_bytes;
}

const void *
sink_intern_key(const sink_intern_t *self, uint32_t number, size_t *ret_size)
{
    const entry_t *entry = &self->entries[number];
    if (ret_size)
        *ret_size = entry->size;
    return self->pool + entry->offset;
}

uint32_t
sink_intern_count(const sink_intern_t *self)
{
    return self->n;
}
