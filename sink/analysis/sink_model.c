#include "sink_model.h"

#include <math.h>
#include <stdlib.h>

#include "sink_grouped.h"
#include "sink_scratch.h"

/* Scratch arrays for one dataset. */
typedef struct {
    double *x, *y, *score;
    size_t *row;
} scratch_t;

double
sink_model_best_events(double work, double threads, double b_s)
{
    return work > 0 && threads > 0 && b_s > 0 ? sqrt(work / threads) / b_s : NAN;
}

/* All datasets share the threads, and the run waits for one last chunk: at the best sizes chunks
 * of all datasets take equally long. */
static void
s_size_chunks(sink_model_t *self, double threads)
{
    double work = 0;
    for (size_t i = 0; i < self->n_datasets; i++) {
        const sink_dataset_model_t *d = &self->datasets[i];
        if (d->line.a > 0 && d->line.b > 0)
            work += d->events * d->line.a * d->line.b;
    }
    for (size_t i = 0; i < self->n_datasets; i++) {
        sink_dataset_model_t *d = &self->datasets[i];
        d->n_opt_events = d->line.a > 0 ? sink_model_best_events(work, threads, d->line.b) : NAN;
    }
}

/* Points (events, time) of the members that have both; `of` gives the time of a chunk. */
static size_t
s_times(const sink_facts_t *facts, const sink_grouped_t *members, size_t n,
        double (*of)(const sink_chunk_t *), scratch_t *scratch)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const sink_chunk_t *chunk = &facts->chunks[members[i].row];
        double s = of(chunk);
        if (chunk->n_events < 0 || !(s > 0))
            continue;
        scratch->x[m] = (double)chunk->n_events;
        scratch->y[m] = s;
        scratch->row[m++] = members[i].row;
    }
    return m;
}

static size_t
s_memories(const sink_facts_t *facts, const sink_grouped_t *members, size_t n, scratch_t *scratch)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const sink_chunk_t *chunk = &facts->chunks[members[i].row];
        if (chunk->n_events < 0 || chunk->rss_peak_b <= 0)
            continue;
        scratch->x[m] = (double)chunk->n_events;
        scratch->y[m++] = (double)chunk->rss_peak_b;
    }
    return m;
}

/* The line's prediction for a chunk; if all chunks have nearly one size there is no line, and the
 * median is used. */
static double
s_predict(const sink_line_t *line, double median, double events)
{
    return isnan(line->b) ? median : line->a + line->b * events;
}

/* Scores of the chunks relative to the model; NaN if it predicts no time. *excess_s grows by their
 * time beyond it. */
static crema_err_t
s_score(const char *dir, const sink_line_t *line, scratch_t *scratch, size_t m, sink_fit_t *fit,
        double *excess_s)
{
    size_t k = 0;
    for (size_t i = 0; i < m; i++)
        scratch->score[i] = scratch->y[i];
    double median = sink_stats_median(scratch->score, m);
    for (size_t i = 0; i < m; i++) {
        double predicted = s_predict(line, median, scratch->x[i]), s = scratch->y[i];
        if (!(predicted > 0))
            continue;
        fit->predicted_s[scratch->row[i]] = predicted;
        if (s > predicted)
            *excess_s += s - predicted;
        scratch->row[k] = scratch->row[i];
        scratch->x[k++] = log(s / predicted);
    }
    crema_err_t err = sink_stats_scores(dir, scratch->x, k, scratch->score);
    for (size_t i = 0; err == CREMA_OK && i < k; i++)
        fit->score[scratch->row[i]] = scratch->score[i];
    return err;
}

/* The cost of chunks of one size, where opening and process() were measured apart. */
static void
s_measure(const sink_facts_t *facts, const sink_grouped_t *members, size_t n, scratch_t *scratch,
          sink_dataset_model_t *model)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const sink_chunk_t *chunk = &facts->chunks[members[i].row];
        double process_s = sink_chunk_process_s(chunk);
        if (chunk->n_events < 1 || isnan(chunk->open_s) || isnan(process_s))
            continue;
        scratch->x[m] = chunk->open_s;
        scratch->y[m++] = process_s / (double)chunk->n_events;
    }
    model->is_measured = m > 0;
    model->line.a = sink_stats_median(scratch->x, m);
    model->line.b = sink_stats_median(scratch->y, m);
}

static crema_err_t
s_model(sink_model_t *self, const sink_facts_t *facts, const sink_grouped_t *members, size_t n,
        scratch_t *scratch)
{
    sink_dataset_model_t *model = &self->datasets[self->n_datasets++];
    model->dataset = members[0].group;
    size_t m = s_memories(facts, members, n, scratch);
    crema_err_t err = sink_stats_line(facts->dir, scratch->x, scratch->y, m, &model->memory);
    m = s_times(facts, members, n, sink_chunk_s, scratch);
    if (err == CREMA_OK)
        err = sink_stats_line(facts->dir, scratch->x, scratch->y, m, &model->line);
    for (size_t i = 0; i < m; i++)
        model->events += scratch->x[i];
    if (err == CREMA_OK)
        err = s_score(facts->dir, &model->line, scratch, m, &self->whole, &self->excess_s);
    sink_line_t line;
    double unused = 0;
    m = s_times(facts, members, n, sink_chunk_process_s, scratch);
    if (err == CREMA_OK)
        err = sink_stats_line(facts->dir, scratch->x, scratch->y, m, &line);
    if (err == CREMA_OK)
        err = s_score(facts->dir, &line, scratch, m, &self->process, &unused);
    if (err == CREMA_OK && isnan(model->line.b))
        s_measure(facts, members, n, scratch, model);
    return err;
}

static crema_err_t
s_models(sink_model_t *self, const sink_facts_t *facts, double threads, sink_grouped_t *members,
         scratch_t *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        self->whole.score[i] = self->whole.predicted_s[i] = NAN;
        self->process.score[i] = self->process.predicted_s[i] = NAN;
        if (facts->chunks[i].counted)
            members[n++] = (sink_grouped_t){facts->chunks[i].dataset, i};
    }
    size_t m = s_memories(facts, members, n, scratch);
    crema_err_t err = sink_stats_line(facts->dir, scratch->x, scratch->y, m, &self->memory);
    sink_grouped_sort(members, n);
    size_t n_datasets = n > 0;
    for (size_t i = 1; i < n; i++)
        n_datasets += members[i].group != members[i - 1].group;
    if (!(self->datasets = calloc(n_datasets + 1, sizeof *self->datasets)))
        return CREMA_ENOMEM;
    for (size_t i = 0, end; err == CREMA_OK && i < n; i = end) {
        end = sink_grouped_end(members, n, i);
        err = s_model(self, facts, members + i, end - i, scratch);
    }
    if (err == CREMA_OK)
        s_size_chunks(self, threads);
    return err;
}

static void
s_make_fit(const char *dir, size_t n, sink_fit_t *fit, crema_err_t *err)
{
    fit->score = sink_scratch(dir, n, sizeof *fit->score, err);
    fit->predicted_s = sink_scratch(dir, n, sizeof *fit->predicted_s, err);
}

static void
s_free_fit(sink_fit_t *fit)
{
    sink_scratch_free(fit->score);
    sink_scratch_free(fit->predicted_s);
}

crema_err_t
sink_model_new(const sink_facts_t *facts, double threads, sink_model_t **ret_self)
{
    size_t n = facts->n_chunks + 1;
    sink_model_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = CREMA_OK;
    scratch_t scratch = {.x = sink_scratch(facts->dir, n, sizeof *scratch.x, &err),
                         .y = sink_scratch(facts->dir, n, sizeof *scratch.y, &err),
                         .score = sink_scratch(facts->dir, n, sizeof *scratch.score, &err),
                         .row = sink_scratch(facts->dir, n, sizeof *scratch.row, &err)};
    sink_grouped_t *members = sink_scratch(facts->dir, n, sizeof *members, &err);
    s_make_fit(facts->dir, n, &self->whole, &err);
    s_make_fit(facts->dir, n, &self->process, &err);
    if (err == CREMA_OK)
        err = s_models(self, facts, threads, members, &scratch);
    sink_scratch_free(scratch.x);
    sink_scratch_free(scratch.y);
    sink_scratch_free(scratch.score);
    sink_scratch_free(scratch.row);
    sink_scratch_free(members);
    if (err != CREMA_OK)
        sink_model_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_model_destroy(sink_model_t **self_p)
{
    sink_model_t *self = *self_p;
    if (!self)
        return;
    free(self->datasets);
    s_free_fit(&self->whole);
    s_free_fit(&self->process);
    free(self);
    *self_p = NULL;
}
