#include "crema_map.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

typedef struct {
    crema_id_t key;
    void *value; /* NULL: the slot is free */
} slot_t;

struct crema_map {
    size_t count;
    size_t entries_max;
    size_t mask; /* slots - 1; slots are a power of two */
    slot_t *slots;
};

#define FIRST_SLOTS 16u

_Static_assert(crypto_shorthash_KEYBYTES == CREMA_MAP_SECRET_BYTES, "the key of SipHash");
_Static_assert(crypto_shorthash_siphashx24_KEYBYTES == CREMA_MAP_SECRET_BYTES, "the same key");
_Static_assert(crypto_shorthash_siphashx24_BYTES == CREMA_ID_BYTES, "an id");
_Static_assert(crypto_shorthash_BYTES == sizeof(size_t), "a hash of 64 bits");

static uint8_t s_secret[CREMA_MAP_SECRET_BYTES]; /* set once, before the first map */

void
crema_map_keep_secret(const uint8_t secret[CREMA_MAP_SECRET_BYTES])
{
    memcpy(s_secret, secret, sizeof s_secret);
}

crema_id_t
crema_map_id(const void *bytes, size_t size)
{
    crema_id_t id;
    crypto_shorthash_siphashx24(id.bytes, bytes, size, s_secret);
    return id;
}

/* Peers choose ids: with a hash they could compute, some thousand chosen ids would turn every
 * lookup into a linear search. */
static size_t
s_home(const crema_map_t *self, const crema_id_t *key)
{
    uint8_t hash[crypto_shorthash_BYTES];
    size_t home;
    crypto_shorthash(hash, key->bytes, sizeof key->bytes, s_secret);
    memcpy(&home, hash, sizeof home);
    return home & self->mask;
}

/* The key's slot, or the free slot where it belongs. */
static size_t
s_probe(const crema_map_t *self, const crema_id_t *key)
{
    size_t i = s_home(self, key);
    while (self->slots[i].value && !crema_id_equal(&self->slots[i].key, key))
        i = (i + 1) & self->mask;
    return i;
}

crema_err_t
crema_map_new(size_t entries_max, crema_map_t **ret_self)
{
    if (entries_max < 1)
        return CREMA_EINVAL;
    crema_map_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->entries_max = entries_max;
    self->mask = FIRST_SLOTS - 1;
    self->slots = calloc(FIRST_SLOTS, sizeof *self->slots);
    if (!self->slots) {
        crema_map_destroy(&self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
crema_map_destroy(crema_map_t **self_p)
{
    if (!*self_p)
        return;
    free((*self_p)->slots);
    free(*self_p);
    *self_p = NULL;
}

void
crema_map_destroy_all(crema_map_t **self_p, void (*release)(void *value))
{
    size_t cursor = 0;
    for (void *value; *self_p && (value = crema_map_next(*self_p, &cursor)) != NULL;)
        release(value);
    crema_map_destroy(self_p);
}

static crema_err_t
s_grow(crema_map_t *self)
{
    slot_t *old = self->slots;
    size_t old_slots = self->mask + 1;
    slot_t *slots = calloc(old_slots * 2, sizeof *slots);
    if (!slots)
        return CREMA_ENOMEM;
    self->slots = slots;
    self->mask = old_slots * 2 - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].value)
            self->slots[s_probe(self, &old[i].key)] = old[i];
    free(old);
    return CREMA_OK;
}

crema_err_t
crema_map_add(crema_map_t *self, const crema_id_t *key, void *value)
{
    if (!value)
        return CREMA_EINVAL;
    if (self->slots[s_probe(self, key)].value)
        return CREMA_EREPEAT;
    if (self->count >= self->entries_max)
        return CREMA_ELIMIT;
    if ((self->count + 1) * 4 > (self->mask + 1) * 3 && s_grow(self) != CREMA_OK)
        return CREMA_ENOMEM;
    self->slots[s_probe(self, key)] = (slot_t){*key, value};
    self->count++;
    return CREMA_OK;
}

void *
crema_map_make(crema_map_t *self, const crema_id_t *key, size_t bytes, crema_err_t *ret_err)
{
    void *value = calloc(1, bytes);
    *ret_err = value ? crema_map_add(self, key, value) : CREMA_ENOMEM;
    if (*ret_err == CREMA_OK)
        return value;
    free(value);
    return NULL;
}

void *
crema_map_find(const crema_map_t *self, const crema_id_t *key)
{
    return self->slots[s_probe(self, key)].value;
}

void *
crema_map_take(crema_map_t *self, const crema_id_t *key)
{
    size_t hole = s_probe(self, key);
    void *value = self->slots[hole].value;
    if (!value)
        return NULL;
    self->slots[hole].value = NULL;
    self->count--;
    /* Later entries of the chain move back unless their home is after the hole: probing must not
     * meet a free slot too early. */
    for (size_t i = (hole + 1) & self->mask; self->slots[i].value; i = (i + 1) & self->mask) {
        size_t home = s_home(self, &self->slots[i].key);
        if (((i - home) & self->mask) < ((i - hole) & self->mask))
            continue;
        self->slots[hole] = self->slots[i];
        self->slots[i].value = NULL;
        hole = i;
    }
    return value;
}

size_t
crema_map_count(const crema_map_t *self)
{
    return self->count;
}

void *
crema_map_next(const crema_map_t *self, size_t *cursor)
{
    while (*cursor <= self->mask) {
        void *value = self->slots[(*cursor)++].value;
        if (value)
            return value;
    }
    return NULL;
}
