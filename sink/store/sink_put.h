/* sink_put - the record frames in a PUT: checks that they are whole and consecutive, and cuts
 * off a leading part that is already in the journal. Pure: bytes in, bytes out.
 *
 * A LOSS frame stands for a range of numbers, so a PUT may cover more numbers than it has
 * frames. A record whose body cannot be decoded still counts as a record and keeps its number. */
#ifndef SINK_PUT_H
#define SINK_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_record.h"
#include "crema_wire.h"

typedef struct {
    uint64_t last_seq; /* the PUT covers first_seq..last_seq */
    uint32_t frames;
    bool closed; /* the last is an END */
} sink_put_range_t;

/* CREMA_EPROTO: no frame, a damaged frame, a number out of order, a frame after an END, or a
 * count that matches neither the frames nor the numbers. */
CREMA_MUST_CHECK crema_err_t sink_put_check(const Crema__Put *put, crema_arena_t *arena,
                                            sink_put_range_t *ret_range);

typedef struct {
    const uint8_t *frames; /* borrowed from the PUT, or `owned` */
    size_t frames_bytes;
    uint32_t n; /* frames */
    uint64_t first_seq;
    uint8_t *owned; /* NULL unless a LOSS had to be cut in two; the caller frees it */
} sink_put_rest_t;

/* The part of a checked PUT from number `from` on; `from` lies within the range it covers. */
CREMA_MUST_CHECK crema_err_t sink_put_cut(const Crema__Put *put, uint64_t from,
                                          crema_arena_t *arena, sink_put_rest_t *ret_rest);

/* Replaces all records except the first and last of a stream by LOSS records for their numbers;
 * borrowed frames become owned ones. */
CREMA_MUST_CHECK crema_err_t sink_put_lose(sink_put_rest_t *rest, int64_t t_real_ns);

/* True if it begins with a StreamInfo that names a different run than the PUT: a stream belongs
 * to one run only. */
bool sink_put_names_other_run(const Crema__Put *put, crema_arena_t *arena);

/* The last number of frames that were checked before they were journaled, and whether it is an
 * END. */
CREMA_MUST_CHECK crema_err_t sink_put_last(const uint8_t *frames, size_t size, uint64_t *ret_last,
                                           bool *ret_closed);

#endif
