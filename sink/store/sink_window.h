/* sink_window - reads the frames of a file of any size one after the other in bounded memory,
 * and finds the next frame after damage. */
#ifndef SINK_WINDOW_H
#define SINK_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"
#include "sink_unread.h"

/* Starts with path and size set and the rest zero, or by sink_window_open(). The file may grow: set
 * the new size. */
typedef struct {
    const char *path;
    uint64_t size; /* of the file */
    uint64_t at;   /* offset of the window in the file */
    uint8_t *bytes;
    size_t n, room;
    size_t offset;    /* end of the last frame in it */
    uint64_t skipped; /* unreadable bytes before a frame */
    /* Takes what the disk does not give, which then is damage; NULL: it is an error. */
    sink_unread_t *unread;
} sink_window_t;

/* At the start of an existing file; CREMA_ENOENT: there is none. The path is borrowed. */
CREMA_MUST_CHECK crema_err_t sink_window_open(const char *path, sink_window_t *ret_self);
/* The frame is valid until the next call. CREMA_ENOENT: there are no more frames;
 * sink_window_left() is the unreadable rest. */
CREMA_MUST_CHECK crema_err_t sink_window_next(sink_window_t *self, crema_frame_t *ret_frame);
/* Bytes after the last frame. */
uint64_t sink_window_left(const sink_window_t *self);
void sink_window_clear(sink_window_t *self);

#endif
