/* sink_cursor - goes through the frames of a run's journal, segment after segment, in bounded
 * memory, also while a sink appends to it.
 *
 * This is where a disk that does not give everything is met: what cannot be read, and what is no
 * frame, is counted and passed over. A segment that is not there is empty; the numbers of frames
 * show what it held. */
#ifndef SINK_CURSOR_H
#define SINK_CURSOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"
#include "sink_journal.h"
#include "sink_unread.h"

typedef struct {
    const char *dir; /* borrowed */
    bool pauses;     /* after a piece of damage; for the caller to set */
    sink_journal_position_t until;
    uint32_t segment;     /* in which the last frame lay */
    bool is_there;        /* that segment */
    uint64_t size;        /* of it, up to `until` */
    uint64_t skipped;     /* bytes of it that are no frame, before the last one */
    char path[PATH_MAX];  /* of it */
    uint32_t missing;     /* how many before it are not there */
    uint64_t bytes;       /* of those before it */
    uint64_t damaged;     /* bytes of these that are no frame */
    sink_unread_t unread; /* the part of the damage that the disk did not give */
    /* The window: bytes of the segment from `at` on, of which `offset` is the end of a frame. */
    uint8_t *window;
    uint64_t at;
    size_t n, room, offset;
} sink_cursor_t;

/* At the end of the segment's file, wherever that is. */
#define SINK_CURSOR_ALL UINT64_MAX

/* Begins at the start of a segment, which is also the end. */
void sink_cursor_begin(sink_cursor_t *self, const char *dir, uint32_t segment);
void sink_cursor_clear(sink_cursor_t *self);

/* Moves the end, and looks at how long the segment is by now. Up to a given number of bytes
 * everything has been written: what is no frame is damage. At SINK_CURSOR_ALL the last frame may be
 * about to be written, and is looked for again after the next call. */
void sink_cursor_extend(sink_cursor_t *self, sink_journal_position_t until);

/* The frame is valid until the next call. CREMA_ENOENT: the end is reached; CREMA_EAGAIN, only of a
 * cursor that pauses: some MiB were read that are no frame, and the next call continues there.
 * After any other error nothing was passed over; CREMA_EIO: the file has become shorter. */
CREMA_MUST_CHECK crema_err_t sink_cursor_next(sink_cursor_t *self, crema_frame_t *ret_frame);

/* Passes over what is left of the segment, as damage. */
void sink_cursor_skip(sink_cursor_t *self);

/* Behind the last frame. */
sink_journal_position_t sink_cursor_position(const sink_cursor_t *self);
/* Bytes before the last frame that are no frame; bytes of the segment behind it. */
uint64_t sink_cursor_damaged(const sink_cursor_t *self);
uint64_t sink_cursor_left(const sink_cursor_t *self);

#endif
