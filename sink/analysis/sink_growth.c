#include "sink_growth.h"

#include <math.h>
#include <string.h>

#include "sink_scratch.h"
#include "sink_sort.h"
#include "sink_stats.h"

/* The points of one worker, thinned out. */
typedef struct {
    double at[SINK_GROWTH_POINTS], rss_b[SINK_GROWTH_POINTS];
    size_t n;
} series_t;

/* What is kept of each worker. */
typedef struct {
    double slope_b, low_b, high_b;
    double last_b, limit_b, chunks;
    uint32_t worker;
} grown_t;

/* The chunks of each worker: where the rows of worker w begin in `rows`, in order of time. */
typedef struct {
    size_t *first; /* n_workers + 1 */
    size_t *rows;
} by_worker_t;

static void
s_free(by_worker_t *self)
{
    sink_scratch_free(self->first);
    sink_scratch_free(self->rows);
}

static bool
s_is_known(const sink_facts_t *facts, size_t i)
{
    return facts->chunks[i].worker < facts->n_workers && facts->chunks[i].rss_end_b > 0;
}

static crema_err_t
s_sort(const sink_facts_t *facts, by_worker_t *ret)
{
    crema_err_t err = CREMA_OK;
    by_worker_t by = {.first = sink_scratch(facts->dir, facts->n_workers + 2, sizeof(size_t), &err),
                      .rows = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof(size_t), &err)};
    if (err != CREMA_OK) {
        s_free(&by);
        return err;
    }
    for (size_t i = 0; i < facts->n_chunks; i++)
        if (s_is_known(facts, i))
            by.first[facts->chunks[i].worker + 2]++;
    for (size_t w = 0; w < facts->n_workers; w++)
        by.first[w + 2] += by.first[w + 1];
    for (size_t i = 0; i < facts->n_chunks; i++)
        if (s_is_known(facts, i))
            by.rows[by.first[facts->chunks[i].worker + 1]++] = i;
    *ret = by;
    return CREMA_OK;
}

static void
s_take(const sink_facts_t *facts, const by_worker_t *by, uint32_t w, series_t *series)
{
    size_t n = by->first[w + 1] - by->first[w];
    series->n = n < SINK_GROWTH_POINTS ? n : SINK_GROWTH_POINTS;
    for (size_t i = 0; i < series->n; i++) {
        size_t nth = i * (n - 1) / (series->n - 1);
        series->at[i] = (double)nth;
        series->rss_b[i] = (double)facts->chunks[by->rows[by->first[w] + nth]].rss_end_b;
    }
}

/* Slope of the points [from, to). */
static crema_err_t
s_slope(const series_t *series, size_t from, size_t to, sink_line_t *ret_line)
{
    double x[SINK_GROWTH_POINTS];
    for (size_t i = from; i < to; i++)
        x[i - from] = series->at[i] - series->at[from];
    return sink_stats_line(NULL, x, series->rss_b + from, to - from, ret_line);
}

/* The tenth of the points that is lowest ends here. */
static double
s_low(const series_t *series, size_t from, size_t to)
{
    double sorted[SINK_GROWTH_POINTS];
    memcpy(sorted, series->rss_b + from, (to - from) * sizeof *sorted);
    sink_sort_reals(sorted, to - from);
    return sorted[(to - from) / 10];
}

/* Slopes of the low points of each third: memory that is released between chunks is not a leak. */
static void
s_bound_by_low_points(const series_t *series, grown_t *grown)
{
    for (size_t third = 0; third < 2; third++) {
        size_t from = third * series->n / 3, mid = (third + 1) * series->n / 3,
               to = (third + 2) * series->n / 3;
        double rise_b = s_low(series, mid, to) - s_low(series, from, mid);
        grown->low_b = fmin(grown->low_b, rise_b / (series->at[mid] - series->at[from]));
    }
}

static crema_err_t
s_grow(const series_t *series, grown_t *grown)
{
    sink_line_t line, half;
    size_t n = series->n;
    crema_err_t err = s_slope(series, 0, n, &line);
    grown->slope_b = line.b;
    grown->low_b = line.b_lo;
    grown->high_b = line.b_hi;
    for (int i = 0; i < 2 && err == CREMA_OK; i++) {
        err = s_slope(series, i ? n / 2 : 0, i ? n : n / 2, &half);
        grown->low_b = fmin(grown->low_b, half.b);
        grown->high_b = fmax(grown->high_b, half.b);
    }
    s_bound_by_low_points(series, grown);
    grown->last_b = series->rss_b[n - 1];
    return err;
}

/* The lowest limit in the samples of each worker. */
static void
s_find_limits(const sink_facts_t *facts, grown_t *grown, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < facts->n_samples; i++) {
        const sink_sample_t *sample = &facts->samples[i]; /* by worker, as `grown` is */
        while (at < n && grown[at].worker < sample->worker)
            at++;
        if (at < n && grown[at].worker == sample->worker && sample->memory_limit_b > 0)
            grown[at].limit_b = fmin(grown[at].limit_b, (double)sample->memory_limit_b);
    }
}

static double
s_median(const grown_t *grown, size_t n, size_t offset)
{
    double values[SINK_GROWTH_WORKERS];
    for (size_t i = 0; i < n; i++)
        values[i] = *(const double *)(const void *)((const char *)&grown[i] + offset);
    return sink_stats_median(values, n);
}

/* The worker with the least room, else the largest one. */
static void
s_find_fullest(const grown_t *grown, size_t n, sink_growth_t *growth)
{
    const grown_t *fullest = &grown[0];
    for (size_t i = 1; i < n; i++) {
        double room = grown[i].limit_b - grown[i].last_b;
        double least = fullest->limit_b - fullest->last_b;
        if (room < least || (isnan(least) && grown[i].last_b > fullest->last_b) ||
            (isnan(least) && !isnan(room)))
            fullest = &grown[i];
    }
    growth->worker = fullest->worker;
    growth->now_b = fullest->last_b;
    growth->limit_b = fullest->limit_b;
    if (growth->low_b > 0 && !isnan(fullest->limit_b))
        growth->chunks_left = fmax(fullest->limit_b - fullest->last_b, 0) / growth->per_chunk_b;
}

static void
s_judge(sink_growth_t *growth)
{
    double surely_b = growth->low_b * growth->chunks_per_worker; /* in the run */
    double room_b = growth->limit_b - growth->now_b;
    bool grows = growth->low_b > 0, much = grows && surely_b >= SINK_GROWTH_SHARE * growth->now_b;
    growth->soon = isnan(growth->limit_b) ? much : grows && room_b <= SINK_GROWTH_SOON * surely_b;
    growth->matters = much || growth->soon;
}

static crema_err_t
s_find(const sink_facts_t *facts, const by_worker_t *by, sink_growth_t *growth)
{
    crema_err_t err = CREMA_OK;
    size_t enough = 0, seen = 0, n = 0;
    grown_t grown[SINK_GROWTH_WORKERS];
    for (uint32_t w = 0; w < facts->n_workers; w++)
        enough += by->first[w + 1] - by->first[w] >= SINK_GROWTH_CHUNKS;
    size_t wanted = enough < SINK_GROWTH_WORKERS ? enough : SINK_GROWTH_WORKERS;
    for (uint32_t w = 0; w < facts->n_workers && err == CREMA_OK && n < wanted; w++) {
        size_t chunks = by->first[w + 1] - by->first[w];
        if (chunks < SINK_GROWTH_CHUNKS || seen++ < n * enough / wanted)
            continue;
        series_t series;
        grown[n] = (grown_t){.worker = w, .chunks = (double)chunks, .limit_b = NAN};
        s_take(facts, by, w, &series);
        err = s_grow(&series, &grown[n++]);
    }
    growth->n_workers = enough;
    if (err != CREMA_OK || n == 0)
        return err;
    s_find_limits(facts, grown, n);
    growth->per_chunk_b = s_median(grown, n, offsetof(grown_t, slope_b));
    growth->low_b = s_median(grown, n, offsetof(grown_t, low_b));
    growth->high_b = s_median(grown, n, offsetof(grown_t, high_b));
    growth->chunks_per_worker = s_median(grown, n, offsetof(grown_t, chunks));
    s_find_fullest(grown, n, growth);
    s_judge(growth);
    return CREMA_OK;
}

crema_err_t
sink_growth_find(const sink_facts_t *facts, sink_growth_t *ret_growth)
{
    sink_growth_t growth = {.per_chunk_b = NAN,
                            .low_b = NAN,
                            .high_b = NAN,
                            .chunks_left = NAN,
                            .now_b = NAN,
                            .limit_b = NAN,
                            .chunks_per_worker = NAN,
                            .worker = UINT32_MAX};
    by_worker_t by = {0};
    crema_err_t err = s_sort(facts, &by);
    if (err != CREMA_OK)
        return err;
    err = s_find(facts, &by, &growth);
    s_free(&by);
    if (err == CREMA_OK)
        *ret_growth = growth;
    return err;
}
