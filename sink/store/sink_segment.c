#include "sink_segment.h"

#include <stddef.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_wire.h"

/* ---- bodies */

_Static_assert(sizeof(sink_header_t) == SINK_HEADER_BODY_BYTES, "as on disk");
_Static_assert(offsetof(sink_journal_put_t, frames) == SINK_PUT_HEAD_BYTES, "as on disk");
_Static_assert(offsetof(sink_journal_sealed_t, t_real_ns) == SINK_SEALED_BODY_BYTES, "as on disk");
_Static_assert(sizeof(sink_journal_state_t) == SINK_STATE_BODY_BYTES, "as on disk");
_Static_assert(sizeof(sink_journal_mark_t) == SINK_MARK_BYTES, "as on disk");

bool
sink_header_decode(const crema_frame_t *frame, sink_header_t *ret_header)
{
    if (frame->type != SINK_JOURNAL_HEADER || frame->len != SINK_HEADER_BODY_BYTES)
        return false;
    memcpy(ret_header, frame->body, SINK_HEADER_BODY_BYTES);
    return true;
}

bool
sink_put_decode(const crema_frame_t *frame, sink_journal_put_t *ret_put)
{
    if (frame->len < SINK_PUT_HEAD_BYTES)
        return false;
    memcpy(ret_put, frame->body, SINK_PUT_HEAD_BYTES);
    ret_put->frames = frame->body + SINK_PUT_HEAD_BYTES;
    ret_put->frames_bytes = frame->len - SINK_PUT_HEAD_BYTES;
    ret_put->t_recv_ns = frame->t_ns;
    return true;
}

static bool
s_sealed_decode(const crema_frame_t *frame, sink_journal_sealed_t *ret_sealed)
{
    if (frame->len != SINK_SEALED_BODY_BYTES)
        return false;
    memcpy(ret_sealed, frame->body, SINK_SEALED_BODY_BYTES);
    ret_sealed->t_real_ns = frame->t_ns;
    return true;
}

/* ---- checkpoints */

bool
sink_state_decode(const crema_frame_t *frame, sink_journal_state_t *ret_state)
{
    if (frame->type != SINK_JOURNAL_CHECKPOINT || frame->len < SINK_STATE_BODY_BYTES)
        return false;
    memcpy(ret_state, frame->body, SINK_STATE_BODY_BYTES);
    return true;
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
    memcpy(body, state, SINK_STATE_BODY_BYTES);
    crema_frame_encode(&frame, out);
    out += crema_frame_bytes(&frame);
    for (uint64_t done = 0; done < state->n_marks;) {
        uint64_t left = state->n_marks - done;
        size_t n = left < SINK_MARKS_PER_FRAME ? (size_t)left : SINK_MARKS_PER_FRAME;
        body = out + CREMA_FRAME_HEADER_BYTES;
        crema_put_u64(body, done);
        memcpy(body + SINK_MARKS_HEAD_BYTES, &marks[done], n * SINK_MARK_BYTES);
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
        return visitor->writers ? visitor->writers(visitor->context, &msg.run_writers) : CREMA_OK;
    *ret_understood = msg.type == CREMA_MSG_RUN_OPEN || msg.type == CREMA_MSG_RUN_END ||
                      msg.type == CREMA_MSG_RUN_SEAL;
    return *ret_understood && visitor->run ? visitor->run(visitor->context, &msg) : CREMA_OK;
}

static crema_err_t
s_visit_marks(const crema_frame_t *frame, const sink_journal_visitor_t *visitor)
{
    crema_err_t err = CREMA_OK;
    size_t n = visitor->mark ? s_marks_in(frame) : 0;
    for (size_t i = 0; i < n && err == CREMA_OK; i++) {
        sink_journal_mark_t mark;
        memcpy(&mark, frame->body + SINK_MARKS_HEAD_BYTES + i * SINK_MARK_BYTES, sizeof mark);
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
