#include "agg_frames.h"

#include "crema_frame.h"

typedef struct {
    size_t size;
    uint64_t first, last;
    bool is_loss;
} header_t;

/* The frame at the current position; false if it is incomplete or out of sequence. */
static bool
s_look(const agg_frames_t *self, header_t *ret_header)
{
    crema_frame_t frame;
    if (!crema_frame_look(self->at, self->left, &frame))
        return false;
    bool is_loss = frame.type == CREMA_RECORD_LOSS;
    if (frame.seq < self->next || frame.seq > UINT64_MAX / 2 ||
        (frame.seq > self->next && !is_loss))
        return false;
    *ret_header = (header_t){crema_frame_bytes(&frame), self->next, frame.seq, is_loss};
    return true;
}

static void
s_step(agg_frames_t *self, const header_t *header)
{
    self->at += header->size;
    self->left -= header->size;
    self->next = header->last + 1;
}

crema_err_t
agg_frames_check(const uint8_t *bytes, size_t size, uint32_t n, uint64_t first_seq,
                 uint64_t *ret_last)
{
    agg_frames_t walk = {bytes, size, first_seq};
    if (n < 1 || first_seq < 1)
        return CREMA_EPROTO;
    for (uint32_t i = 0; i < n; i++) {
        header_t header;
        if (!s_look(&walk, &header))
            return CREMA_EPROTO;
        s_step(&walk, &header);
    }
    if (walk.left != 0)
        return CREMA_EPROTO;
    *ret_last = walk.next - 1;
    return CREMA_OK;
}

void
agg_frames_skip(agg_frames_t *self, uint64_t from)
{
    header_t header;
    while (s_look(self, &header) && header.last < from)
        s_step(self, &header);
    if (self->next < from)
        self->next = from; /* inside a LOSS */
}

bool
agg_frames_take(agg_frames_t *self, agg_piece_t *ret_piece)
{
    header_t header;
    if (!s_look(self, &header))
        return false;
    *ret_piece = (agg_piece_t){.bytes = self->at, .first = self->next};
    do {
        s_step(self, &header);
        ret_piece->size += header.size;
        ret_piece->last = header.last;
        ret_piece->n++;
    } while (!header.is_loss && s_look(self, &header) && !header.is_loss);
    return true;
}
