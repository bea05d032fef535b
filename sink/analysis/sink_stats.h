/* sink_stats - order statistics and the robust line.
 * Pure: arithmetic on arrays. */
#ifndef SINK_STATS_H
#define SINK_STATS_H

#include <stddef.h>

#include "crema_error.h"

/* A sum of values of which some are not known. */
typedef struct {
    double known;
    size_t n, n_known;
} sink_sum_t;

/* NaN: one that is not known. */
void sink_sum_add(sink_sum_t *self, double value);

/* NaN if there were values and none was known. */
double sink_sum(const sink_sum_t *self);

/* Ascending order; values must not be NaN. */
void sink_stats_sort(double *values, size_t n);

/* Of sorted values, with linear interpolation between neighbours (p in [0, 1]); NaN of nothing. */
double sink_stats_quantile(const double *sorted, size_t n, double p);

/* Sorts the values. */
double sink_stats_median(double *values, size_t n);

/* Points above this number are thinned out evenly in order of x: all pairs of points are looked at. */
#define SINK_STATS_POINTS_MAX 1500

typedef struct {
    double a, b;       /* y = a + b x; NaN if there are no two different x */
    double a_lo, a_hi; /* at 95 %, from b's */
    double b_lo, b_hi; /* at 95 %, by Kendall's variance (Sen 1968); NaN below 3 points */
    size_t n;          /* points given */
    size_t n_used;
} sink_line_t;

/* Theil-Sen: b is the median slope of all pairs with different x, a the median of y - b x. */
CREMA_MUST_CHECK crema_err_t sink_stats_line(const double *x, const double *y, size_t n,
                                             sink_line_t *ret_line);

/* Modified z score of each value: 0.6745 (x - median) / MAD, or (x - median) / (1.253314 mean absolute deviation) where the MAD is 0, or 0 where
 * all values are the same. */
CREMA_MUST_CHECK crema_err_t sink_stats_scores(const double *values, size_t n, double *scores);

typedef struct {
    double a, b;      /* y = a u + b v */
    double a_error;   /* standard error of a */
    double collinear; /* square of the cosine between u and v: near 1 they cannot be told apart */
} sink_plane_t;

/* Least squares without an intercept; all NaN below three points. */
sink_plane_t sink_stats_plane(const double *u, const double *v, const double *y, size_t n);

#endif
