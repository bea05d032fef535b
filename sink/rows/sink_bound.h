/* sink_bound - values that no honest writer sends become unknown, so that arithmetic on rows cannot overflow.
 * Pure: numbers in, numbers out.
 *
 * A point in time lies within [0, 2^62) ns, to the year 2116; a count below 2^40, bytes below 2^50; those of hosts and
 * processes, which are only subtracted, below 2^62. */
#ifndef SINK_BOUND_H
#define SINK_BOUND_H

#include <stddef.h>
#include <stdint.h>

#include "crema_columns.h"

#define SINK_BOUND_TIME_NS ((int64_t)1 << 62)

/* The time, or 0 if it cannot be one. */
int64_t sink_bound_time_ns(int64_t t_ns);

/* a + b, or the largest that is meant to be added to others. */
int64_t sink_bound_sum(int64_t a, uint64_t b);

/* What is bounded in a table. */
typedef struct {
    uint8_t n;
    struct {
        uint8_t column;
        int64_t below; /* 0 <= value < below, or else `unknown` */
        int64_t unknown;
    } columns[16];
} sink_bound_t;

sink_bound_t sink_bound_of(const crema_table_t *table);

/* `n` packed rows of that table, one behind the other. */
void sink_bound_rows(const sink_bound_t *self, const crema_table_t *table, uint8_t *rows, size_t n);

#endif
