/* Decoding of bodies: what is checked of all fields alike, once, before anything else sees them. */
#include <string.h>

#include "crema_utf8.h"
#include "crema_wire.h"
#include "crema_wire_private.h"

static void *
s_alloc(void *arena, size_t size)
{
    return crema_arena_take(arena, size);
}

static void
s_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

static bool
s_are_texts(size_t n, char *const *texts)
{
    for (size_t i = 0; i < n; i++)
        if (!crema_utf8_valid(texts[i], strlen(texts[i])))
            return false;
    return true;
}

/* All bytes but frames are an id or a key. */
static bool
s_are_bytes(const char *name, ProtobufCBinaryData *field)
{
    static const uint8_t c_zeros[CREMA_WIRE_KEY_BYTES];
    if (strcmp(name, "frames") == 0)
        return field->len <= CREMA_WIRE_BATCH_MAX;
    if (field->len == 0)
        return true;
    if (field->len != (strcmp(name, "agent_key") == 0 ? CREMA_WIRE_KEY_BYTES : CREMA_ID_BYTES))
        return false;
    if (memcmp(field->data, c_zeros, field->len) == 0)
        field->len = 0;
    return true;
}

static bool
s_is_column(size_t column, size_t rows)
{
    return column == 0 || column == rows;
}

static bool
s_is_table(const Crema__StreamTable *table)
{
    size_t n = crema_stream_table_rows(table);
    return table->stream_ids.len == n * CREMA_ID_BYTES && n <= CREMA_WIRE_TABLE_ROWS_MAX &&
           s_is_column(table->run_ids.len, n * CREMA_ID_BYTES) &&
           s_is_column(table->n_first_avail, n) && s_is_column(table->n_hi, n) &&
           s_is_column(table->n_committed, n) && s_is_column(table->n_recv_next, n) &&
           s_is_column(table->n_flags, n) && s_is_column(table->n_users, n);
}

static bool s_are_sound(size_t n, ProtobufCMessage *const *bodies);

static bool
s_is_sound_field(const ProtobufCFieldDescriptor *field, uint8_t *body)
{
    void *values = body + field->offset;
    size_t n = 1;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        n = *(const size_t *)(body + field->quantifier_offset);
        values = *(void *const *)values;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return s_are_texts(n, values);
    case PROTOBUF_C_TYPE_BYTES:
        return s_are_bytes(field->name, values);
    case PROTOBUF_C_TYPE_MESSAGE:
        return s_are_sound(n, values);
    default:
        return true;
    }
}

/* NULL, a message that is not there, is sound. */
static bool
s_are_sound(size_t n, ProtobufCMessage *const *bodies)
{
    for (size_t i = 0; i < n; i++) {
        ProtobufCMessage *body = bodies[i];
        if (!body)
            continue;
        const ProtobufCMessageDescriptor *descriptor = body->descriptor;
        body->n_unknown_fields = 0; /* those of newer versions are not passed on */
        if (descriptor == &crema__stream_table__descriptor) {
            if (!s_is_table((const Crema__StreamTable *)body))
                return false;
            continue;
        }
        for (unsigned k = 0; k < descriptor->n_fields; k++)
            if (!s_is_sound_field(&descriptor->fields[k], (uint8_t *)body))
                return false;
    }
    return true;
}

ProtobufCMessage *
crema_wire_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size,
                  crema_arena_t *arena)
{
    ProtobufCAllocator allocator = {s_alloc, s_free, arena};
    ProtobufCMessage *body = protobuf_c_message_unpack(descriptor, &allocator, size, bytes);
    return body && s_are_sound(1, &body) ? body : NULL;
}
