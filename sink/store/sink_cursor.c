#include "sink_cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_segment.h"
#include "sink_segments.h"

#define WINDOW_BYTES ((size_t)64 << 10)
#define WINDOW_BYTES_MAX ((size_t)4 << 20) /* larger than any frame */

/* ---- positions */

sink_journal_position_t
sink_cursor_position(const sink_cursor_t *self)
{
    return (sink_journal_position_t){self->segment, self->at + self->offset};
}

uint64_t
sink_cursor_left(const sink_cursor_t *self)
{
    return self->size - self->at - self->offset;
}

uint64_t
sink_cursor_damaged(const sink_cursor_t *self)
{
    return self->damaged + self->skipped;
}

void
sink_cursor_skip(sink_cursor_t *self)
{
    self->skipped += sink_cursor_left(self);
    self->at = self->size;
    self->offset = self->n = 0;
}

/* ---- the window */

/* Gives back the memory, and stays where it is. */
static void
s_release(sink_cursor_t *self)
{
    free(self->window);
    self->window = NULL;
    self->at += self->offset;
    self->offset = self->n = self->room = 0;
}

/* No further frame is in the window: moves it on to the beginning of the next one, and enlarges it
 * if it holds no whole frame. */
static crema_err_t
s_move(sink_cursor_t *self)
{
    bool stuck = self->offset == 0 && self->n > 0 && self->n == self->room;
    size_t room = self->room ? self->room : WINDOW_BYTES;
    if (stuck && room >= WINDOW_BYTES_MAX) { /* damage longer than any frame */
        self->offset = self->n / 2;
        self->skipped += self->offset;
    } else if (stuck) {
        room *= 2;
    }
    uint8_t *grown = realloc(self->window, room);
    if (!grown)
        return CREMA_ENOMEM;
    self->window = grown;
    self->room = room;
    self->at += self->offset;
    self->n -= self->offset;
    memmove(grown, grown + self->offset, self->n);
    self->offset = 0;
    const uint64_t next = self->at + self->n, left = self->size - next;
    const size_t more = left < room - self->n ? (size_t)left : room - self->n;
    crema_err_t err = sink_unread_read_at(self->path, next, grown + self->n, more, &self->unread);
    if (err != CREMA_OK)
        return err == CREMA_ENOENT ? CREMA_EIO : err;
    self->n += more;
    return CREMA_OK;
}

/* ---- segments */

/* How long the segment is, as far as it is read; one that is no regular file has at least one byte
 * that cannot be read. */
static void
s_look(sink_cursor_t *self)
{
    struct stat st;
    uint64_t size = 0;
    sink_segments_path(self->dir, self->segment, self->path);
    const bool is_seen = lstat(self->path, &st) == 0;
    self->is_there = is_seen || errno != ENOENT;
    if (is_seen)
        size = st.st_size > 0 || S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 1;
    else if (self->is_there)
        size = 1;
    if (self->segment == self->until.segment && size > self->until.bytes)
        size = self->until.bytes;
    if (size >= self->at + self->offset)
        self->size = size;
}

static void
s_next_segment(sink_cursor_t *self)
{
    sink_cursor_skip(self);
    self->bytes += self->size;
    self->damaged += self->skipped;
    self->missing += !self->is_there;
    self->unread.failed = 0;
    self->at = self->size = self->skipped = 0;
    self->segment++;
    s_look(self);
}

void
sink_cursor_begin(sink_cursor_t *self, const char *dir, uint32_t segment)
{
    *self = (sink_cursor_t){.dir = dir, .until.segment = segment, .segment = segment};
}

void
sink_cursor_clear(sink_cursor_t *self)
{
    free(self->window);
    *self = (sink_cursor_t){0};
}

void
sink_cursor_extend(sink_cursor_t *self, sink_journal_position_t until)
{
    self->until = until;
    if (until.bytes == SINK_CURSOR_ALL) /* what was not synced may have been undone */
        s_release(self);
    s_look(self);
}

/* The next frame in the window. What is in a frame that continues behind the window is not searched
 * for frames: writers decide what that is. */
static bool
s_find(sink_cursor_t *self, crema_frame_t *ret_frame)
{
    const size_t from = self->offset;
    size_t skipped;
    if (sink_segment_next(self->window, self->n, &self->offset, ret_frame, &skipped) != CREMA_OK)
        return false;
    crema_frame_t cut;
    if (skipped > 0 && self->at + self->n < self->size &&
        crema_frame_decode(self->window + from, self->n - from, &cut) == CREMA_EMORE) {
        self->offset = from;
        return false;
    }
    self->skipped += skipped;
    return true;
}

crema_err_t
sink_cursor_next(sink_cursor_t *self, crema_frame_t *ret_frame)
{
    const uint64_t damaged = sink_cursor_damaged(self);
    crema_err_t err;
    while (!s_find(self, ret_frame)) {
        if (self->pauses && sink_cursor_damaged(self) > damaged)
            return CREMA_EAGAIN;
        if (self->at + self->n < self->size) {
            err = s_move(self);
            if (err != CREMA_OK)
                return err;
        } else if (self->segment < self->until.segment) {
            s_next_segment(self);
        } else {
            if (self->until.bytes != SINK_CURSOR_ALL)
                sink_cursor_skip(self);
            s_release(self);
            return CREMA_ENOENT;
        }
    }
    return CREMA_OK;
}
