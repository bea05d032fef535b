#include "sink_payload.h"

#include <sodium.h>
#include <stdlib.h>

_Static_assert(SINK_PAYLOAD_BYTES == crypto_hash_sha256_BYTES, "the checksum fits");

struct sink_payload {
    crypto_hash_sha256_state state;
};

crema_err_t
sink_payload_new(sink_payload_t **ret_self)
{
    sink_payload_t *self = malloc(sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crypto_hash_sha256_init(&self->state);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_payload_add(sink_payload_t *self, const void *bytes, size_t size)
{
    crypto_hash_sha256_update(&self->state, bytes, size);
}

void
sink_payload_end(sink_payload_t **self_p, uint8_t ret_sha256[SINK_PAYLOAD_BYTES])
{
    crypto_hash_sha256_final(&(*self_p)->state, ret_sha256);
    free(*self_p);
    *self_p = NULL;
}

void
sink_payload_hex(const uint8_t sha256[SINK_PAYLOAD_BYTES], char text[2 * SINK_PAYLOAD_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SINK_PAYLOAD_BYTES; i++) {
        text[2 * i] = digits[sha256[i] >> 4];
        text[2 * i + 1] = digits[sha256[i] & 15];
    }
    text[2 * SINK_PAYLOAD_BYTES] = '\0';
}
