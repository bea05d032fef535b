/* agg_frames - walks the record frames of a DATA message by their headers alone.
 * Pure: bodies and checksums are not looked at; the envelope's checksum covers the way and the sink decodes. */
#ifndef AGG_FRAMES_H
#define AGG_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    const uint8_t *at; /* the next frame */
    size_t left;       /* bytes */
    uint64_t next;     /* the number that is due */
} agg_frames_t;

/* One frame, or several that follow each other by one. A LOSS frame stands in for a range and always comes alone, so that in
 * each piece the n-th frame from the back has the n-th number from the back. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    uint64_t first, last;
    uint32_t n;
} agg_piece_t;

/* Checks that `n` frames fill exactly `size` bytes and continue one another from first_seq on. CREMA_EPROTO if not. *ret_last is the last
 * frame's number. */
CREMA_MUST_CHECK crema_err_t agg_frames_check(const uint8_t *bytes, size_t size, uint32_t n,
                                              uint64_t first_seq, uint64_t *ret_last);

/* Leaves out frames whose numbers are all below `from`. The frames were checked. */
void agg_frames_skip(agg_frames_t *self, uint64_t from);

/* The next piece of checked frames; false at the end. */
bool agg_frames_take(agg_frames_t *self, agg_piece_t *ret_piece);

#endif
