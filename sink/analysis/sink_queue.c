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

/* Finds the delay, in units of the demand, by bisection: utilization falls as the delay grows. */
static double
s_wait_share(unsigned customers, double utilization)
{
    if (customers < 2 || utilization <= 0)
        return 0;
    double least = 0, most = customers / utilization; /* k D / U is the whole cycle */
    sink_queue_t queue = sink_queue_solve(customers, 1, 0);
    for (int i = 0; i < HALVINGS; i++) {
        double delay = (least + most) / 2;
        queue = sink_queue_solve(customers, 1, delay);
        if (queue.utilization > utilization)
            least = delay;
        else
            most = delay;
    }
    return queue.wait / queue.cycle;
}

double
sink_queue_wait_share(double customers, double utilization)
{
    customers = sink_between(customers, 1, SINK_QUEUE_CUSTOMERS_MAX);
    utilization = sink_between(utilization, 0, 1);
    unsigned whole = (unsigned)customers;
    double more = customers - whole, share = s_wait_share(whole, utilization);
    return more > 0 ? (1 - more) * share + more * s_wait_share(whole + 1, utilization) : share;
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
