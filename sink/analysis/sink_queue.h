/* sink_queue - threads that take turns: a closed queueing network with one station and a delay.
 * Pure: arithmetic.
 *
 * `customers` threads alternate between using the station (the GIL) and doing something else:
 * reading, waiting, running native code. Exact mean value analysis (Reiser and Lavenberg 1980)
 * adds one customer at a time: an arriving customer finds the queue of the network without itself,
 * so with demand D and delay Z
 *
 *     R(k) = D (1 + Q(k-1)),  X(k) = k / (R(k) + Z),  Q(k) = X(k) R(k),  Q(0) = 0.
 *
 * The result holds for turns of any length (the switch interval makes the station time-shared) and
 * depends on means only. How long threads waited for the GIL is seen; what follows from it and k
 * is how long they held it, and what they would wait if they had less else to do. */
#ifndef SINK_QUEUE_H
#define SINK_QUEUE_H

#include <stddef.h>

/* Larger numbers of customers are treated as this many. */
#define SINK_QUEUE_CUSTOMERS_MAX 1024

typedef struct {
    double cycle;       /* R + Z: time of one round of a customer */
    double wait;        /* of it, waiting for the station: R - D */
    double utilization; /* U */
} sink_queue_t;

/* `demand` > 0, `delay` >= 0, `customers` >= 1. */
sink_queue_t sink_queue_solve(unsigned customers, double demand, double delay);

/* Share of its time for which a customer uses the station, given the share for which it waits for
 * it. 0 for one customer. */
double sink_queue_demand(double customers, double wait);

/* Time of one round, interpolated in the same way. */
double sink_queue_cycle(double customers, double demand, double delay);

typedef struct {
    double value, lo, hi;
} sink_range_t;

/* The share behind `looks` samples with mean `held`, with a 95 % interval (Wilson 1927). The
 * value, (held x looks + 1/6) / (looks + 1/3), is close to the median of its distribution
 * (Jeffreys): a few equal samples do not give certainty. */
sink_range_t sink_queue_share(double held, size_t looks);

#endif
