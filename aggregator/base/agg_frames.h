/* agg_frames - iterates over the record frames of a DATA message by their headers only. Pure:
 * bodies and checksums are not examined: the envelope's checksum protects the transport and the
 * sink decodes. */
#ifndef AGG_FRAMES_H
#define AGG_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    const uint8_t *at; /* the next frame */
    size_t left;       /* bytes */
    uint64_t next;     /* number of the next frame */
} agg_frames_t;

/* One frame, or several with consecutive numbers. A LOSS frame covers a range and is always a
 * piece by itself, so in each piece the n-th frame from the end has the n-th number from the
 * end. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    uint64_t first, last;
    uint32_t n;
} agg_piece_t;

/* Checks that `n` frames fill exactly `size` bytes and are consecutive from first_seq on, else
 * CREMA_EPROTO. *ret_last is the last frame's number. */
CREMA_MUST_CHECK crema_err_t agg_frames_check(const uint8_t *bytes, size_t size, uint32_t n,
                                              uint64_t first_seq, uint64_t *ret_last);

/* Skips checked frames whose numbers are all below `from`. */
void agg_frames_skip(agg_frames_t *self, uint64_t from);

/* The next piece of checked frames; false at the end. */
bool agg_frames_take(agg_frames_t *self, agg_piece_t *ret_piece);

#endif
