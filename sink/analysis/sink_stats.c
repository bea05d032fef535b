#include "sink_stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sink_scratch.h"
#include "sink_sort.h"

#define Z_975 1.959963984540054

void
sink_sum_add(sink_sum_t *self, double value)
{
    self->n++;
    if (isnan(value))
        return;
    self->n_known++;
    self->known += value;
}

double
sink_sum(const sink_sum_t *self)
{
    return self->n > 0 && self->n_known == 0 ? NAN : self->known;
}

double
sink_stats_quantile(const double *sorted, size_t n, double p)
{
    if (n == 0)
        return NAN;
    double at = p * (double)(n - 1);
    size_t below = (size_t)at;
    if (below >= n - 1)
        return sorted[n - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double
sink_stats_select(double *values, size_t n, double p)
{
    if (n == 0)
        return NAN;
    const double at = p * (double)(n - 1);
    const size_t below = (size_t)at < n - 1 ? (size_t)at : n - 1;
    sink_select_real(values, n, below);
    if (below == n - 1)
        return values[below];
    sink_select_real(values + below + 1, n - below - 1, 0);
    return sink_stats_quantile(values + below, 2, at - (double)below);
}

double
sink_stats_median(double *values, size_t n)
{
    return sink_stats_select(values, n, 0.5);
}

/* ---- the line */

typedef struct {
    double x, y;
} point_t;

static int
s_by_x(const void *a, const void *b)
{
    const point_t *left = a, *right = b;
    if (left->x != right->x)
        return left->x < right->x ? -1 : 1;
    return (left->y > right->y) - (left->y < right->y);
}

/* The points sorted by x and thinned out evenly; *ret_n of them. */
static point_t *
s_points(const char *dir, const double *x, const double *y, size_t n, size_t *ret_n,
         crema_err_t *err)
{
    point_t *points = sink_scratch(dir, n + 1, sizeof *points, err);
    if (!points)
        return NULL;
    for (size_t i = 0; i < n; i++)
        points[i] = (point_t){x[i], y[i]};
    /* In the order of their bits, which is that of reals that are not negative. */
    sink_sort_by_int64(points, n, sizeof *points, s_by_x);
    size_t used = n < SINK_STATS_POINTS_MAX ? n : SINK_STATS_POINTS_MAX;
    for (size_t i = 0; i < used; i++)
        points[i] = points[used == n ? i : i * (n - 1) / (used - 1)];
    *ret_n = used;
    return points;
}

/* The value with that rank in ascending order, if those from `from` to before `to` have the same
 * ranks as if all were sorted. Afterwards the same holds on either side of the rank. */
static double
s_ranked(double *values, size_t from, size_t to, size_t rank)
{
    sink_select_real(values + from, to - from, rank - from);
    return values[rank];
}

/* The slope and its bounds, from at least one slope. The bounds come first: what is between them
 * is little. */
static void
s_middle_slopes(double *slopes, size_t n, double reach, sink_line_t *line)
{
    const double half = (double)n / 2, last = (double)n - 1;
    const double below = rint(half - reach) - 1, above = rint(half + reach);
    const size_t low = below < 0 ? 0 : (size_t)below, high = above > last ? n - 1 : (size_t)above;
    const size_t middle = (n - 1) / 2; /* of an even number the first of two */
    line->b_lo = s_ranked(slopes, 0, n, low);
    line->b_hi = s_ranked(slopes, low, n, high);
    const double pair[2] = {s_ranked(slopes, low, high + 1, middle),
                            s_ranked(slopes, middle, high + 1, n / 2)};
    line->b = sink_stats_quantile(pair, n % 2 ? 1 : 2, 0.5);
}

static double
s_intercept(const point_t *points, size_t n, double b, double *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = points[i].y - b * points[i].x;
    return sink_stats_median(scratch, n);
}

/* Slopes of all pairs with different x. */
static size_t
s_slopes(const point_t *points, size_t n, double *slopes)
{
    size_t n_slopes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (points[j].x > points[i].x)
                slopes[n_slopes++] = (points[j].y - points[i].y) / (points[j].x - points[i].x);
    return n_slopes;
}

/* Sum of k (k - 1) (2 k + 5) over the groups of k equal values; sorts them. */
static double
s_ties(double *values, size_t n)
{
    double sum = 0;
    sink_sort_reals(values, n);
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && values[end] == values[i])
            end++;
        double k = (double)(end - i);
        sum += k * (k - 1) * (2 * k + 5);
    }
    return sum;
}

/* Half the width of the rank interval that contains the slope at 95 %, by Kendall's variance
 * with ties. */
static double
s_reach(const point_t *points, size_t n, double *scratch)
{
    double k = (double)n, variance = k * (k - 1) * (2 * k + 5);
    for (size_t i = 0; i < n; i++)
        scratch[i] = points[i].x;
    variance -= s_ties(scratch, n);
    for (size_t i = 0; i < n; i++)
        scratch[i] = points[i].y;
    variance -= s_ties(scratch, n);
    return variance > 0 ? Z_975 * sqrt(variance / 18) / 2 : 0;
}

crema_err_t
sink_stats_line(const char *dir, const double *x, const double *y, size_t n, sink_line_t *ret_line)
{
    sink_line_t line = {NAN, NAN, NAN, NAN, NAN, NAN, n, 0};
    size_t m = 0;
    crema_err_t err = CREMA_OK;
    point_t *points = s_points(dir, x, y, n, &m, &err);
    double *slopes = sink_scratch(NULL, m * m / 2 + 1, sizeof *slopes, &err);
    double *scratch = sink_scratch(NULL, m + 1, sizeof *scratch, &err);
    if (err != CREMA_OK) {
        sink_scratch_free(slopes);
        sink_scratch_free(points);
        return err;
    }
    line.n_used = m;
    const bool alike = m > 0 && points[m - 1].x < SINK_STATS_SPREAD * points[0].x;
    size_t n_slopes = alike ? 0 : s_slopes(points, m, slopes);
    if (n_slopes > 0) {
        s_middle_slopes(slopes, n_slopes, s_reach(points, m, scratch), &line);
        line.a = s_intercept(points, m, line.b, scratch);
        line.a_lo = s_intercept(points, m, line.b_hi, scratch);
        line.a_hi = s_intercept(points, m, line.b_lo, scratch);
        if (m < 3)
            line.b_lo = line.b_hi = line.a_lo = line.a_hi = NAN;
    }
    sink_scratch_free(scratch);
    sink_scratch_free(slopes);
    sink_scratch_free(points);
    *ret_line = line;
    return CREMA_OK;
}

/* ---- scores */

crema_err_t
sink_stats_scores(const char *dir, const double *values, size_t n, double *scores)
{
    crema_err_t err = CREMA_OK;
    double *scratch = sink_scratch(dir, n + 1, sizeof *scratch, &err);
    if (!scratch)
        return err;
    if (n > 0)
        memcpy(scratch, values, n * sizeof *scratch);
    double median = sink_stats_median(scratch, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        scratch[i] = fabs(values[i] - median);
        sum += scratch[i];
    }
    double mad = sink_stats_median(scratch, n), mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++) {
        if (mad > 0)
            scores[i] = 0.6745 * (values[i] - median) / mad;
        else if (mean > 0)
            scores[i] = (values[i] - median) / (1.253314 * mean);
        else
            scores[i] = 0;
    }
    sink_scratch_free(scratch);
    return CREMA_OK;
}
