/* crema_frame - the framing of spool and journal: length, number, checksum. Pure: bytes in, bytes
 * out.
 *
 *   offset  0      4      8               16              24     26     28      32
 *          | magic | len | seq            | t_ns           | type | flags| crc32 | body (len bytes)
 *
 * All little-endian. `crc32` is zlib's CRC-32 over bytes 0..27 followed by the body. In a spool
 * `t_ns` is the writer's CLOCK_MONOTONIC; in a journal it is the sink's CLOCK_REALTIME. */
#ifndef CREMA_FRAME_H
#define CREMA_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

#define CREMA_FRAME_MAGIC 0x314d5243u /* "CRM1" */
#define CREMA_FRAME_HEADER_BYTES 32
#define CREMA_FRAME_BODY_MAX (1u << 20) /* journal; for a spool see CREMA_RECORD_BODY_MAX */
#define CREMA_RECORD_BODY_MAX (64u << 10)
#define CREMA_SPOOL_SEGMENT_BYTES                                                                  \
    (8u << 20) /* of frames in one file of a spool; then its writer begins another */

/* Types of spool frames. */
typedef enum {
    CREMA_RECORD_STREAM = 1, /* StreamInfo, always seq 1 */
    CREMA_RECORD_DICT = 2,
    CREMA_RECORD_BATCH = 3,
    CREMA_RECORD_END = 4,
    CREMA_RECORD_LOSS = 5, /* stands for a range of numbers; frame seq = last of the range */
} crema_record_type_t;

typedef struct {
    uint64_t seq;
    int64_t t_ns;
    uint16_t type;
    uint16_t flags;
    uint32_t len;        /* bytes of body */
    const uint8_t *body; /* borrowed: points into the decoded buffer, or at the bytes to encode */
} crema_frame_t;

/* Header plus body. */
size_t crema_frame_bytes(const crema_frame_t *frame);

/* Writes crema_frame_bytes() bytes at `out`. The body may already be at out +
 * CREMA_FRAME_HEADER_BYTES. */
void crema_frame_encode(const crema_frame_t *frame, uint8_t *out);

/* The frame at the start of buf[0..avail). CREMA_EMORE: it continues after avail (torn or not
 * yet written); CREMA_EMAGIC: no frame starts here or its length is impossible; CREMA_ECRC:
 * damaged. *ret_frame is written only on CREMA_OK, except that len and seq are also set for
 * CREMA_ECRC. */
CREMA_MUST_CHECK crema_err_t crema_frame_decode(const uint8_t *buf, size_t avail,
                                                crema_frame_t *ret_frame);

/* crema_frame_bytes() of the frame at the start, as its header states it, unchecked; 0 if there is
 * no header. */
size_t crema_frame_peek(const uint8_t *buf, size_t avail);

/* The whole frame at the start, without a look at its checksum. False: it continues after avail,
 * or no frame starts here. */
bool crema_frame_look(const uint8_t *buf, size_t avail, crema_frame_t *ret_frame);

/* Offset of the first valid frame at or after buf[from]; `avail` if there is none, or if the
 * bytes contain so many damaged frames (64 MiB) that they must have been made to waste time. */
size_t crema_frame_find(const uint8_t *buf, size_t avail, size_t from);

#endif
