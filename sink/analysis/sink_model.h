/* sink_model - the cost of a chunk (a + b n per dataset), the best chunk size, and outliers.
 * Pure: arithmetic on the facts.
 *
 * The time of a chunk is opening and process(): both are paid for every chunk. With N threads
 * and chunks of n_d events, datasets d of E_d events take about sum (E_d a_d / (N n_d) + E_d b_d
 * / N) + max (a_d + b_d n_d), which is least at n_d = sqrt(sum E a b / N) / b_d; for a single
 * dataset that is sqrt(E a / (N b)). A straggler is a chunk whose log(time / (a + b n)) has a
 * modified z score above SINK_MODEL_STRAGGLER within its dataset, so size alone does not make a
 * straggler. If the sizes differ by less than a tenth, the median time replaces a + b n in the
 * score, and the cost is what was measured: a is the median of opening, b that of process() per
 * event, without bounds. process() alone has a model of the same kind: where opening scatters,
 * what is slow in process() does not stand out of the whole. */
#ifndef SINK_MODEL_H
#define SINK_MODEL_H

#include "sink_facts.h"
#include "sink_stats.h"

#define SINK_MODEL_STRAGGLER 3.5

typedef struct {
    uint32_t dataset;
    sink_line_t line;    /* seconds over events */
    bool is_measured;    /* no line was fitted: a is that of opening, b that of process() */
    sink_line_t memory;  /* bytes of peak memory over events */
    double events;       /* in its chunks */
    double n_opt_events; /* for all datasets together; NaN unless a and b are positive */
} sink_dataset_model_t;

/* How the times of chunks compare with what their sizes predict; by row of /chunks. */
typedef struct {
    double *score; /* NaN unless counted and modelled */
    double *predicted_s;
} sink_fit_t;

typedef struct {
    sink_dataset_model_t *datasets; /* those with counted attempts, by row of /dict/dataset */
    size_t n_datasets;
    sink_line_t memory; /* of all counted attempts */
    sink_fit_t whole;   /* of opening and process() */
    sink_fit_t process; /* of process() alone */
    double excess_s;    /* total time of counted attempts beyond the model */
} sink_model_t;

/* `threads` is the time average. */
CREMA_MUST_CHECK crema_err_t sink_model_new(const sink_facts_t *facts, double threads,
                                            sink_model_t **ret_self);
void sink_model_destroy(sink_model_t **self_p);

/* `work`: sum of E a b over the datasets. */
double sink_model_best_events(double work, double threads, double b_s);

#endif
