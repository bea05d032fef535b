/* sink_growth - whether the memory of the workers grows from chunk to chunk, and how many more
 * chunks fit. Pure: arithmetic on facts.
 *
 * Per worker: the Theil-Sen line through the resident memory at the end of its 1st, 2nd, ...
 * chunk. Memory that only fills up at first (imports, caches) is no growth: the interval covers
 * the slopes of the first and of the second half, too. Memory that a
 * garbage collector or an allocator releases again is not growth either: the interval also covers
 * the slopes of the low points of each third. What is stated are medians over the workers. */
#ifndef SINK_GROWTH_H
#define SINK_GROWTH_H

#include "sink_facts.h"

#define SINK_GROWTH_CHUNKS 12  /* of a worker: fewer say nothing */
#define SINK_GROWTH_WORKERS 64 /* of more, these are taken evenly */
#define SINK_GROWTH_POINTS 200 /* of a worker: more are thinned out */
#define SINK_GROWTH_SOON 10    /* times the chunks of a worker so far */
#define SINK_GROWTH_SHARE 0.2  /* of a worker's memory */

typedef struct {
    double per_chunk_b;    /* NaN: no worker had enough chunks */
    double low_b, high_b;  /* 95 % interval of it */
    double chunks_left;    /* until the fullest worker meets its limit; NaN: no limit, no growth */
    double now_b, limit_b; /* of that worker; NaN unknown */
    double chunks_per_worker;
    uint32_t worker;  /* the fullest, or without limits the largest; UINT32_MAX: none */
    size_t n_workers; /* with enough chunks */
    bool matters;     /* it grows, and either much or soon */
    bool soon;        /* towards a limit that is not far, or much and nobody knows the limit */
} sink_growth_t;

CREMA_MUST_CHECK crema_err_t sink_growth_find(const sink_facts_t *facts, sink_growth_t *ret_growth);

#endif
