/* sink_stats - order statistics and the robust line. Pure: arithmetic on arrays. */
#ifndef SINK_STATS_H
#define SINK_STATS_H

#include <stddef.h>

#include "crema_error.h"

static inline double
sink_least(double a, double b)
{
    return a < b ? a : b;
}

static inline double
sink_between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* A sum of values, some of which may be unknown. */
typedef struct {
    double known;
    size_t n, n_known;
} sink_sum_t;

/* NaN counts as unknown. */
void sink_sum_add(sink_sum_t *self, double value);

/* NaN if there were values but none was known. */
double sink_sum(const sink_sum_t *self);

/* Quantile p in [0, 1] of sorted values, interpolated linearly; NaN if n is 0. */
double sink_stats_quantile(const double *sorted, size_t n, double p);

/* The same of values in any order; moves them. */
double sink_stats_select(double *values, size_t n, double p);
double sink_stats_median(double *values, size_t n);

/* Above this number, points are thinned out evenly in order of x, since all pairs of points are
 * used. */
#define SINK_STATS_POINTS_MAX 1500

/* Below this ratio of the largest x to the smallest one there is no line: what distinguishes the
 * points is then not x, and a line through them is far off elsewhere. */
#define SINK_STATS_SPREAD 1.1

typedef struct {
    double a, b;       /* y = a + b x; NaN unless the x differ by SINK_STATS_SPREAD */
    double a_lo, a_hi; /* 95 % interval, from that of b */
    double b_lo, b_hi; /* 95 % interval from Kendall's variance (Sen 1968); NaN below 3 points */
    size_t n;          /* points given */
    size_t n_used;
} sink_line_t;

/* Theil-Sen: b is the median slope of all pairs with different x, a the median of y - b x.
 * No x is negative. `dir`: for a copy that is larger than memory; NULL: none. */
CREMA_MUST_CHECK crema_err_t sink_stats_line(const char *dir, const double *x, const double *y,
                                             size_t n, sink_line_t *ret_line);

/* Modified z score of each value: 0.6745 (x - median) / MAD; if the MAD is 0, (x - median) /
 * (1.253314 mean absolute deviation); 0 if all values are equal. */
CREMA_MUST_CHECK crema_err_t sink_stats_scores(const char *dir, const double *values, size_t n,
                                               double *scores);

#endif
