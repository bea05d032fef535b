/* sink_window - the frames of a file that need not fit into memory, one after the other, found again behind damage. */
#ifndef SINK_WINDOW_H
#define SINK_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"

/* Begins with path and size, else zeros. The file may grow: give the new size. */
typedef struct {
    const char *path;
    uint64_t size;  /* of the file */
    uint64_t at;    /* where the window begins */
    uint8_t *bytes; /* the window */
    size_t n, room;
    size_t offset;    /* behind the last frame in it */
    uint64_t skipped; /* bytes before a frame that could not be read */
} sink_window_t;

/* The frame is valid until the next call. CREMA_ENOENT: there is nothing more; sink_window_left() says what cannot be read of the end. */
CREMA_MUST_CHECK crema_err_t sink_window_next(sink_window_t *self, crema_frame_t *ret_frame);
/* Bytes behind the last frame. */
uint64_t sink_window_left(const sink_window_t *self);
void sink_window_clear(sink_window_t *self);

#endif
