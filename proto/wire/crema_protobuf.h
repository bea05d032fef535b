/* crema_protobuf - conversions between protobuf-c's fields and crema's, for the codecs of
 * records and messages.
 *
 * Decoding takes all memory from an arena. Encoding borrows its input, hence the casts that drop
 * const. */
#ifndef CREMA_PROTOBUF_H
#define CREMA_PROTOBUF_H

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "crema_arena.h"
#include "crema_id.h"
#include "crema_utf8.h"

static inline void *
crema_protobuf_alloc(void *arena, size_t size)
{
    return crema_arena_take(arena, size);
}

static inline void
crema_protobuf_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

/* An allocator on the arena; crema_arena_refused() tells afterwards whether it ran out. */
static inline ProtobufCAllocator
crema_protobuf_allocator(crema_arena_t *arena)
{
    return (ProtobufCAllocator){crema_protobuf_alloc, crema_protobuf_free, arena};
}

static inline bool
crema_protobuf_is_text(const char *text)
{
    return crema_utf8_valid(text, strlen(text));
}

/* True if the field holds an id; a zero id is encoded as an empty field. */
static inline bool
crema_protobuf_take_id(const ProtobufCBinaryData *field, crema_id_t *ret_id)
{
    memset(ret_id, 0, sizeof *ret_id);
    if (field->len == CREMA_ID_BYTES)
        memcpy(ret_id->bytes, field->data, CREMA_ID_BYTES);
    return field->len == CREMA_ID_BYTES || field->len == 0;
}

static inline char *
crema_protobuf_text(const char *text)
{
    return (char *)(text ? text : "");
}

static inline ProtobufCBinaryData
crema_protobuf_id(const crema_id_t *id)
{
    size_t bytes = crema_id_is_zero(id) ? 0 : CREMA_ID_BYTES;
    return (ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)id->bytes};
}

#endif
