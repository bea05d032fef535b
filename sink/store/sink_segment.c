#include "sink_segment.h"

#include <string.h>

#include "crema_bytes.h"
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

bool
sink_put_decode(const crema_frame_t *frame, sink_journal_put_t *ret_put)
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

/* ---- checkpoints */

#define STATE_SEAL_ASKED 1u
#define STATE_LATE 2u
#define MARK_CLOSED 1u

static void
s_state_encode(const sink_journal_state_t *state, uint8_t out[SINK_STATE_BODY_BYTES])
{
    crema_put_u64(out, state->next_frame);
    crema_put_u64(out + 8, (uint64_t)state->revision);
    crema_put_u64(out + 16, (uint64_t)state->t_sealed_ns);
    crema_put_u64(out + 24, (uint64_t)state->age_sealed_ns);
    crema_put_u32(out + 32, state->said_open);
    crema_put_u32(out + 36, state->said_end);
    crema_put_u32(out + 40, state->said_seal);
    crema_put_u32(out + 44,
                  (state->seal_asked ? STATE_SEAL_ASKED : 0) | (state->late ? STATE_LATE : 0));
    crema_put_u64(out + 48, state->n_marks);
    crema_put_u32(out + 56, state->life);
    crema_put_u32(out + 60, 0);
    memcpy(out + 64, state->owner.bytes, CREMA_ID_BYTES);
    memcpy(out + 80, state->agent_key, CREMA_WIRE_KEY_BYTES);
}

bool
sink_state_decode(const crema_frame_t *frame, sink_journal_state_t *ret_state)
{
    if (frame->type != SINK_JOURNAL_CHECKPOINT || frame->len < SINK_STATE_BODY_BYTES)
        return false;
    const uint8_t *in = frame->body;
    uint32_t flags = crema_get_u32(in + 44);
    *ret_state = (sink_journal_state_t){
        .next_frame = crema_get_u64(in),
        .revision = (int64_t)crema_get_u64(in + 8),
        .t_sealed_ns = (int64_t)crema_get_u64(in + 16),
        .age_sealed_ns = (int64_t)crema_get_u64(in + 24),
        .said_open = crema_get_u32(in + 32),
        .said_end = crema_get_u32(in + 36),
        .said_seal = crema_get_u32(in + 40),
        .seal_asked = (flags & STATE_SEAL_ASKED) != 0,
        .late = (flags & STATE_LATE) != 0,
        .n_marks = crema_get_u64(in + 48),
        .life = crema_get_u32(in + 56),
    };
    memcpy(ret_state->owner.bytes, in + 64, CREMA_ID_BYTES);
    memcpy(ret_state->agent_key, in + 80, CREMA_WIRE_KEY_BYTES);
    return true;
}

static void
s_mark_encode(const sink_journal_mark_t *mark, uint8_t *out)
{
    memcpy(out, mark->stream_id.bytes, CREMA_ID_BYTES);
    crema_put_u64(out + 16, mark->committed);
    crema_put_u64(out + 24, mark->hi);
    crema_put_u32(out + 32, mark->closed ? MARK_CLOSED : 0);
    crema_put_u32(out + 36, 0);
}

static sink_journal_mark_t
s_mark_decode(const uint8_t *in)
{
    sink_journal_mark_t mark = {
        .committed = crema_get_u64(in + 16),
        .hi = crema_get_u64(in + 24),
        .closed = (crema_get_u32(in + 32) & MARK_CLOSED) != 0,
    };
    memcpy(mark.stream_id.bytes, in, CREMA_ID_BYTES);
    return mark;
}

static size_t
s_marks_in(const crema_frame_t *frame)
{
    return frame->len < SINK_MARKS_HEAD_BYTES
               ? 0
               : (frame->len - SINK_MARKS_HEAD_BYTES) / SINK_MARK_BYTES;
}

size_t
sink_checkpoint_bytes(uint64_t n_marks)
{
    size_t frames = ((size_t)n_marks + SINK_MARKS_PER_FRAME - 1) / SINK_MARKS_PER_FRAME;
    return CREMA_FRAME_HEADER_BYTES + SINK_STATE_BODY_BYTES +
           frames * (CREMA_FRAME_HEADER_BYTES + SINK_MARKS_HEAD_BYTES) +
           (size_t)n_marks * SINK_MARK_BYTES;
}

void
sink_checkpoint_encode(const sink_journal_state_t *state, const sink_journal_mark_t *marks,
                       uint8_t *out)
{
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    crema_frame_t frame = {
        .type = SINK_JOURNAL_CHECKPOINT, .len = SINK_STATE_BODY_BYTES, .body = body};
    s_state_encode(state, body);
    crema_frame_encode(&frame, out);
    out += crema_frame_bytes(&frame);
    for (uint64_t done = 0; done < state->n_marks;) {
        uint64_t left = state->n_marks - done;
        size_t n = left < SINK_MARKS_PER_FRAME ? (size_t)left : SINK_MARKS_PER_FRAME;
        body = out + CREMA_FRAME_HEADER_BYTES;
        crema_put_u64(body, done);
        for (size_t i = 0; i < n; i++)
            s_mark_encode(&marks[done + i], body + SINK_MARKS_HEAD_BYTES + i * SINK_MARK_BYTES);
        frame = (crema_frame_t){.type = SINK_JOURNAL_MARKS,
                                .len = (uint32_t)(SINK_MARKS_HEAD_BYTES + n * SINK_MARK_BYTES),
                                .body = body};
        crema_frame_encode(&frame, out);
        out += crema_frame_bytes(&frame);
        done += n;
    }
}

crema_err_t
sink_checkpoint_find(const uint8_t *bytes, size_t size, sink_journal_state_t *ret_state,
                     size_t *ret_end)
{
    sink_journal_state_t state;
    crema_frame_t frame;
    size_t at = SINK_SEGMENT_HEADER_BYTES;
    if (size <= at || crema_frame_decode(bytes + at, size - at, &frame) != CREMA_OK ||
        !sink_state_decode(&frame, &state))
        return CREMA_ENOENT;
    at += crema_frame_bytes(&frame);
    for (uint64_t done = 0; done < state.n_marks; at += crema_frame_bytes(&frame)) {
        if (crema_frame_decode(bytes + at, size - at, &frame) != CREMA_OK ||
            frame.type != SINK_JOURNAL_MARKS || s_marks_in(&frame) == 0 ||
            crema_get_u64(frame.body) != done)
            return CREMA_ENOENT;
        done += s_marks_in(&frame);
    }
    *ret_state = state;
    *ret_end = at;
    return CREMA_OK;
}

/* ---- finding and visiting */

bool
sink_segment_is_head(uint16_t type)
{
    return type == SINK_JOURNAL_HEADER || type == SINK_JOURNAL_CHECKPOINT ||
           type == SINK_JOURNAL_MARKS;
}

static bool
s_is_journal_type(uint16_t type)
{
    return type >= SINK_JOURNAL_HEADER && type <= SINK_JOURNAL_MARKS;
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
    return CREMA_ENOENT;
}

size_t
sink_segment_sound(const uint8_t *bytes, size_t size)
{
    size_t offset = size > SINK_SEGMENT_HEADER_BYTES ? SINK_SEGMENT_HEADER_BYTES : 0;
    size_t skipped, hole = SIZE_MAX;
    crema_frame_t frame;
    while (sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK) {
        size_t before = offset - crema_frame_bytes(&frame) - skipped;
        if (frame.flags & SINK_FRAME_BEGINS_GROUP)
            hole = SIZE_MAX;
        else if (skipped > 0 && before < hole)
            hole = before;
    }
    return hole < offset ? hole : offset;
}

static crema_err_t
s_visit_message(const crema_frame_t *frame, const sink_journal_visitor_t *visitor,
                crema_arena_t *arena, bool *ret_understood)
{
    crema_msg_t msg;
    *ret_understood = crema_wire_decode_kept(frame->body, frame->len, arena, &msg) == CREMA_OK;
    if (!*ret_understood)
        return CREMA_OK;
    if (frame->type == SINK_JOURNAL_CLOCK) {
        *ret_understood = msg.type == CREMA_MSG_CLOCK;
        return *ret_understood && visitor->clock ? visitor->clock(visitor->context, &msg.clock)
                                                 : CREMA_OK;
    }
    if (msg.type == CREMA_MSG_RUN_WRITERS)
        return visitor->writers ? visitor->writers(visitor->context, &msg.writers) : CREMA_OK;
    *ret_understood = msg.type == CREMA_MSG_RUN_OPEN || msg.type == CREMA_MSG_RUN_END ||
                      msg.type == CREMA_MSG_RUN_SEAL;
    return *ret_understood && visitor->run ? visitor->run(visitor->context, msg.type, &msg.run)
                                           : CREMA_OK;
}

static crema_err_t
s_visit_marks(const crema_frame_t *frame, const sink_journal_visitor_t *visitor)
{
    crema_err_t err = CREMA_OK;
    size_t n = visitor->mark ? s_marks_in(frame) : 0;
    for (size_t i = 0; i < n && err == CREMA_OK; i++) {
        sink_journal_mark_t mark =
            s_mark_decode(frame->body + SINK_MARKS_HEAD_BYTES + i * SINK_MARK_BYTES);
        err = visitor->mark(visitor->context, &mark);
    }
    return err;
}

crema_err_t
sink_segment_visit(const crema_frame_t *frame, const sink_journal_visitor_t *visitor,
                   crema_arena_t *arena, bool *ret_understood)
{
    sink_journal_put_t put;
    sink_journal_sealed_t sealed;
    sink_journal_state_t state;
    sink_header_t header;
    switch (frame->type) {
    case SINK_JOURNAL_PUT:
        *ret_understood = sink_put_decode(frame, &put);
        return *ret_understood && visitor->put ? visitor->put(visitor->context, &put) : CREMA_OK;
    case SINK_JOURNAL_SEALED:
        *ret_understood = s_sealed_decode(frame, &sealed);
        return *ret_understood && visitor->sealed ? visitor->sealed(visitor->context, &sealed)
                                                  : CREMA_OK;
    case SINK_JOURNAL_RUN:
    case SINK_JOURNAL_CLOCK:
        return s_visit_message(frame, visitor, arena, ret_understood);
    case SINK_JOURNAL_CHECKPOINT:
        *ret_understood = sink_state_decode(frame, &state);
        return *ret_understood && visitor->state ? visitor->state(visitor->context, &state)
                                                 : CREMA_OK;
    case SINK_JOURNAL_MARKS:
        *ret_understood = true;
        return s_visit_marks(frame, visitor);
    default:
        *ret_understood = sink_header_decode(frame, &header);
        return CREMA_OK;
    }
}
