/* crema_writers - the list of writers of a run, which its collector sends at the end in numbered
 * parts. Pure: memory only; parts are copied.
 *
 * Aggregator and sink use the same code. Parts may come in any order and repeatedly. The last
 * version of a part counts; a part with another total begins a new list. */
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

/* CREMA_EREPEAT: nothing new. CREMA_EINVAL: impossible part number. CREMA_ELIMIT: more than
 * CREMA_WIRE_WRITER_PARTS_MAX. */
CREMA_MUST_CHECK crema_err_t crema_writers_take(crema_writers_t *self,
                                                const Crema__RunWriters *msg);

/* Number of parts of the list; 0 before the first one came. */
uint32_t crema_writers_parts(const crema_writers_t *self);
/* True if every part has come. */
bool crema_writers_is_whole(const crema_writers_t *self);
/* NULL: has not come. */
const Crema__RunWriters *crema_writers_part(const crema_writers_t *self, uint32_t part);

/* Iterates over the writers: begin with *cursor zero; NULL after the last one known. */
typedef struct {
    uint32_t part;
    size_t row;
} crema_writers_cursor_t;
const Crema__Writer *crema_writers_next(const crema_writers_t *self,
                                        crema_writers_cursor_t *cursor);

#endif
