/* sink_axis - even steps of time over a run, and amounts spread over them. Pure: arithmetic. */
#ifndef SINK_AXIS_H
#define SINK_AXIS_H

#include <stddef.h>
#include <stdint.h>

/* Maximum number of steps. */
#define SINK_AXIS_STEPS_MAX 1000

typedef struct {
    int64_t t0_ns, step_ns;
    size_t n;
} sink_axis_t;

/* The finest even step, a round number of at least 0.1 s, that covers the window in
 * SINK_AXIS_STEPS_MAX steps. */
sink_axis_t sink_axis(int64_t t0_ns, int64_t t1_ns);

/* Distributes `amount` over the steps between t0 and t1 in proportion. An amount without
 * duration goes into one step. */
void sink_axis_spread(const sink_axis_t *axis, int64_t t0_ns, int64_t t1_ns, double amount,
                      double *steps);

#endif
