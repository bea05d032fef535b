/* sink_segment - how a journal looks on disk: the bodies of its frames, and finding them again behind damage.
 * Pure: bytes in, bytes out. */
#ifndef SINK_SEGMENT_H
#define SINK_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"
#include "crema_record.h"
#include "sink_journal.h"

/* Frame types of the store beside a journal. */
#define SINK_STORE_FRAME 70
#define SINK_TOMBSTONES_FRAME 71
#define SINK_REFUSED_FRAME 74

/* In a journal frame's flags: what lies before it was synced before it was written. The first group of a segment has none, for it is synced with the
 * segment's header. */
#define SINK_FRAME_BEGINS_GROUP 1u

/* Bytes of the bodies; a PUT's frames follow its head. All integers are little-endian. */
#define SINK_HEADER_BODY_BYTES 40
#define SINK_PUT_HEAD_BYTES 48
#define SINK_SEALED_BODY_BYTES 48
#define SINK_STATE_BODY_BYTES (80 + CREMA_WIRE_KEY_BYTES)
#define SINK_MARK_BYTES 40
#define SINK_MARKS_HEAD_BYTES 8 /* number of the first mark in the frame */
#define SINK_MARKS_PER_FRAME                                                                       \
    ((CREMA_FRAME_BODY_MAX - SINK_MARKS_HEAD_BYTES) / (size_t)SINK_MARK_BYTES)

/* A header and its frame: what every segment begins with. */
#define SINK_SEGMENT_HEADER_BYTES ((size_t)CREMA_FRAME_HEADER_BYTES + SINK_HEADER_BODY_BYTES)

typedef struct {
    crema_id_t store_id;
    crema_id_t run_id;
    uint64_t generation;
} sink_header_t;

void sink_header_encode(const sink_header_t *header, uint8_t out[SINK_HEADER_BODY_BYTES]);
/* False: not a header's body. */
bool sink_header_decode(const crema_frame_t *frame, sink_header_t *ret_header);

/* Bytes of a checkpoint of so many streams. */
size_t sink_checkpoint_bytes(uint64_t n_marks);
void sink_checkpoint_encode(const sink_journal_state_t *state, const sink_journal_mark_t *marks,
                            uint8_t *out);
/* The checkpoint that lies at the start of a segment, if all of it is there; `ret_end` is where it ends. CREMA_ENOENT: there is none. */
CREMA_MUST_CHECK crema_err_t sink_checkpoint_find(const uint8_t *bytes, size_t size,
                                                  sink_journal_state_t *ret_state, size_t *ret_end);
/* False: not the body of a checkpoint. */
bool sink_state_decode(const crema_frame_t *frame, sink_journal_state_t *ret_state);

/* Frames without a number: header and checkpoint. */
bool sink_segment_is_head(uint16_t type);

void sink_put_head_encode(const sink_journal_put_t *put, uint8_t out[SINK_PUT_HEAD_BYTES]);
/* The frames stay where they are. False: not the body of a PUT. */
bool sink_put_decode(const crema_frame_t *frame, sink_journal_put_t *ret_put);
void sink_sealed_encode(const sink_journal_sealed_t *sealed, uint8_t out[SINK_SEALED_BODY_BYTES]);

/* The first journal frame at or after *offset, which moves behind it; *ret_skipped counts the unreadable bytes before it. A record frame inside a
 * damaged PUT is not taken for a journal frame. CREMA_ENOENT: there is none. */
CREMA_MUST_CHECK crema_err_t sink_segment_next(const uint8_t *bytes, size_t size, size_t *offset,
                                               crema_frame_t *ret_frame, size_t *ret_skipped);

/* How many leading bytes of a run's newest segment count. Of what was not synced a power cut leaves any part, also a later one without an earlier
 * one; so behind the first hole in the last group nothing counts, as if it had been cut there. A hole in an earlier group, or in the header,
 * is damage to what was there once, and what follows it stays. */
size_t sink_segment_sound(const uint8_t *bytes, size_t size);

/* Decodes the body and calls the visitor's function for it. *ret_understood is false, and the result CREMA_OK, for a body that is not what its
 * type says; headers are understood and call nothing. */
CREMA_MUST_CHECK crema_err_t sink_segment_visit(const crema_frame_t *frame,
                                                const sink_journal_visitor_t *visitor,
                                                crema_arena_t *arena, bool *ret_understood);

#endif
