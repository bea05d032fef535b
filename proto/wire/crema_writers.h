/* crema_writers - who recorded in a run: the list that its collector makes at the end, put together of numbered parts.
 * Pure: memory only; parts are copied.
 *
 * Aggregator and sink hold it alike. Parts come in any order and any number of times. The last word on a part counts; one of a list
 * of another length begins that list. */
#ifndef CREMA_WRITERS_H
#define CREMA_WRITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"

typedef struct crema_writers crema_writers_t;

CREMA_MUST_CHECK crema_err_t crema_writers_new(crema_writers_t **ret_self);
void crema_writers_destroy(crema_writers_t **self_p);

/* CREMA_EREPEAT: it says what is known. CREMA_EINVAL: no such part. CREMA_ELIMIT: more than CREMA_WIRE_WRITER_PARTS_MAX. */
CREMA_MUST_CHECK crema_err_t crema_writers_take(crema_writers_t *self,
                                                const crema_writers_msg_t *msg);

/* How many parts the list has; 0 before the first one. */
uint32_t crema_writers_parts(const crema_writers_t *self);
/* Every part is here. */
bool crema_writers_is_whole(const crema_writers_t *self);
/* NULL: not here. */
const crema_writers_msg_t *crema_writers_part(const crema_writers_t *self, uint32_t part);

/* The next writer: begin with *cursor zero. NULL after the last one that is here. */
typedef struct {
    uint32_t part;
    size_t row;
} crema_writers_cursor_t;
const crema_writer_t *crema_writers_next(const crema_writers_t *self,
                                         crema_writers_cursor_t *cursor);

#endif
