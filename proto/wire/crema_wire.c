/* The envelope, and what a type of message requires. */
#include "crema_wire.h"

#include <assert.h>

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "crema_wire_private.h"

/* Offsets of the envelope's fields. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 5,
    AT_FLAGS = 6,
    AT_BODY_LEN = 8,
    AT_CRC = 12,
    AT_SESSION = 16,
};

typedef struct {
    crema_msg_type_t type;
    const char *name;
    const ProtobufCMessageDescriptor *body;
} kind_t;

static const kind_t c_kinds[] = {
#define X(type, number, body) {CREMA_MSG_##type, #type, &crema__##body##__descriptor},
    CREMA_MESSAGES(X)
#undef X
};

/* NULL: not a type of message. */
static const kind_t *
s_kind(crema_msg_type_t type)
{
    for (size_t i = 0; i < sizeof c_kinds / sizeof *c_kinds; i++)
        if (c_kinds[i].type == type)
            return &c_kinds[i];
    return NULL;
}

const char *
crema_msg_name(crema_msg_type_t type)
{
    const kind_t *kind = s_kind(type);
    return kind ? kind->name : "?";
}

const char *
crema_msg_attribute(const Crema__RunOpen *open, const char *name)
{
    for (size_t i = 0; i < open->n_keys && i < open->n_values; i++)
        if (strcmp(open->keys[i], name) == 0)
            return open->values[i];
    return "";
}

/* What RUN_OPEN, RUN_END and RUN_SEAL have in common is where crema_msg_t says. */
#define IS_COMMON(a, b, field)                                                                     \
    static_assert(offsetof(a, field) == offsetof(b, field), "declared in another order")
#define ARE_COMMON(message)                                                                        \
    IS_COMMON(Crema__RunOpen, message, run_id);                                                    \
    IS_COMMON(Crema__RunOpen, message, t_start_ns);                                                \
    IS_COMMON(Crema__RunOpen, message, t_end_ns);                                                  \
    IS_COMMON(Crema__RunOpen, message, values);                                                    \
    IS_COMMON(Crema__RunOpen, message, keys);                                                      \
    IS_COMMON(Crema__RunOpen, message, processor_prefixes);                                        \
    IS_COMMON(Crema__RunOpen, message, owner)
ARE_COMMON(Crema__RunEnd);
ARE_COMMON(Crema__RunSeal);
IS_COMMON(Crema__RunEnd, Crema__RunSeal, writer_parts);

static uint32_t
s_crc(const uint8_t *bytes, size_t size)
{
    uint32_t crc = libdeflate_crc32(0, bytes, AT_CRC);
    return libdeflate_crc32(crc, bytes + AT_SESSION, size - AT_SESSION);
}

static void
s_put_envelope(const crema_msg_t *msg, uint8_t *out, size_t body_len)
{
    crema_put_u32(out + AT_MAGIC, CREMA_WIRE_MAGIC);
    out[AT_VERSION] = CREMA_WIRE_VERSION;
    out[AT_TYPE] = (uint8_t)msg->type;
    crema_put_u16(out + AT_FLAGS, msg->flags);
    crema_put_u32(out + AT_BODY_LEN, (uint32_t)body_len);
    crema_put_u64(out + AT_SESSION, msg->session);
    crema_put_u32(out + AT_CRC, s_crc(out, CREMA_WIRE_HEADER_BYTES + body_len));
}

static size_t
s_frames_bytes(const crema_msg_t *msg)
{
    return msg->type == CREMA_MSG_DATA  ? msg->data.frames.len
           : msg->type == CREMA_MSG_PUT ? msg->put.frames.len
                                        : 0;
}

crema_err_t
crema_wire_encode(const crema_msg_t *msg, uint8_t **ret_bytes, size_t *ret_size)
{
    const kind_t *kind = s_kind(msg->type);
    if (!kind)
        return CREMA_EINVAL;
    crema_msg_t own = *msg;
    own.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(kind->body);
    const size_t body_len = protobuf_c_message_get_packed_size(&own.base);
    if (s_frames_bytes(msg) > CREMA_WIRE_BATCH_MAX ||
        body_len > CREMA_WIRE_MESSAGE_MAX - CREMA_WIRE_HEADER_BYTES)
        return CREMA_ELIMIT;
    uint8_t *bytes = malloc(CREMA_WIRE_HEADER_BYTES + body_len);
    if (!bytes)
        return CREMA_ENOMEM;
    protobuf_c_message_pack(&own.base, bytes + CREMA_WIRE_HEADER_BYTES);
    s_put_envelope(msg, bytes, body_len);
    *ret_bytes = bytes;
    *ret_size = CREMA_WIRE_HEADER_BYTES + body_len;
    return CREMA_OK;
}

/* n frames from first on, each at least a header long, and numbers that do not wrap. */
static bool
s_are_frames(uint64_t first_seq, uint32_t n, ProtobufCBinaryData frames)
{
    uint64_t end;
    return first_seq >= 1 && n >= 1 && n <= frames.len / CREMA_FRAME_HEADER_BYTES &&
           !__builtin_add_overflow(first_seq, n, &end);
}

static bool
s_is_part(uint32_t part, uint32_t parts)
{
    return part < parts && parts <= CREMA_WIRE_WRITER_PARTS_MAX;
}

/* Checks what a type requires of a body whose fields are sound. */
static bool
s_is_sound(const crema_msg_t *msg)
{
    const Crema__Data *data = &msg->data;
    const Crema__Put *put = &msg->put;
    switch (msg->type) {
    case CREMA_MSG_HELLO:
        return msg->hello.agent_id.len > 0;
    case CREMA_MSG_DATA:
        return data->stream_id.len > 0 && data->run_id.len > 0 &&
               s_are_frames(data->first_seq, data->n, data->frames);
    case CREMA_MSG_PUT:
        return put->stream_id.len > 0 && put->run_id.len > 0 &&
               s_are_frames(put->first_seq, put->n, put->frames);
    case CREMA_MSG_REPLAY:
        return msg->replay.stream_id.len > 0 && msg->replay.from_seq >= 1;
    case CREMA_MSG_NACK:
        return msg->nack.stream_id.len > 0;
    case CREMA_MSG_CLOCK:
        return msg->clock.run_id.len > 0 && msg->clock.agent_id.len > 0;
    case CREMA_MSG_RUN_OPEN:
    case CREMA_MSG_RUN_END:
    case CREMA_MSG_RUN_SEAL:
        return msg->run_id.len > 0 && msg->run_open.n_keys == msg->run_open.n_values;
    case CREMA_MSG_RUN_WRITERS:
        return msg->run_id.len > 0 && s_is_part(msg->run_writers.part, msg->run_writers.parts);
    case CREMA_MSG_RUN_LISTED:
        return msg->run_id.len > 0 && s_is_part(msg->run_listed.part, msg->run_listed.parts);
    case CREMA_MSG_RUN_QUERY:
    case CREMA_MSG_RUN_STATE:
    case CREMA_MSG_SEALED:
        return msg->run_id.len > 0;
    default:
        return true;
    }
}

static crema_err_t
s_decode_body(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size,
              crema_arena_t *arena, crema_msg_t *ret)
{
    crema_arena_begin(arena, size);
    const ProtobufCMessage *body = crema_wire_unpack(descriptor, bytes, size, arena);
    if (body)
        memcpy(ret, body, descriptor->sizeof_message);
    if (body && s_is_sound(ret))
        return CREMA_OK;
    return crema_arena_refused(arena) ? CREMA_ELIMIT : CREMA_EPROTO;
}

static crema_err_t
s_decode(const uint8_t *bytes, size_t size, uint8_t version_min, crema_arena_t *arena,
         crema_msg_t *ret_msg)
{
    if (size < CREMA_WIRE_HEADER_BYTES || crema_get_u32(bytes + AT_MAGIC) != CREMA_WIRE_MAGIC)
        return CREMA_EMAGIC;
    crema_msg_t msg = {.type = (crema_msg_type_t)bytes[AT_TYPE]};
    if (bytes[AT_VERSION] < version_min || bytes[AT_VERSION] > CREMA_WIRE_VERSION) {
        ret_msg->type = msg.type;
        return CREMA_EVERSION;
    }
    if (size > CREMA_WIRE_MESSAGE_MAX)
        return CREMA_ELIMIT;
    const size_t body_len = crema_get_u32(bytes + AT_BODY_LEN);
    if (body_len + CREMA_WIRE_HEADER_BYTES != size)
        return CREMA_EPROTO;
    if (crema_get_u32(bytes + AT_CRC) != s_crc(bytes, size))
        return CREMA_ECRC;
    const kind_t *kind = s_kind(msg.type);
    if (!kind)
        return CREMA_EPROTO;
    msg.flags = crema_get_u16(bytes + AT_FLAGS);
    msg.session = crema_get_u64(bytes + AT_SESSION);
    crema_err_t err =
        s_decode_body(kind->body, bytes + CREMA_WIRE_HEADER_BYTES, body_len, arena, &msg);
    if (err == CREMA_OK)
        *ret_msg = msg;
    return err;
}

crema_err_t
crema_wire_decode(const uint8_t *bytes, size_t size, crema_arena_t *arena, crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, CREMA_WIRE_VERSION_MIN, arena, ret_msg);
}

crema_err_t
crema_wire_decode_kept(const uint8_t *bytes, size_t size, crema_arena_t *arena,
                       crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, CREMA_WIRE_VERSION_KEPT_MIN, arena, ret_msg);
}

crema_err_t
crema_msg_copy(const crema_msg_t *msg, crema_msg_t **ret_copy)
{
    uint8_t *bytes;
    size_t size;
    crema_err_t err = crema_wire_encode(msg, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    const ProtobufCMessageDescriptor *descriptor = s_kind(msg->type)->body;
    crema_msg_t *copy = malloc(sizeof *copy);
    ProtobufCMessage *body = protobuf_c_message_unpack(
        descriptor, NULL, size - CREMA_WIRE_HEADER_BYTES, bytes + CREMA_WIRE_HEADER_BYTES);
    free(bytes);
    if (!copy || !body) {
        if (body)
            protobuf_c_message_free_unpacked(body, NULL);
        free(copy);
        return CREMA_ENOMEM;
    }
    *copy = *msg;
    memcpy(copy, body, descriptor->sizeof_message);
    free(body);
    *ret_copy = copy;
    return CREMA_OK;
}

#define MALLOC_BYTES 16 /* what an allocation costs besides its content */

static size_t
s_value_bytes(const ProtobufCFieldDescriptor *field, const void *value)
{
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)value ? strlen(*(char *const *)value) + 1 + MALLOC_BYTES : 0;
    return ((const ProtobufCBinaryData *)value)->len + MALLOC_BYTES;
}

static size_t
s_value_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint64_t); /* the largest number */
    }
}

static size_t
s_body_bytes(const ProtobufCMessageDescriptor *descriptor, const void *body)
{
    size_t bytes = descriptor->sizeof_message + MALLOC_BYTES;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        const char *at = (const char *)body + field->offset;
        bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = 1, size = s_value_size(field);
        if (is_list) {
            memcpy(&n, (const char *)body + field->quantifier_offset, sizeof n);
            at = *(char *const *)at;
            bytes += n * size + MALLOC_BYTES;
        }
        bool is_text =
            field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES;
        for (size_t k = 0; is_text && k < n; k++)
            bytes += s_value_bytes(field, at + k * size);
        for (size_t k = 0; field->type == PROTOBUF_C_TYPE_MESSAGE && k < n; k++)
            if (((void *const *)at)[k])
                bytes += s_body_bytes(field->descriptor, ((void *const *)at)[k]);
    }
    return bytes;
}

size_t
crema_msg_bytes(const crema_msg_t *msg)
{
    return s_body_bytes(s_kind(msg->type)->body, &msg->base);
}

void
crema_msg_destroy(crema_msg_t **self_p)
{
    static_assert(offsetof(crema_msg_t, base) == 0, "the body's memory is that of the message");
    if (*self_p)
        protobuf_c_message_free_unpacked(&(*self_p)->base, NULL);
    *self_p = NULL;
}
