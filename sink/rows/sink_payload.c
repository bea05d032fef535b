#include "sink_payload.h"

#include <sodium.h>
#include <stdlib.h>

#include "sink_sha.h"

_Static_assert(SINK_PAYLOAD_BYTES == crypto_hash_sha256_BYTES, "the checksum fits");

struct sink_payload {
    crypto_hash_sha256_state state; /* its `count` is in bits */
    bool fast;
};

crema_err_t
sink_payload_new(sink_payload_t **ret_self)
{
    sink_payload_t *self = malloc(sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crypto_hash_sha256_init(&self->state);
    self->fast = sink_sha_is_fast();
    *ret_self = self;
    return CREMA_OK;
}

void
sink_payload_add(sink_payload_t *self, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    const size_t held = self->state.count / 8 % SINK_SHA_BLOCK;
    const size_t first = held > 0 ? SINK_SHA_BLOCK - held : 0; /* to the end of a block */
    if (self->fast && size >= first + SINK_SHA_BLOCK) {
        const size_t n = (size - first) / SINK_SHA_BLOCK, middle = n * SINK_SHA_BLOCK;
        crypto_hash_sha256_update(&self->state, at, first);
        sink_sha_blocks(self->state.state, at + first, n);
        self->state.count += 8 * (uint64_t)middle;
        at += first + middle;
        size -= first + middle;
    }
    crypto_hash_sha256_update(&self->state, at, size);
}

void
sink_payload_end(sink_payload_t **self_p, uint8_t ret_sha256[SINK_PAYLOAD_BYTES])
{
    crypto_hash_sha256_final(&(*self_p)->state, ret_sha256);
    sink_payload_destroy(self_p);
}

void
sink_payload_destroy(sink_payload_t **self_p)
{
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
