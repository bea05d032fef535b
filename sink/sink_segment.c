#include "sink_segment.h"

#include <string.h>

#include "crema_bytes.h"
#include "crema_mutant.h"
#include "crema_wire.h"

#define PUT_LATE 1u

/* ---- bodies */

void
sink_header_encode(const sink_header_t *header, uint8_t out[SINK_HEADER_BODY_BYTES])
{
    memcpy(out, header->store_id.bytes, CREMA_ID_BYTES);
    memcpy(out + 16, header->run_id.bytes, CREMA_ID_BYTES);
    crema_put_u64(out + 32, header->generation);
}

bool
sink_header_decode(const crema_frame_t *frame, sink_header_t *ret_header)
{
    if (frame->type != SINK_JOURNAL_HEADER || frame->len != SINK_HEADER_BODY_BYTES)
        return false;
    memcpy(ret_header->store_id.bytes, frame->body, CREMA_ID_BYTES);
    memcpy(ret_header->run_id.bytes, frame->body + 16, CREMA_ID_BYTES);
    ret_header->generation = crema_get_u64(frame->body + 32);
    return true;
}

void
sink_put_head_encode(const sink_journal_put_t *put, uint8_t out[SINK_PUT_HEAD_BYTES])
{
    memcpy(out, put->stream_id.bytes, CREMA_ID_BYTES);
    memcpy(out + 16, put->agent_id.bytes, CREMA_ID_BYTES);
    crema_put_u64(out + 32, put->first_seq);
    crema_put_u32(out + 40, put->n);
    crema_put_u32(out + 44, put->late ? PUT_LATE : 0);
}

static bool
s_put_decode(const crema_frame_t *frame, sink_journal_put_t *ret_put)
{
    if (frame->len < SINK_PUT_HEAD_BYTES)
        return false;
    sink_journal_put_t put = {
        .first_seq = crema_get_u64(frame->body + 32),
        .n = crema_get_u32(frame->body + 40),
        .late = (crema_get_u32(frame->body + 44) & PUT_LATE) != 0,
        .frames = frame->body + SINK_PUT_HEAD_BYTES,
        .frames_bytes = frame->len - SINK_PUT_HEAD_BYTES,
        .t_recv_ns = frame->t_ns,
    };
    memcpy(put.stream_id.bytes, frame->body, CREMA_ID_BYTES);
    memcpy(put.agent_id.bytes, frame->body + 16, CREMA_ID_BYTES);
    *ret_put = put;
    return true;
}

void
sink_sealed_encode(const sink_journal_sealed_t *sealed, uint8_t out[SINK_SEALED_BODY_BYTES])
{
    crema_put_u64(out, (uint64_t)sealed->revision);
    crema_put_u64(out + 8, sealed->file_bytes);
    memcpy(out + 16, sealed->sha256, sizeof sealed->sha256);
}

static bool
s_sealed_decode(const crema_frame_t *frame, sink_journal_sealed_t *ret_sealed)
{
    if (frame->len != SINK_SEALED_BODY_BYTES)
        return false;
    ret_sealed->revision = (int64_t)crema_get_u64(frame->body);
    ret_sealed->file_bytes = crema_get_u64(frame->body + 8);
    ret_sealed->t_real_ns = frame->t_ns;
    memcpy(ret_sealed->sha256, frame->body + 16, sizeof ret_sealed->sha256);
    return true;
}

/* ---- finding and visiting */

static bool
s_is_journal_type(uint16_t type)
{
    return type >= SINK_JOURNAL_HEADER && type <= SINK_TOMBSTONES_FRAME;
}

crema_err_t
sink_segment_next(const uint8_t *bytes, size_t size, size_t *offset, crema_frame_t *ret_frame,
                  size_t *ret_skipped)
{
    size_t at = *offset;
    while (at < size) {
        crema_frame_t frame;
        if (crema_frame_decode(bytes + at, size - at, &frame) != CREMA_OK) {
            at = crema_frame_find(bytes, size, at + 1);
            continue;
        }
        if (s_is_journal_type(frame.type)) {
            *ret_skipped = at - *offset;
            *offset = at + crema_frame_bytes(&frame);
            *ret_frame = frame;
            return CREMA_OK;
        }
        at += crema_frame_bytes(&frame);
    }
    *ret_skipped = size - *offset;
    return CREMA_ENOENT;
}

size_t
sink_segment_sound(const uint8_t *bytes, size_t size)
{
    size_t offset = 0, skipped, hole = SIZE_MAX;
    crema_frame_t frame;
    while (sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK) {
        size_t before = offset - crema_frame_bytes(&frame) - skipped;
        if (frame.flags & SINK_FRAME_BEGINS_GROUP)
            hole = SIZE_MAX;
        else if (skipped > 0 && before < hole)
            hole = before;
    }
    return hole < offset && !CREMA_MUTATED(17) ? hole : offset;
}

static crema_err_t
s_visit_message(const crema_frame_t *frame, const sink_journal_visitor_t *visitor,
                crema_arena_t *arena, bool *ret_understood)
{
    crema_msg_t msg;
    *ret_understood = crema_wire_decode(frame->body, frame->len, arena, &msg) == CREMA_OK;
    if (!*ret_understood)
        return CREMA_OK;
    if (frame->type == SINK_JOURNAL_CLOCK) {
        *ret_understood = msg.type == CREMA_MSG_CLOCK;
        return *ret_understood && visitor->clock ? visitor->clock(visitor->context, &msg.clock)
                                                 : CREMA_OK;
    }
    *ret_understood = msg.type == CREMA_MSG_RUN_OPEN || msg.type == CREMA_MSG_RUN_END ||
                      msg.type == CREMA_MSG_RUN_SEAL;
    return *ret_understood && visitor->run ? visitor->run(visitor->context, msg.type, &msg.run)
                                           : CREMA_OK;
}

crema_err_t
sink_segment_visit(const crema_frame_t *frame, const sink_journal_visitor_t *visitor,
                   crema_arena_t *arena, bool *ret_understood)
{
    sink_journal_put_t put;
    sink_journal_sealed_t sealed;
    sink_header_t header;
    switch (frame->type) {
    case SINK_JOURNAL_PUT:
        *ret_understood = s_put_decode(frame, &put);
        return *ret_understood && visitor->put ? visitor->put(visitor->context, &put) : CREMA_OK;
    case SINK_JOURNAL_SEALED:
        *ret_understood = s_sealed_decode(frame, &sealed);
        return *ret_understood && visitor->sealed ? visitor->sealed(visitor->context, &sealed)
                                                  : CREMA_OK;
    case SINK_JOURNAL_RUN:
    case SINK_JOURNAL_CLOCK:
        return s_visit_message(frame, visitor, arena, ret_understood);
    default:
        *ret_understood = sink_header_decode(frame, &header);
        return CREMA_OK;
    }
}
