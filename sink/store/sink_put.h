/* sink_put - the record frames inside a PUT: are they whole, do they follow one another, and what remains of them when a leading part is there
 * already.
 * Pure: bytes in, bytes out.
 *
 * A LOSS frame stands for a range of numbers, so a PUT may cover more numbers than it has frames. A record whose body cannot be decoded is a
 * record like any other: it keeps its number. */
#ifndef SINK_PUT_H
#define SINK_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_record.h"
#include "crema_wire.h"

typedef struct {
    uint64_t last_seq; /* first_seq of the PUT .. last_seq is what it covers */
    uint32_t frames;   /* how many */
    bool closed;       /* the last is an END */
} sink_put_range_t;

/* CREMA_EPROTO: no frame, a damaged one, a number out of turn, a frame behind an END, or a count that is neither that of the
 * frames nor that of the numbers. */
CREMA_MUST_CHECK crema_err_t sink_put_check(const crema_data_t *put, crema_arena_t *arena,
                                            sink_put_range_t *ret_range);

typedef struct {
    const uint8_t *frames; /* borrowed from the PUT, or `owned` */
    size_t frames_bytes;
    uint32_t n; /* frames */
    uint64_t first_seq;
    uint8_t *owned; /* NULL unless a LOSS had to be cut in two; the caller frees it */
} sink_put_rest_t;

/* What a checked PUT holds from number `from` on, which lies within what it covers. */
CREMA_MUST_CHECK crema_err_t sink_put_cut(const crema_data_t *put, uint64_t from,
                                          crema_arena_t *arena, sink_put_rest_t *ret_rest);

/* Replaces all but beginnings and ends of streams by LOSS records for their numbers; borrowed frames become owned ones. */
CREMA_MUST_CHECK crema_err_t sink_put_lose(sink_put_rest_t *rest, int64_t t_real_ns);

/* Whether it begins with the record of a stream's beginning that names another run than the PUT: no stream belongs to two. */
bool sink_put_names_other_run(const crema_data_t *put, crema_arena_t *arena);

/* The last number and whether it is an END, of frames that were checked before they were journaled. */
CREMA_MUST_CHECK crema_err_t sink_put_last(const uint8_t *frames, size_t size, uint64_t *ret_last,
                                           bool *ret_closed);

#endif
