/* sink_segment - the on-disk layout of a journal: the bodies of its frames, and how frames are
 * found again after damage. Pure: bytes in, bytes out. */
#ifndef SINK_SEGMENT_H
#define SINK_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"
#include "crema_record.h"
#include "sink_journal.h"

/* Frame types in the store's other files. */
#define SINK_STORE_FRAME 70
#define SINK_TOMBSTONES_FRAME 71
#define SINK_REFUSED_FRAME 74

/* Flag of a journal frame: everything before it was synced before it was written. The first
 * group of a segment does not have it, since it is synced together with the segment's header. */
#define SINK_FRAME_BEGINS_GROUP 1u

/* Sizes of the bodies, of which the structs here and in sink_journal.h are the layout; in a PUT the
 * record frames follow. All integers are little-endian. */
#define SINK_HEADER_BODY_BYTES 40
#define SINK_PUT_HEAD_BYTES 48
#define SINK_SEALED_BODY_BYTES 48
#define SINK_STATE_BODY_BYTES (80 + CREMA_WIRE_KEY_BYTES)
#define SINK_MARK_BYTES 40
#define SINK_MARKS_HEAD_BYTES 8 /* number of the first mark in the frame */
#define SINK_MARKS_PER_FRAME                                                                       \
    ((CREMA_FRAME_BODY_MAX - SINK_MARKS_HEAD_BYTES) / (size_t)SINK_MARK_BYTES)

/* The header frame that every segment begins with. */
#define SINK_SEGMENT_HEADER_BYTES ((size_t)CREMA_FRAME_HEADER_BYTES + SINK_HEADER_BODY_BYTES)

typedef struct {
    crema_id_t store_id;
    crema_id_t run_id;
    uint64_t generation;
} sink_header_t;

/* False: not a header's body. */
bool sink_header_decode(const crema_frame_t *frame, sink_header_t *ret_header);

/* Size of a checkpoint with this many streams. */
size_t sink_checkpoint_bytes(uint64_t n_marks);
void sink_checkpoint_encode(const sink_journal_state_t *state, const sink_journal_mark_t *marks,
                            uint8_t *out);
/* Decodes the checkpoint at the start of a segment if it is complete; `ret_end` is its end.
 * CREMA_ENOENT: there is none. */
CREMA_MUST_CHECK crema_err_t sink_checkpoint_find(const uint8_t *bytes, size_t size,
                                                  sink_journal_state_t *ret_state, size_t *ret_end);
/* False: not the body of a checkpoint. */
bool sink_state_decode(const crema_frame_t *frame, sink_journal_state_t *ret_state);

/* True for the frames without a number: header and checkpoint. */
bool sink_segment_is_head(uint16_t type);

/* The record frames are not copied. False: not the body of a PUT. */
bool sink_put_decode(const crema_frame_t *frame, sink_journal_put_t *ret_put);

/* Finds the first journal frame at or after *offset and moves *offset behind it; *ret_skipped
 * counts the unreadable bytes before it. A record frame inside a damaged PUT is not mistaken for
 * a journal frame. CREMA_ENOENT: there are no more. */
CREMA_MUST_CHECK crema_err_t sink_segment_next(const uint8_t *bytes, size_t size, size_t *offset,
                                               crema_frame_t *ret_frame, size_t *ret_skipped);

/* Number of leading bytes of a run's newest segment that count. After a power cut any part of
 * the unsynced data may be missing, including an earlier part while a later one is present; so
 * everything after the first hole in the last group is ignored. A hole in an earlier group or in
 * the header is damage to data that was durable, and what follows it counts. */
size_t sink_segment_sound(const uint8_t *bytes, size_t size);

/* Decodes the body and calls the visitor's function for it. If the body does not match its type,
 * *ret_understood is false and the result is CREMA_OK; headers are understood and call no
 * function. */
CREMA_MUST_CHECK crema_err_t sink_segment_visit(const crema_frame_t *frame,
                                                const sink_journal_visitor_t *visitor,
                                                crema_arena_t *arena, bool *ret_understood);

#endif
