#include "sink_put.h"

#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"

/* The first number that a frame stands for; *ret_loss is filled in if it is a LOSS that covers a range. */
static uint64_t
s_first_of(const crema_frame_t *frame, crema_arena_t *arena, crema_loss_t *ret_loss)
{
    crema_record_t record;
    *ret_loss = (crema_loss_t){0};
    if (frame->type != CREMA_RECORD_LOSS ||
        crema_record_decode(frame, arena, &record) != CREMA_OK || record.loss.last != frame->seq ||
        record.loss.first > record.loss.last)
        return frame->seq;
    *ret_loss = record.loss;
    return record.loss.first;
}

crema_err_t
sink_put_check(const crema_data_t *put, crema_arena_t *arena, sink_put_range_t *ret_range)
{
    sink_put_range_t range = {0};
    uint64_t due = put->first_seq;
    size_t at = 0;
    if (due == 0)
        return CREMA_EPROTO;
    while (at < put->frames_bytes) {
        crema_frame_t frame;
        crema_loss_t loss;
        if (range.closed ||
            crema_frame_decode(put->frames + at, put->frames_bytes - at, &frame) != CREMA_OK ||
            s_first_of(&frame, arena, &loss) != due || frame.seq == UINT64_MAX)
            return CREMA_EPROTO;
        at += crema_frame_bytes(&frame);
        due = frame.seq + 1;
        range.last_seq = frame.seq;
        range.frames++;
        range.closed = frame.type == CREMA_RECORD_END;
    }
    uint64_t numbers = due - put->first_seq;
    if (range.frames == 0 || (put->n != range.frames && put->n != numbers) || numbers > UINT32_MAX)
        return CREMA_EPROTO;
    *ret_range = range;
    return CREMA_OK;
}

/* The frames from `at` on, with the LOSS that lies there shortened to begin at `from`. */
static crema_err_t
s_cut_loss(const crema_data_t *put, size_t at, const crema_frame_t *frame, crema_loss_t loss,
           uint64_t from, sink_put_rest_t *rest)
{
    size_t behind = at + crema_frame_bytes(frame);
    size_t room = crema_frame_bytes(frame) + 64, used;
    uint8_t *owned = malloc(room + put->frames_bytes - behind);
    if (!owned)
        return CREMA_ENOMEM;
    loss.first = from;
    crema_record_t record = {.type = CREMA_RECORD_LOSS, .loss = loss};
    crema_err_t err = crema_record_encode(&record, frame->seq, frame->t_ns, owned, room, &used);
    if (err != CREMA_OK) {
        free(owned);
        return err;
    }
    memcpy(owned + used, put->frames + behind, put->frames_bytes - behind);
    rest->owned = owned;
    rest->frames = owned;
    rest->frames_bytes = used + put->frames_bytes - behind;
    return CREMA_OK;
}

static uint32_t
s_count(const uint8_t *frames, size_t size)
{
    uint32_t n = 0;
    crema_frame_t frame;
    for (size_t at = 0; at < size && crema_frame_decode(frames + at, size - at, &frame) == CREMA_OK;
         at += crema_frame_bytes(&frame))
        n++;
    return n;
}

crema_err_t
sink_put_cut(const crema_data_t *put, uint64_t from, crema_arena_t *arena,
             sink_put_rest_t *ret_rest)
{
    sink_put_rest_t rest = {.first_seq = from};
    size_t at = 0;
    crema_frame_t frame;
    do {
        if (crema_frame_decode(put->frames + at, put->frames_bytes - at, &frame) != CREMA_OK)
            return CREMA_EPROTO;
        if (frame.seq >= from)
            break;
        at += crema_frame_bytes(&frame);
    } while (true);
    crema_loss_t loss;
    crema_err_t err = CREMA_OK;
    if (s_first_of(&frame, arena, &loss) < from) {
        err = s_cut_loss(put, at, &frame, loss, from, &rest);
    } else {
        rest.frames = put->frames + at;
        rest.frames_bytes = put->frames_bytes - at;
    }
    if (err != CREMA_OK)
        return err;
    rest.n = s_count(rest.frames, rest.frames_bytes);
    *ret_rest = rest;
    return CREMA_OK;
}

/* Lengths and types only: the checksum of the journal's frame covers them. */
crema_err_t
sink_put_last(const uint8_t *frames, size_t size, uint64_t *ret_last, bool *ret_closed)
{
    size_t at = 0;
    while (size - at >= CREMA_FRAME_HEADER_BYTES) {
        const uint8_t *header = frames + at;
        size_t bytes = CREMA_FRAME_HEADER_BYTES + (size_t)crema_get_u32(header + 4);
        if (bytes > size - at)
            break;
        at += bytes;
        if (at == size) {
            *ret_last = crema_get_u64(header + 8);
            *ret_closed = crema_get_u16(header + 24) == CREMA_RECORD_END;
            return CREMA_OK;
        }
    }
    return CREMA_EPROTO;
}
