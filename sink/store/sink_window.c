#include "sink_window.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sink_fs.h"
#include "sink_segment.h"

#define BYTES ((size_t)64 << 10)
#define BYTES_MAX ((size_t)4 << 20) /* larger than any frame */

crema_err_t
sink_window_open(const char *path, sink_window_t *ret_self)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return sink_fs_error(errno);
    *ret_self = (sink_window_t){.path = path, .size = (uint64_t)st.st_size};
    return CREMA_OK;
}

uint64_t
sink_window_left(const sink_window_t *self)
{
    return self->size - self->at - self->offset;
}

void
sink_window_clear(sink_window_t *self)
{
    free(self->bytes);
    *self = (sink_window_t){0};
}

/* No further frame fits into the rest of the window: moves the window, and enlarges it if it
 * holds no whole frame. */
static crema_err_t
s_move(sink_window_t *self)
{
    bool stuck = self->offset == 0 && self->n > 0 && self->n == self->room;
    size_t room = self->room ? self->room : BYTES;
    if (stuck && room >= BYTES_MAX) { /* damage longer than any frame */
        self->offset = self->n / 2;
        self->skipped += self->offset;
    } else if (stuck) {
        room *= 2;
    }
    uint8_t *grown = realloc(self->bytes, room);
    if (!grown)
        return CREMA_ENOMEM;
    self->bytes = grown;
    self->room = room;
    self->at += self->offset;
    self->offset = 0;
    uint64_t left = self->size - self->at;
    self->n = left < room ? (size_t)left : room;
    crema_err_t err =
        self->unread ? sink_unread_read_at(self->path, self->at, self->bytes, self->n, self->unread)
                     : sink_fs_read_at(self->path, self->at, self->bytes, self->n);
    return err == CREMA_ENOENT ? CREMA_EIO : err;
}

crema_err_t
sink_window_next(sink_window_t *self, crema_frame_t *ret_frame)
{
    while (true) {
        size_t skipped;
        if (sink_segment_next(self->bytes, self->n, &self->offset, ret_frame, &skipped) ==
            CREMA_OK) {
            self->skipped += skipped;
            return CREMA_OK;
        }
        uint64_t left = sink_window_left(self);
        if (left == 0 || (left == self->n && self->offset == 0))
            return CREMA_ENOENT;
        crema_err_t err = s_move(self);
        if (err != CREMA_OK) {
            self->n = self->offset = 0;
            return err;
        }
    }
}
