/* crema_walk - iterates over the records of a spool segment with pread, continuing after damage.
 *
 * Unreadable bytes are skipped up to the next whole record with a number that is still due. A
 * step returns a record, a range of missing numbers, or the end: clean, or with a tail that
 * holds no whole record. A tail is *not yet* complete while the writer lives and *torn* when it
 * is gone; the walk cannot tell which. */
#ifndef CREMA_WALK_H
#define CREMA_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_frame.h"

/* Maximum size of a record with its header. */
#define CREMA_WALK_RECORD_MAX (CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX)

typedef enum {
    CREMA_WALK_RECORD,
    CREMA_WALK_LOST,
    CREMA_WALK_CLEAN,
    CREMA_WALK_TAIL,
} crema_walk_kind_t;

typedef struct {
    crema_walk_kind_t kind;
    crema_frame_t frame; /* RECORD; the body is borrowed until the next step */
    /* RECORD: crema_frame_bytes() bytes from the header on; borrowed until the next step */
    const uint8_t *bytes;
    uint64_t first, last; /* LOST: numbers, first <= last */
    /* LOST: bytes between the records, 0 if they are adjacent; TAIL: remaining bytes */
    uint64_t damaged_b;
} crema_walk_item_t;

/* Holds one buffer and can be restarted. */
typedef struct crema_walk crema_walk_t;

CREMA_MUST_CHECK crema_err_t crema_walk_new(crema_walk_t **ret_self);
void crema_walk_destroy(crema_walk_t **self_p);

/* Starts at `offset`, the beginning of a record, and ends at `size`; `next_seq` is the number
 * expected there. `fd` is borrowed until the next start. */
void crema_walk_start(crema_walk_t *self, int fd, uint64_t offset, uint64_t size,
                      uint64_t next_seq);

/* After a start: about so many bytes are wanted of it, and no more are read at a time. */
void crema_walk_expect(crema_walk_t *self, size_t bytes);

/* After a start: what is searched for records behind damage is taken off *left, which is borrowed
 * until the next start. A search that finds nothing left does not begin. Without a call nothing
 * limits it. */
void crema_walk_search(crema_walk_t *self, int64_t *left);

/* CREMA_EIO: the file cannot be read; CREMA_EAGAIN: there is nothing left to search with. The
 * position is unchanged. */
CREMA_MUST_CHECK crema_err_t crema_walk_step(crema_walk_t *self, crema_walk_item_t *ret_item);

/* Size of the next record as the header in the buffer states it; 0 if it is not there. Neither is
 * checked: it may be damaged. */
size_t crema_walk_peek(const crema_walk_t *self);

/* End of the last record returned. */
uint64_t crema_walk_offset(const crema_walk_t *self);

#endif
