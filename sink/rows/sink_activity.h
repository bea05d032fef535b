/* sink_activity - turns cumulative totals into increments. Pure: memory only.
 *
 * A key is everything that distinguishes two totals of one stream. An increment covers the time
 * since the key's previous total or, for a new key, since the stream last read its totals, when
 * the key's total was zero. A baseline, the total at the start of the run, yields no increment. */
#ifndef SINK_ACTIVITY_H
#define SINK_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_limit.h"

typedef struct {
    uint32_t stream, worker, span, prefix, activity, unit;
    uint32_t context;
    uint32_t mark; /* the side that the hook marked */
} sink_activity_key_t;

typedef struct sink_activity sink_activity_t;

/* A total of a key beyond CREMA_LIMIT_ACTIVITY_KEYS is kept with an unknown increment and
 * counted in `limits`, which the caller owns. */
CREMA_MUST_CHECK crema_err_t sink_activity_new(crema_limits_t *limits, sink_activity_t **ret_self);
void sink_activity_destroy(sink_activity_t **self_p);

/* `t_known_ns`: when the stream last read totals. */
CREMA_MUST_CHECK crema_err_t sink_activity_take(sink_activity_t *self,
                                                const sink_activity_key_t *key, int64_t t1_ns,
                                                int64_t t_known_ns, double total, bool baseline,
                                                int64_t *ret_t0_ns, double *ret_value);

#endif
