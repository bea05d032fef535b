/* Sums over a run, its workers, datasets and passes; and the parallel factors. */
#include <math.h>
#include <stdlib.h>

#include "sink_attempt.h"
#include "sink_intern.h"
#include "sink_summary.h"

double
sink_ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

int64_t
sink_tally_int(const sink_sum_t *sum)
{
    double value = sink_sum(sum);
    return isnan(value) ? -1 : (int64_t)value;
}

/* ---- one pass over the chunks */

static void
s_tally(sink_tally_t *tally, const sink_chunk_t *chunk)
{
    tally->chunks++;
    sink_sum_add(&tally->events, chunk->n_events < 0 ? NAN : (double)chunk->n_events);
    sink_sum_add(&tally->bytes_b, chunk->bytes_read_b < 0 ? NAN : (double)chunk->bytes_read_b);
    sink_sum_add(&tally->wall_s, sink_chunk_process_s(chunk));
    sink_sum_add(&tally->open_s, chunk->open_s);
    sink_sum_add(&tally->cpu_s, chunk->cpu_s);
    sink_sum_add(&tally->gc_s, chunk->gc_s);
}

/* Those of its events in the steady window; a chunk across its edge counts in proportion. */
static double
s_steady_events(const sink_facts_t *facts, const sink_chunk_t *chunk)
{
    const int64_t t0 = facts->sweep.t_steady0_ns, t1 = facts->sweep.t_steady1_ns;
    const int64_t from = chunk->t_start_ns > t0 ? chunk->t_start_ns : t0;
    const int64_t to = chunk->t_end_ns < t1 ? chunk->t_end_ns : t1;
    if (chunk->n_events <= 0 || chunk->t_end_ns < t0 || chunk->t_start_ns > t1)
        return 0;
    if (chunk->t_end_ns <= chunk->t_start_ns)
        return (double)chunk->n_events;
    return to > from ? (double)chunk->n_events * (double)(to - from) /
                           (double)(chunk->t_end_ns - chunk->t_start_ns)
                     : 0;
}

/* An attempt, counted or not. */
static void
s_take_attempt(sink_sums_t *self, const sink_facts_t *facts, const sink_chunk_t *chunk)
{
    if (chunk->status <= CREMA_CHUNK_PARTIAL)
        self->by_status[chunk->status]++;
    self->superseded += sink_chunk_returned(chunk->status) && !chunk->counted;
    if (chunk->rss_peak_b > self->rss_peak_b)
        self->rss_peak_b = chunk->rss_peak_b;
    if (chunk->worker < facts->n_workers &&
        chunk->rss_peak_b > self->workers[chunk->worker].rss_peak_b)
        self->workers[chunk->worker].rss_peak_b = chunk->rss_peak_b;
    sink_pass_sum_t *pass = &self->passes[chunk->pass];
    pass->attempts++;
    if (pass->t_start_ns == 0 || chunk->t_start_ns < pass->t_start_ns)
        pass->t_start_ns = chunk->t_start_ns;
    if (chunk->t_end_ns > pass->t_end_ns)
        pass->t_end_ns = chunk->t_end_ns;
    if (!chunk->counted)
        pass->wasted_s += sink_chunk_s(chunk);
    if (chunk->pass >= self->n_passes)
        self->n_passes = (size_t)chunk->pass + 1;
}

static void
s_take_counted(sink_sums_t *self, const sink_facts_t *facts, const sink_chunk_t *chunk,
               bool is_predicted, sink_tally_t *all)
{
    const double s = sink_chunk_s(chunk);
    s_tally(all, chunk);
    s_tally(&self->passes[chunk->pass].counted, chunk);
    if (chunk->worker < facts->n_workers) {
        s_tally(&self->workers[chunk->worker].counted, chunk);
        self->workers[chunk->worker].n_scores += is_predicted;
    }
    if (chunk->dataset < self->n_datasets)
        s_tally(&self->datasets[chunk->dataset].counted, chunk);
    if (isnan(self->longest_s) || s > self->longest_s)
        self->longest_s = s;
    self->steady_events += s_steady_events(facts, chunk);
    if (chunk->n_requests > 0 && chunk->bytes_read_b >= 0) {
        sink_sum_add(&self->requests, (double)chunk->n_requests);
        sink_sum_add(&self->requested_b, (double)chunk->bytes_read_b);
    }
    if (chunk->bytes_accessed_b > 0 && chunk->bytes_uncompressed_b > 0) {
        sink_sum_add(&self->compressed_b, (double)chunk->bytes_accessed_b);
        sink_sum_add(&self->uncompressed_b, (double)chunk->bytes_uncompressed_b);
    }
    if (chunk->n_events > 0 && chunk->rss_start_b >= 0 && chunk->rss_end_b >= 0)
        sink_sum_add(&self->growth_b_per_event,
                     (double)(chunk->rss_end_b - chunk->rss_start_b) / (double)chunk->n_events);
}

/* Counts the chunk's file if it is the first counted one of its dataset. */
static crema_err_t
s_take_file(sink_sums_t *self, sink_intern_t *seen, const sink_chunk_t *chunk)
{
    const uint32_t key[2] = {chunk->dataset, chunk->file};
    uint32_t number;
    bool fresh;
    if (chunk->dataset >= self->n_datasets || chunk->file == UINT32_MAX)
        return CREMA_OK;
    crema_err_t err = sink_intern_add(seen, key, sizeof key, &number, &fresh);
    if (err == CREMA_OK && fresh)
        self->datasets[chunk->dataset].files++;
    return err;
}

/* NaN: nothing to add up, or none of it known. */
static double
s_or_nothing(const sink_sum_t *sum)
{
    return sum->n > 0 ? sink_sum(sum) : NAN;
}

static sink_totals_t
s_totals(const sink_budget_t *budget, const sink_tally_t *all)
{
    return (sink_totals_t){
        .W = budget->wall_s,
        .A = budget->alloc_s,
        .cap = budget->cap_s,
        .N = sink_ratio(budget->alloc_s, budget->wall_s),
        .noncpu = sink_budget_knows_cpu(budget) ? budget->all.noncpu_s + budget->all.user_s : NAN,
        .n = all->chunks,
        .no_cpu = all->cpu_s.n_known < all->cpu_s.n,
        .no_bytes = all->bytes_b.n_known < all->bytes_b.n,
        .no_open = all->open_s.n_known < all->open_s.n,
        .no_process = all->wall_s.n_known < all->wall_s.n,
        .no_gc = all->gc_s.n_known < all->gc_s.n,
        .E = s_or_nothing(&all->events),
        .P = s_or_nothing(&all->wall_s),
        .C = s_or_nothing(&all->cpu_s),
        .B = s_or_nothing(&all->bytes_b),
        .open = s_or_nothing(&all->open_s),
        .gc = s_or_nothing(&all->gc_s),
    };
}

void
sink_sums_clear(sink_sums_t *self)
{
    free(self->workers);
    free(self->datasets);
    free(self->passes);
    *self = (sink_sums_t){0};
}

crema_err_t
sink_summary_sum(const sink_summary_t *self, sink_sums_t *ret_sums)
{
    const sink_facts_t *facts = self->facts;
    sink_tally_t all = {0};
    sink_intern_t *files = NULL;
    sink_sums_t sums = {
        .longest_s = NAN,
        .n_datasets = sink_rows_count(sink_tables_rows(self->tables, CREMA_TABLE_DICT_DATASET)),
    };
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &files);
    sums.workers = calloc(facts->n_workers + 1, sizeof *sums.workers);
    sums.datasets = calloc(sums.n_datasets + 1, sizeof *sums.datasets);
    sums.passes = calloc((size_t)UINT16_MAX + 1, sizeof *sums.passes);
    if (!sums.workers || !sums.datasets || !sums.passes)
        err = CREMA_ENOMEM;
    for (size_t i = 0; err == CREMA_OK && i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        s_take_attempt(&sums, facts, chunk);
        if (!chunk->counted)
            continue;
        s_take_counted(&sums, facts, chunk, !isnan(self->model->whole.score[i]), &all);
        err = s_take_file(&sums, files, chunk);
    }
    sink_intern_destroy(&files);
    if (err != CREMA_OK) {
        sink_sums_clear(&sums);
        return err;
    }
    sums.totals = s_totals(self->budget, &all);
    *ret_sums = sums;
    return CREMA_OK;
}

/* ---- parallel factors */

sink_pop_t
sink_summary_pop(const double *useful_s, const double *present_s, size_t n, double alloc_s,
                 double cap_s)
{
    double sum = 0, most = 0, all_s = 0, n_present = 0;
    for (size_t i = 0; i < n; i++) {
        all_s += present_s[i];
        n_present += present_s[i] > 0;
    }
    for (size_t i = 0; i < n; i++) {
        const bool counts = present_s[i] >= all_s / n_present / 2;
        const double share = sink_ratio(useful_s[i], present_s[i]);
        sum += useful_s[i];
        if (counts && share > most)
            most = share;
    }
    sink_pop_t pop = {.pe = sink_ratio(sum, alloc_s), .alloc_e = sink_ratio(alloc_s, cap_s)};
    pop.lb = sink_ratio(pop.pe, most);
    pop.sched_e = most > 0 ? most : NAN;
    return pop;
}
