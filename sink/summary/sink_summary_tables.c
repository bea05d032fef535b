/* Summaries with one row per worker, task prefix, activity or dataset. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_split.h"
#include "sink_intern.h"
#include "sink_scratch.h"
#include "sink_stats.h"
#include "sink_summary.h"

static const char *
s_name(const sink_summary_t *self, crema_dict_t kind, uint32_t id)
{
    return sink_dict_text(sink_decoder_dict(self->run), kind, id);
}

/* ---- workers */

typedef struct {
    int64_t rss_peak_b;
    double rss, rss_seconds;
    size_t first_score; /* in the shared array */
    size_t n_scores;
} per_worker_t;

static void
s_sum_samples(const sink_facts_t *facts, per_worker_t *workers)
{
    for (size_t i = 0; i < facts->n_samples; i++) {
        const sink_sample_t *now = &facts->samples[i];
        per_worker_t *w = &workers[now->worker];
        bool more = i + 1 < facts->n_samples && facts->samples[i + 1].worker == now->worker;
        double s = more ? (double)(facts->samples[i + 1].t_ns - now->t_ns) * 1e-9 : 0;
        if (now->rss_b < 0)
            continue;
        w->rss += s * (double)now->rss_b;
        w->rss_seconds += s;
        if (now->rss_b > w->rss_peak_b)
            w->rss_peak_b = now->rss_b;
    }
}

/* The scores of each worker's chunks are adjacent in `scores`. */
static void
s_take_scores(const sink_summary_t *self, per_worker_t *workers, double *scores)
{
    const sink_facts_t *facts = self->facts;
    size_t at = 0;
    for (size_t i = 0; i < facts->n_workers; i++) {
        workers[i].first_score = at;
        at += self->sums->workers[i].n_scores;
    }
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *c = &facts->chunks[i];
        if (c->counted && c->worker < facts->n_workers && !isnan(self->model->whole.score[i]))
            scores[workers[c->worker].first_score + workers[c->worker].n_scores++] =
                self->model->whole.score[i];
    }
}

static crema_per_worker_row_t
s_worker_row(const sink_summary_t *self, uint32_t id, const per_worker_t *w, double *scores)
{
    const sink_load_t *load = &self->facts->sweep.workers[id];
    const sink_spent_t *spent = &self->budget->workers[id];
    double others_cpu_s = 0, others_noncpu_s = 0;
    for (int side = 0; side < CREMA_SIDE_FOREIGN; side++) {
        others_cpu_s += spent->side_cpu_s[side];
        others_noncpu_s += spent->side_noncpu_s[side];
    }
    double idle_s = load->thread_s - load->busy_s - spent->runtime_s - spent->failed_runtime_s;
    const sink_tally_t *counted = &self->sums->workers[id].counted;
    int64_t events = sink_tally_int(&counted->events), peak_b = self->sums->workers[id].rss_peak_b;
    if (w->rss_peak_b > peak_b)
        peak_b = w->rss_peak_b;
    crema_per_worker_row_t row = {
        .worker_id = id,
        .n_chunks = counted->chunks,
        .n_events = events,
        .present_s = load->present_s,
        .thread_s = load->thread_s,
        .busy_s = load->busy_s,
        .cpu_s = spent->knows_cpu ? spent->cpu_s + others_cpu_s : NAN,
        .noncpu_s = spent->knows_cpu ? spent->noncpu_s + spent->user_s + others_noncpu_s : NAN,
        .overhead_s = others_cpu_s + others_noncpu_s + spent->runtime_s,
        .idle_s = idle_s > 0 ? idle_s : 0,
        .wasted_s = spent->wasted_s,
        .bytes_read_b = sink_tally_int(&counted->bytes_b),
        .rss_peak_b = peak_b > 0 ? peak_b : -1,
        .rss_mean_b = sink_ratio(w->rss, w->rss_seconds),
        .event_rate_hz = events < 0 ? NAN : sink_ratio((double)events, load->present_s),
        .straggler_score = sink_stats_median(scores + w->first_score, w->n_scores),
    };
    SINK_NAME(row.worker, s_name(self, CREMA_DICT_WORKER, id));
    return row;
}

crema_err_t
sink_summary_workers(const sink_summary_t *self)
{
    const sink_facts_t *facts = self->facts;
    per_worker_t *workers = calloc(facts->n_workers + 1, sizeof *workers);
    crema_err_t err = workers ? CREMA_OK : CREMA_ENOMEM;
    double *scores = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof *scores, &err);
    if (workers && scores) {
        s_sum_samples(facts, workers);
        s_take_scores(self, workers, scores);
    }
    for (uint32_t i = 0; err == CREMA_OK && i < facts->n_workers; i++) {
        const crema_per_worker_row_t row = s_worker_row(self, i, &workers[i], scores);
        err = sink_tables_add(self->tables, CREMA_TABLE_PER_WORKER, &row);
    }
    free(workers);
    sink_scratch_free(scores);
    return err;
}

/* ---- task prefixes */

/* Dask's totals of one prefix. */
typedef struct {
    double cpu_s, noncpu_s, other_s, bytes;
    bool any;
    size_t failed;
    size_t first, n; /* durations of its tasks, in the shared array */
} per_prefix_t;

static void
s_meter_prefixes(const sink_facts_t *facts, per_prefix_t *prefixes, size_t n)
{
    for (size_t i = 0; i < facts->n_metered; i++) {
        const sink_metered_t *m = &facts->metered[i];
        if (m->prefix >= n || m->context != CREMA_CONTEXT_EXECUTE)
            continue;
        per_prefix_t *prefix = &prefixes[m->prefix];
        prefix->any = true;
        if (m->in == SINK_UNIT_BYTES)
            prefix->bytes += m->value;
        else if (m->in != SINK_UNIT_SECONDS)
            continue;
        else if (m->kind == CREMA_ACTIVITY_CPU)
            prefix->cpu_s += m->value;
        else if (m->kind == CREMA_ACTIVITY_NONCPU)
            prefix->noncpu_s += m->value;
        else
            prefix->other_s += m->value;
    }
}

/* NULL: none of the prefixes, or of another run. */
static per_prefix_t *
s_prefix_of(const sink_task_t *task, per_prefix_t *prefixes, size_t n)
{
    return task->prefix < n && task->side != CREMA_SIDE_FOREIGN ? &prefixes[task->prefix] : NULL;
}

/* The durations of each prefix's tasks are adjacent. */
static void
s_count_prefixes(const sink_facts_t *facts, per_prefix_t *prefixes, size_t n, double *durations)
{
    for (size_t i = 0; i < facts->n_tasks; i++) {
        per_prefix_t *prefix = s_prefix_of(&facts->tasks[i], prefixes, n);
        if (prefix)
            *(facts->tasks[i].status != 0 ? &prefix->failed : &prefix->n) += 1;
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        prefixes[i].first = at;
        at += prefixes[i].n;
        prefixes[i].n = 0;
    }
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        per_prefix_t *prefix = s_prefix_of(task, prefixes, n);
        if (prefix && task->status == 0)
            durations[prefix->first + prefix->n++] =
                (double)(task->t_stop_ns - task->t_start_ns) * 1e-9;
    }
}

static crema_per_task_prefix_row_t
s_prefix_row(const sink_summary_t *self, uint32_t id, uint8_t side, const per_prefix_t *prefix,
             double *durations)
{
    bool any = self->facts->n_tasks > 0; /* otherwise not counted */
    size_t n = prefix->n;
    crema_per_task_prefix_row_t row = {
        .task_prefix_id = id,
        .side = side,
        .cpu_s = prefix->any ? prefix->cpu_s : NAN,
        .noncpu_s = prefix->any ? prefix->noncpu_s : NAN,
        .other_s = prefix->any ? prefix->other_s : NAN,
        .bytes_b = prefix->any ? (int64_t)prefix->bytes : -1,
        .n_tasks = any ? (int64_t)n : -1,
        .n_failed = any ? (int64_t)prefix->failed : -1,
        .dur_p50_s = sink_stats_select(durations, n, 0.5),
        .dur_p95_s = sink_stats_select(durations, n, 0.95),
        .dur_max_s = sink_stats_select(durations, n, 1),
    };
    SINK_NAME(row.task_prefix, s_name(self, CREMA_DICT_TASK_PREFIX, id));
    return row;
}

crema_err_t
sink_summary_prefixes(const sink_summary_t *self)
{
    const sink_facts_t *facts = self->facts;
    const sink_rows_t *names = sink_tables_rows(self->tables, CREMA_TABLE_DICT_TASK_PREFIX);
    size_t n = sink_rows_count(names);
    crema_err_t err = CREMA_OK;
    per_prefix_t *prefixes = sink_scratch(NULL, n + 1, sizeof *prefixes, &err);
    double *durations = sink_scratch(facts->dir, facts->n_tasks + 1, sizeof *durations, &err);
    if (prefixes && durations) {
        s_meter_prefixes(facts, prefixes, n);
        s_count_prefixes(facts, prefixes, n, durations);
    }
    for (uint32_t i = 0; prefixes && durations && err == CREMA_OK && i < n; i++) {
        const crema_dict_task_prefix_row_t *name = sink_rows_at(names, i);
        const crema_per_task_prefix_row_t row =
            s_prefix_row(self, i, name->side, &prefixes[i], durations + prefixes[i].first);
        err = sink_tables_add(self->tables, CREMA_TABLE_PER_TASK_PREFIX, &row);
    }
    sink_scratch_free(prefixes);
    sink_scratch_free(durations);
    return err;
}

/* ---- activities */

static int
s_by_activity(const void *a, const void *b)
{
    const sink_metered_t *l = a, *r = b;
    uint32_t left[] = {l->context, l->prefix, l->activity, l->unit, l->side};
    uint32_t right[] = {r->context, r->prefix, r->activity, r->unit, r->side};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return (l->worker > r->worker) - (l->worker < r->worker);
}

static crema_err_t
s_put_activity(const sink_summary_t *self, const sink_metered_t *m, double value)
{
    bool share = m->context == CREMA_CONTEXT_EXECUTE && m->in == SINK_UNIT_SECONDS;
    crema_per_activity_row_t row = {
        .context = m->context,
        .side = m->side,
        .value = value,
        .fraction_of_thread_seconds = share ? sink_ratio(value, self->budget->alloc_s) : NAN,
    };
    SINK_NAME(row.task_prefix, s_name(self, CREMA_DICT_TASK_PREFIX, m->prefix));
    SINK_NAME(row.activity, s_name(self, CREMA_DICT_ACTIVITY, m->activity));
    SINK_NAME(row.unit, s_name(self, CREMA_DICT_UNIT, m->unit));
    return sink_tables_add(self->tables, CREMA_TABLE_PER_ACTIVITY, &row);
}

crema_err_t
sink_summary_activities(const sink_summary_t *self)
{
    size_t n = self->facts->n_metered;
    sink_metered_t *all = malloc((n + 1) * sizeof *all);
    if (!all)
        return CREMA_ENOMEM;
    if (n > 0)
        memcpy(all, self->facts->metered, n * sizeof *all);
    qsort(all, n, sizeof *all, s_by_activity);
    crema_err_t err = CREMA_OK;
    for (size_t i = 0, end = 0; err == CREMA_OK && i < n; i = end) {
        double value = 0;
        sink_metered_t first = all[i];
        for (; end < n; end++) {
            first.worker = all[end].worker;
            if (s_by_activity(&first, &all[end]) != 0)
                break;
            value += all[end].value;
        }
        err = s_put_activity(self, &all[i], value);
    }
    free(all);
    return err;
}

/* ---- datasets and chunk models */

static const sink_dataset_model_t *
s_model_of(const sink_model_t *model, uint32_t dataset)
{
    for (size_t i = 0; i < model->n_datasets; i++)
        if (model->datasets[i].dataset == dataset)
            return &model->datasets[i];
    return NULL;
}

static crema_err_t
s_put_dataset(const sink_summary_t *self, uint32_t id)
{
    const sink_dataset_model_t *model = s_model_of(self->model, id);
    const sink_tally_t *counted = &self->sums->datasets[id].counted;
    int64_t events = sink_tally_int(&counted->events);
    double wall_s = sink_sum(&counted->wall_s);
    crema_per_dataset_row_t row = {
        .dataset_id = id,
        .n_files = self->sums->datasets[id].files,
        .n_chunks = counted->chunks,
        .n_events = events,
        .open_s = sink_sum(&counted->open_s),
        .wall_s = wall_s,
        .cpu_s = sink_sum(&counted->cpu_s),
        .gc_s = sink_sum(&counted->gc_s),
        .bytes_b = sink_tally_int(&counted->bytes_b),
        .event_rate_hz = events < 0 ? NAN : sink_ratio((double)events, wall_s),
        .s_per_event = sink_ratio(wall_s, (double)events),
        .memory_b_per_event = model ? model->memory.b : NAN,
    };
    SINK_NAME(row.dataset, s_name(self, CREMA_DICT_DATASET, id));
    return sink_tables_add(self->tables, CREMA_TABLE_PER_DATASET, &row);
}

crema_err_t
sink_summary_datasets(const sink_summary_t *self)
{
    crema_err_t err = CREMA_OK;
    for (uint32_t i = 0; err == CREMA_OK && i < self->sums->n_datasets; i++)
        err = s_put_dataset(self, i);
    return err;
}

static crema_err_t
s_put_model(const sink_summary_t *self, const sink_dataset_model_t *model)
{
    const sink_line_t *line = &model->line;
    crema_chunk_model_row_t row = {
        .dataset_id = model->dataset,
        .a_s = line->a,
        .a_lo = line->a_lo,
        .a_hi = line->a_hi,
        .b_s_per_event = line->b,
        .b_lo = line->b_lo,
        .b_hi = line->b_hi,
        .n = (int64_t)line->n,
        .n_opt_events = model->n_opt_events,
    };
    SINK_TEXT(row.method, isnan(line->b)            ? "none"
                          : model->is_measured      ? "measured"
                          : line->n_used == line->n ? "theil_sen"
                                                    : "theil_sen_thin");
    return sink_tables_add(self->tables, CREMA_TABLE_CHUNK_MODEL, &row);
}

crema_err_t
sink_summary_models(const sink_summary_t *self)
{
    const sink_model_t *model = self->model;
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < model->n_datasets && err == CREMA_OK; i++)
        err = s_put_model(self, &model->datasets[i]);
    for (size_t i = 0; i < self->facts->n_chunks && err == CREMA_OK; i++) {
        if (!(model->whole.score[i] > SINK_MODEL_STRAGGLER))
            continue;
        crema_stragglers_row_t row = {
            .chunk_row = (int64_t)i,
            .score = model->whole.score[i],
            .predicted_s = model->whole.predicted_s[i],
            .excess_s = sink_chunk_s(&self->facts->chunks[i]) - model->whole.predicted_s[i],
        };
        err = sink_tables_add(self->tables, CREMA_TABLE_STRAGGLERS, &row);
    }
    return err;
}
