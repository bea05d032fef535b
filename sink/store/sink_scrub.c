#include "sink_scrub.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_put.h"
#include "sink_segment.h"
#include "sink_segments.h"
#include "sink_window.h"

#define PIECE_BYTES ((uint64_t)2 << 20)

struct sink_scrub {
    char *dir;
    crema_id_t run_id;
    sink_commit_t *marks;
    uint32_t segment; /* being read */
    uint64_t next_seq;
    sink_scrub_found_t found; /* in the segments before */
    sink_window_t window;
    sink_unread_t unread;
    char path[PATH_MAX];
};

crema_err_t
sink_scrub_new(const char *dir, const crema_id_t *run_id, size_t streams_max,
               sink_scrub_t **ret_self)
{
    sink_scrub_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->run_id = *run_id;
    self->segment = 1;
    self->next_seq = 1;
    self->dir = strdup(dir);
    crema_err_t err = self->dir ? sink_commit_new(streams_max, &self->marks) : CREMA_ENOMEM;
    if (err != CREMA_OK)
        sink_scrub_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_scrub_destroy(sink_scrub_t **self_p)
{
    sink_scrub_t *self = *self_p;
    if (self) {
        sink_window_clear(&self->window);
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
    self->found.missing_frames += seq - self->next_seq;
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

/* Gets the current size of the segment. A missing file was set aside or never written to: the
 * frame numbers show which. */
static crema_err_t
s_look(sink_scrub_t *self)
{
    struct stat st;
    if (stat(sink_segments_path(self->dir, self->segment, self->path), &st) != 0) {
        if (errno != ENOENT)
            return CREMA_EIO;
        st.st_size = 0;
    }
    self->window.path = self->path;
    self->window.unread = &self->unread;
    if ((uint64_t)st.st_size >= self->window.at + self->window.offset)
        self->window.size = (uint64_t)st.st_size;
    return CREMA_OK;
}

static void
s_next_segment(sink_scrub_t *self)
{
    self->found = sink_scrub_found(self);
    sink_window_clear(&self->window);
    self->segment++;
}

crema_err_t
sink_scrub_read(sink_scrub_t *self, uint32_t newest, bool *ret_end)
{
    uint64_t read = 0;
    crema_frame_t frame;
    *ret_end = false;
    crema_err_t err = s_look(self);
    while (err == CREMA_OK && read < PIECE_BYTES) {
        err = sink_window_next(&self->window, &frame);
        read += err == CREMA_OK ? crema_frame_bytes(&frame) : PIECE_BYTES / 8;
        if (err == CREMA_OK) {
            err = s_take(self, &frame);
        } else if (err == CREMA_ENOENT && self->segment >= newest) {
            *ret_end = true;
            return CREMA_OK;
        } else if (err == CREMA_ENOENT) {
            s_next_segment(self);
            err = s_look(self);
        }
    }
    return err;
}

sink_scrub_found_t
sink_scrub_found(const sink_scrub_t *self)
{
    sink_scrub_found_t found = self->found;
    found.damaged_bytes += self->window.skipped + sink_window_left(&self->window);
    return found;
}

const sink_unread_t *
sink_scrub_unread(const sink_scrub_t *self)
{
    return &self->unread;
}

const sink_commit_t *
sink_scrub_marks(const sink_scrub_t *self)
{
    return self->marks;
}
