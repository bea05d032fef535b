/* causes - simulated runs with a planted cause each: what holds the run back is known, and so is
 * how long it would take without. */
#ifndef CAUSES_H
#define CAUSES_H

#include <stddef.h>
#include <stdio.h>

#include "diagnosis/cluster.h"

typedef struct {
    const char *name; /* as /summary/bottlenecks must call it; "compute" is the healthy run */
    const char *planted;
    void (*plant)(cluster_plan_t *plan);
    void (*cure)(
        cluster_plan_t *plan); /* the same run without it; NULL: there is nothing to cure */
} cause_t;

extern const cause_t causes[];
extern const size_t n_causes;

/* A healthy run, different for each seed; then with the cause. */
cluster_plan_t causes_healthy(uint64_t seed);
cluster_plan_t causes_planted(const cause_t *cause, uint64_t seed);

/* What the diagnosis says of the run. */
typedef struct {
    char first[32];           /* the name that comes first */
    double wall_s, without_s; /* of the run, and of the same without the cause */
    double saving_s, lo, hi;  /* of the planted cause's row; NaN unknown */
    double fraction;          /* of the capacity, of that row */
    char top[160];            /* the first rows, for people */
} judged_t;
judged_t causes_judge(const cause_t *cause, uint64_t seed);

/* Over the runs of some seeds. */
typedef struct {
    unsigned runs, first; /* the planted cause came first in so many */
    unsigned cured;       /* runs that were made again without it */
    unsigned near;        /* of these saving_s was within a quarter of what that saved */
    unsigned bounded,
        within; /* rows with bounds; what was saved lay between them, give or take 5 % */
} tally_t;

/* `out` may be NULL; else it gets a line for the cause and one for each run that was judged wrong,
 * or each if `all`. */
void causes_try(const cause_t *cause, uint64_t first, uint64_t seeds, FILE *out, bool all,
                tally_t *ret_tally);

#endif
