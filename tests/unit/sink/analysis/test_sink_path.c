/* sink_path: the longest chain of a task graph. */
#include <math.h>

#include "must.h"
#include "sink_path.h"

static void
must_find_the_longest_chain(void **state)
{
    (void)state;
    /* 0 -> 2 -> 4, 1 -> 2, 1 -> 3 -> 4: the way over 1 and 3 is longer. */
    const double durations[] = {1, 2, 3, 5, 0.5};
    sink_edge_t edges[] = {{2, 0}, {2, 1}, {4, 2}, {3, 1}, {4, 3}, {4, 3}};
    double s;
    must(sink_path_longest(NULL, durations, 5, edges, 6, &s));
    assert_true(fabs(s - 7.5) < 1e-12);
    must(sink_path_longest(NULL, durations, 5, edges, 0, &s));
    assert_true(s == 5);
    must(sink_path_longest(NULL, durations, 0, edges, 0, &s));
    assert_true(s == 0);
}

static void
must_refuse_a_circle(void **state)
{
    (void)state;
    const double durations[] = {1, 1, 1};
    sink_edge_t circle[] = {{1, 0}, {2, 1}, {0, 2}}, self_need[] = {{1, 1}};
    double s = -1;
    assert_int_equal(sink_path_longest(NULL, durations, 3, circle, 3, &s), CREMA_EINVAL);
    assert_int_equal(sink_path_longest(NULL, durations, 3, self_need, 1, &s), CREMA_EINVAL);
    assert_true(s == -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_find_the_longest_chain),
                                       cmocka_unit_test(must_refuse_a_circle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
