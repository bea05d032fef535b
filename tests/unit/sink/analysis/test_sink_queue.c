/* sink_queue against the machine repairman's closed form, which needs no recursion, and against
 * figures worked out by hand. */
#include "must.h"

#include <math.h>

#include "sink_queue.h"

#define NEAR(a, b, bound) assert_true(fabs((a) - (b)) < (bound))

/* p(n machines at the repairman) = p(0) K!/(K-n)! (D/Z)^n; the station is idle with p(0). */
static double
s_repairman_utilization(unsigned machines, double demand, double delay)
{
    double term = 1, sum = 1;
    for (unsigned n = 0; n < machines; n++) {
        term *= (machines - n) * demand / delay;
        sum += term;
    }
    return 1 - 1 / sum;
}

static void
must_solve_eight_threads_that_mostly_read(void **state)
{
    (void)state;
    sink_queue_t queue = sink_queue_solve(8, 1, 8);
    NEAR(queue.wait / queue.cycle, 0.1400, 5e-4); /* 14 % */
    NEAR(queue.utilization, 0.7644, 5e-4);
    /* Two threads, by hand: R = 1 + 1/(1+Z). */
    queue = sink_queue_solve(2, 1, 1);
    NEAR(queue.cycle, 2.5, 1e-12);
    NEAR(queue.wait, 0.5, 1e-12);
    NEAR(queue.utilization, 0.8, 1e-12);
    queue = sink_queue_solve(4, 2.5, 0); /* always in use: three of four wait */
    NEAR(queue.cycle, 10, 1e-12);
    NEAR(queue.utilization, 1, 1e-12);
}

static void
must_agree_with_the_repairman(void **state)
{
    (void)state;
    for (unsigned k = 1; k <= 64; k++)
        for (int i = -2; i < 8; i++) {
            double delay = ldexp(1, i);
            sink_queue_t queue = sink_queue_solve(k, 1, delay);
            double want = s_repairman_utilization(k, 1, delay);
            NEAR(queue.utilization, want, 1e-9);
            NEAR(queue.cycle, k / want, 1e-6);
        }
}

static void
must_find_what_is_held_from_what_is_waited(void **state)
{
    (void)state;
    for (unsigned k = 2; k <= 32; k *= 2)
        for (int i = 0; i < 5; i++) {
            double delay = ldexp(0.5 * k, i);
            double used = s_repairman_utilization(k, 1, delay), cycle = k / used;
            NEAR(sink_queue_demand(k, (cycle - 1 - delay) / cycle), 1 / cycle, 1e-6);
        }
    NEAR(sink_queue_demand(4, 0.75), 0.25, 1e-6);
    NEAR(sink_queue_demand(2, 0.2), 0.4, 1e-6);
    NEAR(sink_queue_cycle(2, 1, 1), 2.5, 1e-12);
    NEAR(sink_queue_cycle(1.25, 1, 1), 0.75 * 2 + 0.25 * 2.5, 1e-12);
    assert_true(sink_queue_demand(1, 0.5) == 0); /* not for its own GIL */
    assert_true(sink_queue_demand(8, 0) == 0);
    assert_true(sink_queue_demand(2, 0.9) <= 0.1 + 1e-9);
}

static void
must_not_be_sure_after_few_looks(void **state)
{
    (void)state;
    sink_range_t share = sink_queue_share(1, 10);
    NEAR(share.value, 0.98387, 1e-5);
    NEAR(share.lo, 0.72246, 1e-4); /* Wilson, by R's prop.test(10, 10, correct = FALSE) */
    NEAR(share.hi, 1, 1e-12);
    share = sink_queue_share(0.5, 100);
    NEAR(share.value, 0.5, 1e-12);
    NEAR(share.lo, 0.40383, 1e-4);
    NEAR(share.hi, 0.59617, 1e-4);
    share = sink_queue_share(0.5, 0);
    assert_true(isnan(share.value) && share.lo == 0 && share.hi == 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_solve_eight_threads_that_mostly_read),
        cmocka_unit_test(must_agree_with_the_repairman),
        cmocka_unit_test(must_find_what_is_held_from_what_is_waited),
        cmocka_unit_test(must_not_be_sure_after_few_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
