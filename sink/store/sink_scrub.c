#include "sink_scrub.h"

#include <stdlib.h>
#include <string.h>

#include "sink_cursor.h"
#include "sink_put.h"
#include "sink_segment.h"

#define PIECE_BYTES ((uint64_t)2 << 20)

struct sink_scrub {
    char *dir;
    crema_id_t run_id;
    sink_commit_t *marks;
    uint64_t next_seq;
    uint64_t missing_frames;
    sink_cursor_t cursor;
};

crema_err_t
sink_scrub_new(const char *dir, const crema_id_t *run_id, size_t streams_max,
               sink_scrub_t **ret_self)
{
    sink_scrub_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->run_id = *run_id;
    self->next_seq = 1;
    self->dir = strdup(dir);
    crema_err_t err = self->dir ? sink_commit_new(streams_max, &self->marks) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        sink_scrub_destroy(&self);
        return err;
    }
    sink_cursor_begin(&self->cursor, self->dir, 1);
    self->cursor.pauses = true;
    *ret_self = self;
    return err;
}

void
sink_scrub_destroy(sink_scrub_t **self_p)
{
    sink_scrub_t *self = *self_p;
    if (self) {
        sink_cursor_clear(&self->cursor);
        sink_commit_destroy(&self->marks);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}

static void
s_expect(sink_scrub_t *self, uint64_t seq)
{
    if (seq <= self->next_seq)
        return;
    self->missing_frames += seq - self->next_seq;
    self->next_seq = seq;
}

static crema_err_t
s_take(sink_scrub_t *self, const crema_frame_t *frame)
{
    sink_journal_state_t state;
    sink_journal_put_t put;
    uint64_t last;
    bool closed;
    if (sink_state_decode(frame, &state))
        s_expect(self, state.next_frame);
    if (sink_segment_is_head(frame->type) || frame->seq < self->next_seq)
        return CREMA_OK;
    s_expect(self, frame->seq);
    self->next_seq = frame->seq + 1;
    if (frame->type != SINK_JOURNAL_PUT || !sink_put_decode(frame, &put) ||
        sink_put_last(put.frames, put.frames_bytes, &last, &closed) != CREMA_OK)
        return CREMA_OK;
    return sink_commit_restore_put(self->marks, &put.stream_id, &self->run_id, put.first_seq, last,
                                   closed);
}

crema_err_t
sink_scrub_read(sink_scrub_t *self, uint32_t newest, bool *ret_end)
{
    crema_err_t err = CREMA_OK;
    crema_frame_t frame;
    *ret_end = false;
    sink_cursor_extend(&self->cursor, (sink_journal_position_t){newest, SINK_CURSOR_ALL});
    for (uint64_t read = 0; err == CREMA_OK && read < PIECE_BYTES;) {
        err = sink_cursor_next(&self->cursor, &frame);
        *ret_end = err == CREMA_ENOENT;
        if (*ret_end || err == CREMA_EAGAIN)
            return CREMA_OK;
        if (err == CREMA_OK)
            err = s_take(self, &frame);
        if (err == CREMA_OK)
            read += crema_frame_bytes(&frame);
    }
    return err;
}

sink_scrub_found_t
sink_scrub_found(const sink_scrub_t *self)
{
    return (sink_scrub_found_t){
        .damaged_bytes = sink_cursor_damaged(&self->cursor) + sink_cursor_left(&self->cursor),
        .missing_frames = self->missing_frames,
    };
}

const sink_unread_t *
sink_scrub_unread(const sink_scrub_t *self)
{
    return &self->cursor.unread;
}

const sink_commit_t *
sink_scrub_marks(const sink_scrub_t *self)
{
    return self->marks;
}
