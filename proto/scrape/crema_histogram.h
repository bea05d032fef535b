/* crema_histogram - how often something took how long, in buckets from a millisecond to ten
 * seconds. Pure: arithmetic. */
#ifndef CREMA_HISTOGRAM_H
#define CREMA_HISTOGRAM_H

#include <stdint.h>

#define CREMA_HISTOGRAM_BOUNDS 13

/* Zeroed: nothing was seen yet. */
typedef struct {
    uint64_t
        counts[CREMA_HISTOGRAM_BOUNDS + 1]; /* of each bucket alone; the last one is unbounded */
    double sum_s;
} crema_histogram_t;

/* Upper bounds, included, s. */
extern const double crema_histogram_bounds_s[CREMA_HISTOGRAM_BOUNDS];

void crema_histogram_add(crema_histogram_t *self, int64_t duration_ns);

#endif
