/* sink_order - puts the PUTs of a journal with a hole into the order of their streams. Pure:
 * memory only.
 *
 * Records that were lost to damage are delivered again if a spool still has them, and then lie
 * in the journal after records with higher numbers. A PUT that does not continue its stream
 * therefore waits, as a position in a file, until its stream has reached it or the journal ends. */
#ifndef SINK_ORDER_H
#define SINK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct sink_order sink_order_t;

/* A PUT and its position in the journal. */
typedef struct {
    uint64_t first, last;
    uint32_t segment;
    size_t offset, bytes;
} sink_order_put_t;

CREMA_MUST_CHECK crema_err_t sink_order_new(sink_order_t **ret_self);
void sink_order_destroy(sink_order_t **self_p);

/* The stream's records up to `last` come before this journal part. Ignored for a stream that is
 * already known. */
CREMA_MUST_CHECK crema_err_t sink_order_begin(sink_order_t *self, const crema_id_t *stream_id,
                                              uint64_t last);

/* *ret_now: show it now; otherwise it waits. */
CREMA_MUST_CHECK crema_err_t sink_order_take(sink_order_t *self, const crema_id_t *stream_id,
                                             const sink_order_put_t *put, bool *ret_now);

/* The next waiting PUT that is due, or with `all` each waiting PUT in the order of its stream.
 * False: none. */
bool sink_order_due(sink_order_t *self, bool all, sink_order_put_t *ret_put);

#endif
