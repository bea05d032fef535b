/* sink_stats: quantiles, Theil-Sen against SciPy, scores. */
#include <math.h>
#include <stdlib.h>

#include "must.h"
#include "sink_sort.h"
#include "sink_stats.h"

#define NEAR(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

static void
must_interpolate_quantiles(void **state)
{
    (void)state;
    double values[] = {1, 2, 3, 4, 10};
    NEAR(sink_stats_median(values, 5), 3, 0);
    NEAR(sink_stats_quantile(values, 5, 0), 1, 0);
    NEAR(sink_stats_quantile(values, 5, 0.25), 2, 0);
    NEAR(sink_stats_quantile(values, 5, 0.95), 8.8, 1e-12);
    NEAR(sink_stats_quantile(values, 5, 1), 10, 0);
    assert_true(isnan(sink_stats_quantile(values, 0, 0.5)));
}

static void
must_select_the_quantiles_of_sorted_values(void **state)
{
    (void)state;
    enum { N = 1000 };
    static const double shares[] = {0.5, 0, 0.95, 1, 0.123};
    static double values[N], sorted[N];
    for (size_t n = 1; n <= N; n = n < 30 ? n + 1 : n * 3) {
        for (size_t i = 0; i < n; i++)
            values[i] = sorted[i] = (double)(i * 7919 % 613) * 0.37;
        sink_sort_reals(sorted, n);
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
            NEAR(sink_stats_select(values, n, shares[k]), sink_stats_quantile(sorted, n, shares[k]),
                 0);
    }
    assert_true(isnan(sink_stats_select(values, 0, 0.5)));
}

/* scipy.stats.theilslopes of the same points; its intercept is another one, ours is the median of
 * y - b x. */
static void
must_find_the_line_that_scipy_finds(void **state)
{
    (void)state;
    const double x[] = {100, 220, 300, 410, 480, 600, 650, 730, 810, 900, 1000, 1000};
    const double y[] = {0.51, 0.72, 0.95, 1.12, 1.23, 2.4, 1.62, 1.75, 1.96, 2.05, 2.33, 2.28};
    sink_line_t line;
    must(sink_stats_line(NULL, x, y, 12, &line));
    NEAR(line.b, 0.00196875, 1e-12);
    NEAR(line.b_lo, 0.0018857142857142848, 1e-12);
    NEAR(line.b_hi, 0.0021, 1e-12);
    NEAR(line.a, 0.31296875, 1e-12);
    assert_true(line.a_lo <= line.a && line.a <= line.a_hi);
    assert_int_equal(line.n_used, 12);
}

static void
must_find_the_line_of_the_toy_run(void **state)
{
    (void)state;
    const double x[] = {300, 300, 450, 50}, y[] = {3, 3, 4.5, 0.8};
    sink_line_t line;
    must(sink_stats_line(NULL, x, y, 4, &line));
    NEAR(line.b, 0.00925, 1e-15);
    NEAR(line.a, 0.28125, 1e-12);
}

static void
must_know_no_line_without_two_different_x(void **state)
{
    (void)state;
    const double x[] = {5, 5, 5}, y[] = {1, 2, 3};
    sink_line_t line;
    for (size_t n = 0; n <= 3; n++) {
        must(sink_stats_line(NULL, x, y, n, &line));
        assert_true(isnan(line.a) && isnan(line.b) && isnan(line.b_lo));
        assert_int_equal(line.n, n);
    }
}

/* coffea divides a file of 20,000 events into 12 chunks of 1539 and one of 1532: what one takes
 * longer than another says nothing of an event. */
static void
must_know_no_line_of_sizes_that_are_nearly_one(void **state)
{
    (void)state;
    double x[] = {1539, 1539, 1532, 1400}, y[] = {1.2, 0.9, 0.6, 0.8};
    sink_line_t line;
    must(sink_stats_line(NULL, x, y, 4, &line));
    assert_true(isnan(line.a) && isnan(line.b) && isnan(line.b_lo) && isnan(line.a_hi));
    assert_int_equal(line.n, 4);
    x[3] = 1399; /* 1.1 times as many */
    must(sink_stats_line(NULL, x, y, 4, &line));
    assert_false(isnan(line.a) || isnan(line.b));
}

static void
must_thin_out_many_points(void **state)
{
    (void)state;
    enum { N = 20000, KINK = N / 4 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = 1000 + (i * 7919 % N);
        y[i] = 0.25 + 1e-3 * x[i] + (i % 5 == 0 ? 9 : 0); /* one fifth is far off */
    }
    sink_line_t line;
    must(sink_stats_line(NULL, x, y, N, &line));
    NEAR(line.b, 1e-3, 1e-5);
    NEAR(line.a, 0.25, 0.2);
    assert_int_equal(line.n, N);
    assert_int_equal(line.n_used, SINK_STATS_POINTS_MAX);
    for (int i = 0; i < N; i++) { /* a kink at a quarter: what is used is from everywhere */
        x[i] = i;
        y[i] = i < KINK ? i : KINK + 3.0 * (i - KINK);
    }
    must(sink_stats_line(NULL, x, y, N, &line));
    NEAR(line.b, 3, 0.01);
    free(x);
    free(y);
}

static void
must_score_by_mad_or_mean_deviation(void **state)
{
    (void)state;
    double scores[6];
    const double spread[] = {1, 2, 3, 4, 100}, flat[] = {5, 5, 5, 5, 5, 8}, same[] = {2, 2, 2};
    must(sink_stats_scores(NULL, spread, 5, scores));
    NEAR(scores[2], 0, 0);
    NEAR(scores[4], 0.6745 * 97, 1e-9); /* MAD 1 */
    must(sink_stats_scores(NULL, flat, 6, scores));
    NEAR(scores[5], 3 / (1.253314 * 0.5), 1e-9);
    NEAR(scores[0], 0, 0);
    must(sink_stats_scores(NULL, same, 3, scores));
    NEAR(scores[1], 0, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_interpolate_quantiles),
        cmocka_unit_test(must_select_the_quantiles_of_sorted_values),
        cmocka_unit_test(must_find_the_line_that_scipy_finds),
        cmocka_unit_test(must_find_the_line_of_the_toy_run),
        cmocka_unit_test(must_know_no_line_without_two_different_x),
        cmocka_unit_test(must_know_no_line_of_sizes_that_are_nearly_one),
        cmocka_unit_test(must_thin_out_many_points),
        cmocka_unit_test(must_score_by_mad_or_mean_deviation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
