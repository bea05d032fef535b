#include "crema_frame.h"

#include <libdeflate.h>
#include <string.h>

#include "crema_bytes.h"

/* Offsets of the header's fields. */
enum {
    AT_MAGIC = 0,
    AT_LEN = 4,
    AT_SEQ = 8,
    AT_T_NS = 16,
    AT_TYPE = 24,
    AT_FLAGS = 26,
    AT_CRC = 28,
};

/* crema_frame_find() gives up after checksumming this many bytes of damaged frames: only bytes
 * made to waste time contain that many false starts. */
#define FIND_WORK_MAX (64u << 20)

static uint32_t
s_crc(const uint8_t *header, const uint8_t *body, uint32_t len)
{
    uint32_t crc = libdeflate_crc32(0, header, AT_CRC);
    return len ? libdeflate_crc32(crc, body, len) : crc;
}

size_t
crema_frame_bytes(const crema_frame_t *frame)
{
    return CREMA_FRAME_HEADER_BYTES + (size_t)frame->len;
}

void
crema_frame_encode(const crema_frame_t *frame, uint8_t *out)
{
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    if (frame->len && frame->body != body)
        memmove(body, frame->body, frame->len);
    crema_put_u32(out + AT_MAGIC, CREMA_FRAME_MAGIC);
    crema_put_u32(out + AT_LEN, frame->len);
    crema_put_u64(out + AT_SEQ, frame->seq);
    crema_put_u64(out + AT_T_NS, (uint64_t)frame->t_ns);
    crema_put_u16(out + AT_TYPE, frame->type);
    crema_put_u16(out + AT_FLAGS, frame->flags);
    crema_put_u32(out + AT_CRC, s_crc(out, body, frame->len));
}

bool
crema_frame_look(const uint8_t *buf, size_t avail, crema_frame_t *ret_frame)
{
    const size_t bytes = crema_frame_peek(buf, avail);
    if (bytes == 0 || bytes > avail)
        return false;
    *ret_frame = (crema_frame_t){
        .seq = crema_get_u64(buf + AT_SEQ),
        .t_ns = (int64_t)crema_get_u64(buf + AT_T_NS),
        .type = crema_get_u16(buf + AT_TYPE),
        .flags = crema_get_u16(buf + AT_FLAGS),
        .len = crema_get_u32(buf + AT_LEN),
        .body = buf + CREMA_FRAME_HEADER_BYTES,
    };
    return true;
}

crema_err_t
crema_frame_decode(const uint8_t *buf, size_t avail, crema_frame_t *ret_frame)
{
    if (avail == 0)
        return CREMA_EMORE;
    uint8_t magic[4];
    crema_put_u32(magic, CREMA_FRAME_MAGIC);
    if (memcmp(buf, magic, avail < sizeof magic ? avail : sizeof magic) != 0)
        return CREMA_EMAGIC;
    if (avail >= AT_SEQ && crema_get_u32(buf + AT_LEN) > CREMA_FRAME_BODY_MAX)
        return CREMA_EMAGIC;
    crema_frame_t frame;
    if (!crema_frame_look(buf, avail, &frame))
        return CREMA_EMORE;
    if (s_crc(buf, frame.body, frame.len) != crema_get_u32(buf + AT_CRC)) {
        ret_frame->len = frame.len;
        ret_frame->seq = frame.seq;
        return CREMA_ECRC;
    }
    *ret_frame = frame;
    return CREMA_OK;
}

size_t
crema_frame_peek(const uint8_t *buf, size_t avail)
{
    if (avail < CREMA_FRAME_HEADER_BYTES || crema_get_u32(buf + AT_MAGIC) != CREMA_FRAME_MAGIC)
        return 0;
    return CREMA_FRAME_HEADER_BYTES + (size_t)crema_get_u32(buf + AT_LEN);
}

size_t
crema_frame_find(const uint8_t *buf, size_t avail, size_t from)
{
    size_t work = 0;
    while (from < avail && work < FIND_WORK_MAX) {
        const uint8_t *hit = memchr(buf + from, CREMA_FRAME_MAGIC & 0xff, avail - from);
        if (!hit)
            return avail;
        from = (size_t)(hit - buf);
        crema_frame_t frame;
        crema_err_t err = crema_frame_decode(hit, avail - from, &frame);
        if (err == CREMA_OK)
            return from;
        if (err == CREMA_ECRC)
            work += crema_frame_bytes(&frame);
        from++;
    }
    return avail;
}
