#include "crema_histogram.h"

#include <stddef.h>

const double crema_histogram_bounds_s[CREMA_HISTOGRAM_BOUNDS] = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

void
crema_histogram_add(crema_histogram_t *self, int64_t duration_ns)
{
    const double duration_s = (double)duration_ns * 1e-9;
    size_t i = 0;
    while (i < CREMA_HISTOGRAM_BOUNDS && duration_s > crema_histogram_bounds_s[i])
        i++;
    self->counts[i]++;
    self->sum_s += duration_s;
}
