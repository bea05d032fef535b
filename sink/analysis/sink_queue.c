#include "sink_queue.h"

#include <math.h>

#include "sink_stats.h"

#define HALVINGS 60
#define Z95 1.959963984540054 /* of the normal distribution, two-sided 95 % */

sink_queue_t
sink_queue_solve(unsigned customers, double demand, double delay)
{
    double queue = 0, residence = demand;
    for (unsigned k = 1; k <= customers; k++) {
        residence = demand * (1 + queue);
        queue = k * residence / (residence + delay);
    }
    double cycle = residence + delay;
    return (sink_queue_t){cycle, residence - demand, customers * demand / cycle};
}

/* Finds it by bisection: with a larger demand one waits longer. */
double
sink_queue_demand(double customers, double wait)
{
    if (customers <= 1 || !(wait > 0))
        return 0;
    double least = 0, most = 1 - sink_between(wait, 0, 1);
    for (int i = 0; i < HALVINGS; i++) {
        double demand = (least + most) / 2, delay = 1 - wait - demand;
        if (sink_queue_cycle(customers, demand, delay) < 1)
            least = demand;
        else
            most = demand;
    }
    return most;
}

double
sink_queue_cycle(double customers, double demand, double delay)
{
    customers = sink_between(customers, 1, SINK_QUEUE_CUSTOMERS_MAX);
    unsigned whole = (unsigned)customers;
    double more = customers - whole, cycle = sink_queue_solve(whole, demand, delay).cycle;
    return more > 0 ? (1 - more) * cycle + more * sink_queue_solve(whole + 1, demand, delay).cycle
                    : cycle;
}

sink_range_t
sink_queue_share(double held, size_t looks)
{
    if (looks == 0)
        return (sink_range_t){NAN, 0, 1};
    double n = (double)looks, p = sink_between(held, 0, 1), z2 = Z95 * Z95;
    double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half = Z95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    return (sink_range_t){(p * n + 1 / 6.0) / (n + 1 / 3.0), sink_between(middle - half, 0, 1),
                          sink_between(middle + half, 0, 1)};
}
