/* sink_order - PUTs of a journal with a hole in it, in the order of their streams.
 * Pure: memory only.
 *
 * What damage took away is delivered anew if a spool still has it, and then lies in the journal behind what had come after it. So a PUT that
 * does not continue its stream waits, as a place in a file, until its stream has come up to it or there is nothing more. */
#ifndef SINK_ORDER_H
#define SINK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct sink_order sink_order_t;

/* A PUT and where it lies. */
typedef struct {
    uint64_t first, last;
    uint32_t segment;
    size_t offset, bytes;
} sink_order_put_t;

CREMA_MUST_CHECK crema_err_t sink_order_new(sink_order_t **ret_self);
void sink_order_destroy(sink_order_t **self_p);

/* Numbers up to `last` of the stream are known to have come before; counts only for a stream that is not known yet. */
CREMA_MUST_CHECK crema_err_t sink_order_begin(sink_order_t *self, const crema_id_t *stream_id,
                                              uint64_t last);

/* *ret_now: take it now; else it waits. */
CREMA_MUST_CHECK crema_err_t sink_order_take(sink_order_t *self, const crema_id_t *stream_id,
                                             const sink_order_put_t *place, bool *ret_now);

/* The next that waited and is due; with `all` every one, each stream's in order. False: none. */
bool sink_order_due(sink_order_t *self, bool all, sink_order_put_t *ret_place);

#endif
