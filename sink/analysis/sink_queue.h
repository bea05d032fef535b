/* sink_queue - threads that take turns: a closed queueing network of one station and a delay.
 * Pure: arithmetic.
 *
 * `customers` threads each need the station (the GIL) for a while, then do something else for a while: read, wait, run native code. Exact mean value analysis
 * (Reiser and Lavenberg 1980) adds one customer after another: the one that arrives finds the queue of a network without it, so with demand D, delay Z
 *
 *     R(k) = D (1 + Q(k-1)),  X(k) = k / (R(k) + Z),  Q(k) = X(k) R(k),  Q(0) = 0.
 *
 * The result holds for turns of any length (the switch interval makes the station one of shared time) and depends on the means only. The share of time that the
 * station is in use, U = X D, is what a look at the GIL measures; from U and k follow Z / D and so how long a thread waited. Where U is close to 1, U says
 * little about Z: a range of U is then a wide range of waiting. */
#ifndef SINK_QUEUE_H
#define SINK_QUEUE_H

#include <stddef.h>

/* More customers than this are taken as this many. */
#define SINK_QUEUE_CUSTOMERS_MAX 1024

typedef struct {
    double cycle;       /* R + Z: time of one round of one customer */
    double wait;        /* of it, waiting for the station: R - D */
    double utilization; /* U */
} sink_queue_t;

/* `demand` > 0, `delay` >= 0, `customers` >= 1. */
sink_queue_t sink_queue_solve(unsigned customers, double demand, double delay);

/* Share of its time that a customer waits, given the share of time that the station is in use. A number of customers between two whole ones is
 * taken as a mixture of both. 0 below two customers' worth of overlap. */
double sink_queue_wait_share(double customers, double utilization);

/* Time of one round, such a mixture too. */
double sink_queue_cycle(double customers, double demand, double delay);

typedef struct {
    double value, lo, hi;
} sink_range_t;

/* The share found in `looks` looks of which the mean was `held`, with an interval of 95 % (Wilson 1927). The value, (held x looks + 1/6) / (looks + 1/3), is near the
 * median of what may be (Jeffreys): of few looks that all found the same, certainty does not follow. */
sink_range_t sink_queue_share(double held, size_t looks);

#endif
