/* sink_bound - replaces values outside plausible bounds by "unknown", so that arithmetic on rows
 * cannot overflow. Pure: numbers in, numbers out.
 *
 * A point in time lies within [0, 2^62) ns (until the year 2116); a count is below 2^40, bytes
 * below 2^50; counters of hosts and processes, which are only subtracted, below 2^62; seconds
 * and shares are below 2^40, totals of activities within +-2^62. Values of a user's own metrics
 * stay. */
#ifndef SINK_BOUND_H
#define SINK_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"

#define SINK_BOUND_TIME_NS ((int64_t)1 << 62)

/* Returns t_ns, or 0 if it is out of bounds. */
int64_t sink_bound_time_ns(int64_t t_ns);

/* a + b, limited to the largest value that may safely be added to others. */
int64_t sink_bound_sum(int64_t a, uint64_t b);

/* The bounded columns of a table: those that writers send. */
typedef struct {
    uint8_t n;
    struct {
        uint8_t column;
        crema_type_t type;   /* I64, I32 or F64 */
        int64_t from, below; /* from <= value < below, otherwise `unknown`, or NaN if real */
        int64_t unknown;
    } columns[48];
} sink_bound_t;

sink_bound_t sink_bound_of(const crema_table_t *table);

/* Applies the bounds to `n` packed rows of that table. */
void sink_bound_rows(const sink_bound_t *self, const crema_table_t *table, uint8_t *rows, size_t n);

#endif
