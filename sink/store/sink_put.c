#include "sink_put.h"

#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"

/* The first number a frame stands for; *ret_loss is filled in if it is a LOSS of a range. */
static uint64_t
s_first_of(const crema_frame_t *frame, crema_arena_t *arena, Crema__Loss *ret_loss)
{
    crema_record_t record;
    *ret_loss = (Crema__Loss){0};
    if (frame->type != CREMA_RECORD_LOSS ||
        crema_record_decode(frame, arena, &record) != CREMA_OK || record.loss.last != frame->seq ||
        record.loss.first > record.loss.last)
        return frame->seq;
    *ret_loss = record.loss;
    return record.loss.first;
}

crema_err_t
sink_put_check(const Crema__Put *put, crema_arena_t *arena, sink_put_range_t *ret_range)
{
    sink_put_range_t range = {0};
    uint64_t due = put->first_seq;
    size_t at = 0;
    if (due == 0)
        return CREMA_EPROTO;
    while (at < put->frames.len) {
        crema_frame_t frame;
        Crema__Loss loss;
        if (range.closed ||
            crema_frame_decode(put->frames.data + at, put->frames.len - at, &frame) != CREMA_OK ||
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

/* The frames from `at` on, with the LOSS at `at` shortened to begin at `from`. */
static crema_err_t
s_cut_loss(const Crema__Put *put, size_t at, const crema_frame_t *frame, Crema__Loss loss,
           uint64_t from, sink_put_rest_t *rest)
{
    size_t behind = at + crema_frame_bytes(frame);
    size_t room = crema_frame_bytes(frame) + 64, used;
    uint8_t *owned = malloc(room + put->frames.len - behind);
    if (!owned)
        return CREMA_ENOMEM;
    loss.first = from;
    crema_record_t record = {.type = CREMA_RECORD_LOSS, .loss = loss};
    crema_err_t err = crema_record_encode(&record, frame->seq, frame->t_ns, owned, room, &used);
    if (err != CREMA_OK) {
        free(owned);
        return err;
    }
    memcpy(owned + used, put->frames.data + behind, put->frames.len - behind);
    rest->owned = owned;
    rest->frames = owned;
    rest->frames_bytes = used + put->frames.len - behind;
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
sink_put_cut(const Crema__Put *put, uint64_t from, crema_arena_t *arena, sink_put_rest_t *ret_rest)
{
    sink_put_rest_t rest = {.first_seq = from};
    size_t at = 0;
    crema_frame_t frame;
    do {
        if (crema_frame_decode(put->frames.data + at, put->frames.len - at, &frame) != CREMA_OK)
            return CREMA_EPROTO;
        if (frame.seq >= from)
            break;
        at += crema_frame_bytes(&frame);
    } while (true);
    Crema__Loss loss;
    crema_err_t err = CREMA_OK;
    if (s_first_of(&frame, arena, &loss) < from) {
        err = s_cut_loss(put, at, &frame, loss, from, &rest);
    } else {
        rest.frames = put->frames.data + at;
        rest.frames_bytes = put->frames.len - at;
    }
    if (err != CREMA_OK)
        return err;
    rest.n = s_count(rest.frames, rest.frames_bytes);
    *ret_rest = rest;
    return CREMA_OK;
}

/* ---- a run that has reached its limit */

#define LOSS_ROOM ((size_t)CREMA_FRAME_HEADER_BYTES + 64)

/* Frames being assembled: records that are kept, and LOSS records for the rest. */
typedef struct {
    uint8_t *bytes;
    size_t used, room;
    uint32_t n;
    uint64_t first, last; /* lost numbers not yet written; first 0: none */
    int64_t t_ns;         /* time of the last of them */
    uint64_t lost_bytes;
} losing_t;

static crema_err_t
s_write_loss(losing_t *self, int64_t t_real_ns)
{
    size_t used;
    if (self->first == 0)
        return CREMA_OK;
    crema_record_t record = {.type = CREMA_RECORD_LOSS,
                             .loss = {.first = self->first,
                                      .last = self->last,
                                      .reason = CREMA_LOSS_DISK_FULL,
                                      .bytes = self->lost_bytes,
                                      .t_real_ns = t_real_ns}};
    crema_err_t err = crema_record_encode(&record, self->last, self->t_ns, self->bytes + self->used,
                                          self->room - self->used, &used);
    if (err != CREMA_OK)
        return err;
    self->used += used;
    self->n++;
    self->first = 0;
    self->lost_bytes = 0;
    return CREMA_OK;
}

static crema_err_t
s_lose_frame(losing_t *self, const uint8_t *at, const crema_frame_t *frame, int64_t t_real_ns)
{
    size_t bytes = crema_frame_bytes(frame);
    bool stays = frame->type == CREMA_RECORD_STREAM || frame->type == CREMA_RECORD_END ||
                 frame->type == CREMA_RECORD_LOSS;
    if (!stays) {
        if (self->first == 0)
            self->first = frame->seq;
        self->last = frame->seq;
        self->t_ns = frame->t_ns;
        self->lost_bytes += bytes;
        return CREMA_OK;
    }
    crema_err_t err = s_write_loss(self, t_real_ns);
    if (err == CREMA_OK && bytes > self->room - self->used)
        err = CREMA_ELIMIT;
    if (err != CREMA_OK)
        return err;
    memcpy(self->bytes + self->used, at, bytes);
    self->used += bytes;
    self->n++;
    return CREMA_OK;
}

crema_err_t
sink_put_lose(sink_put_rest_t *rest, int64_t t_real_ns)
{
    losing_t self = {.room = rest->frames_bytes + ((size_t)rest->n + 1) * LOSS_ROOM};
    self.bytes = malloc(self.room);
    crema_err_t err = self.bytes ? CREMA_OK : CREMA_ENOMEM;
    crema_frame_t frame;
    for (size_t at = 0; err == CREMA_OK && at < rest->frames_bytes;
         at += crema_frame_bytes(&frame)) {
        err = crema_frame_decode(rest->frames + at, rest->frames_bytes - at, &frame);
        if (err == CREMA_OK)
            err = s_lose_frame(&self, rest->frames + at, &frame, t_real_ns);
    }
    if (err == CREMA_OK)
        err = s_write_loss(&self, t_real_ns);
    if (err != CREMA_OK) {
        free(self.bytes);
        return err;
    }
    free(rest->owned);
    *rest = (sink_put_rest_t){self.bytes, self.used, self.n, rest->first_seq, self.bytes};
    return CREMA_OK;
}

bool
sink_put_names_other_run(const Crema__Put *put, crema_arena_t *arena)
{
    crema_frame_t frame;
    crema_record_t record;
    return put->first_seq == 1 &&
           crema_frame_decode(put->frames.data, put->frames.len, &frame) == CREMA_OK &&
           frame.type == CREMA_RECORD_STREAM &&
           crema_record_decode(&frame, arena, &record) == CREMA_OK &&
           !crema_id_equal(crema_id_of(record.stream.run_id), crema_id_of(put->run_id));
}

/* Decodes lengths and types only: the journal frame's checksum covers the content. */
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
