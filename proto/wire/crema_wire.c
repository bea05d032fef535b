/* The envelope. */
#include "crema_wire.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
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

crema_err_t
crema_wire_encode(const crema_msg_t *msg, uint8_t **ret_bytes, size_t *ret_size)
{
    const crema_wire_kind_t *kind = crema_wire_kind(msg->type);
    if (!kind)
        return CREMA_EINVAL;
    crema_wire_body_t body;
    crema_wire_encoder_t encoder = {0};
    crema_wire_fill(&encoder, &kind->layout, msg, &body);
    uint8_t *bytes = NULL;
    size_t body_len = 0;
    if (encoder.err == CREMA_OK) {
        body_len = protobuf_c_message_get_packed_size(&body.base);
        if (body_len > CREMA_WIRE_MESSAGE_MAX - CREMA_WIRE_HEADER_BYTES)
            encoder.err = CREMA_ELIMIT;
    }
    if (encoder.err == CREMA_OK) {
        bytes = malloc(CREMA_WIRE_HEADER_BYTES + body_len);
        encoder.err = bytes ? CREMA_OK : CREMA_ENOMEM;
    }
    if (bytes) {
        protobuf_c_message_pack(&body.base, bytes + CREMA_WIRE_HEADER_BYTES);
        s_put_envelope(msg, bytes, body_len);
        *ret_bytes = bytes;
        *ret_size = CREMA_WIRE_HEADER_BYTES + body_len;
    }
    crema_arena_destroy(&encoder.scratch);
    return encoder.err;
}

static crema_err_t
s_decode_body(const crema_wire_kind_t *kind, const uint8_t *body, size_t len, crema_arena_t *arena,
              crema_msg_t *ret)
{
    crema_arena_begin(arena, len);
    if (crema_wire_unpack(&kind->layout, body, len, arena, ret) && crema_wire_is_sound(ret))
        return CREMA_OK;
    return crema_arena_refused(arena) ? CREMA_ELIMIT : CREMA_EPROTO;
}

/* `kept`: of any version; journals have envelopes of 40 bytes too. */
static crema_err_t
s_decode(const uint8_t *bytes, size_t size, bool kept, crema_arena_t *arena, crema_msg_t *ret_msg)
{
    const uint8_t version_min = kept ? CREMA_WIRE_VERSION_KEPT_MIN : CREMA_WIRE_VERSION_MIN;
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
    if (body_len + CREMA_WIRE_HEADER_BYTES != size &&
        !(kept && body_len + CREMA_WIRE_HEADER_BYTES_KEPT == size))
        return CREMA_EPROTO;
    if (crema_get_u32(bytes + AT_CRC) != s_crc(bytes, size))
        return CREMA_ECRC;
    const crema_wire_kind_t *kind = crema_wire_kind(msg.type);
    if (!kind)
        return CREMA_EPROTO;
    msg.flags = crema_get_u16(bytes + AT_FLAGS);
    msg.session = crema_get_u64(bytes + AT_SESSION);
    crema_err_t err = s_decode_body(kind, bytes + size - body_len, body_len, arena, &msg);
    if (err == CREMA_OK)
        *ret_msg = msg;
    return err;
}

crema_err_t
crema_wire_decode(const uint8_t *bytes, size_t size, crema_arena_t *arena, crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, false, arena, ret_msg);
}

crema_err_t
crema_wire_decode_kept(const uint8_t *bytes, size_t size, crema_arena_t *arena,
                       crema_msg_t *ret_msg)
{
    return s_decode(bytes, size, true, arena, ret_msg);
}
