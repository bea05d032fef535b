#include "sink_slow.h"

#include <math.h>

#include "sink_diagnosis.h"
#include "sink_grouped.h"
#include "sink_scratch.h"
#include "sink_server.h"

typedef enum { NORMAL, OF_SLOW_WORKER, OF_SLOW_SERVER, OF_SLOW_FILE } why_t;

typedef struct {
    const sink_facts_t *facts;
    const sink_model_t *model;
    uint8_t *why;            /* why_t by row of /chunks */
    sink_grouped_t *members; /* counted chunks with a predicted time, by worker or by file */
    size_t n;
    double *scratch;
} search_t;

static double
s_ratio(const search_t *self, size_t row)
{
    return sink_chunk_s(&self->facts->chunks[row]) / self->model->whole.predicted_s[row];
}

/* Collects all modelled chunks that are not yet explained. */
static void
s_gather(search_t *self, bool by_worker)
{
    self->n = 0;
    for (size_t i = 0; i < self->facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &self->facts->chunks[i];
        if (isnan(self->model->whole.score[i]) || self->why[i] != NORMAL)
            continue;
        self->members[self->n++] = (sink_grouped_t){by_worker ? chunk->worker : chunk->file, i};
    }
    sink_grouped_sort(self->members, self->n);
}

/* A worker that read only one file may be slow because of the file. */
static bool
s_has_two_files(const search_t *self, const sink_grouped_t *members, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (self->facts->chunks[members[i].row].file != self->facts->chunks[members[0].row].file)
            return true;
    return false;
}

/* What the chunk had taken, as part of its prediction, if only process() had been longer than
 * predicted. */
static double
s_process_ratio(const search_t *self, size_t row)
{
    const double predicted = self->model->whole.predicted_s[row];
    double excess =
        sink_chunk_process_s(&self->facts->chunks[row]) - self->model->process.predicted_s[row];
    return (predicted + excess) / predicted;
}

/* Medians over those members of which both are known; false if they are not far off. */
static bool
s_is_far_off(const search_t *self, const sink_grouped_t *members, size_t n, const double *scores,
             double (*ratio_of)(const search_t *, size_t))
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(scores[members[i].row]))
            self->scratch[m++] = scores[members[i].row];
    double score = sink_stats_median(self->scratch, m);
    m = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(scores[members[i].row]))
            self->scratch[m++] = ratio_of(self, members[i].row);
    /* The median of n normal values has a standard deviation of sqrt(pi / 2 n). */
    return m > 0 && score * sqrt((double)m / 1.5708) >= SINK_SLOW_SCORE &&
           sink_stats_median(self->scratch, m) >= SINK_SLOW_RATIO;
}

static bool
s_is_slow(const search_t *self, const sink_grouped_t *members, size_t n, double *ret_ratio)
{
    for (size_t i = 0; i < n; i++)
        self->scratch[i] = s_ratio(self, members[i].row);
    *ret_ratio = sink_stats_median(self->scratch, n);
    return s_is_far_off(self, members, n, self->model->whole.score, s_ratio) ||
           s_is_far_off(self, members, n, self->model->process.score, s_process_ratio);
}

static void
s_add_group(search_t *self, const sink_grouped_t *members, size_t n, double ratio, why_t why,
            sink_slow_t *slow, double *worst_s)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const sink_chunk_t *chunk = &self->facts->chunks[members[i].row];
        double s = sink_chunk_s(chunk), excess = s - self->model->whole.predicted_s[members[i].row];
        double cpu = isnan(chunk->cpu_s) || !(s > 0) ? 0 : fmin(1, chunk->cpu_s / s);
        self->why[members[i].row] = (uint8_t)why;
        if (excess <= 0)
            continue;
        sum += excess;
        slow->cpu_s += excess * cpu;
        slow->noncpu_s += excess * (1 - cpu);
    }
    slow->n++;
    if (sum > *worst_s) {
        *worst_s = sum;
        slow->worst = members[0].group;
        slow->ratio = ratio;
    }
}

/* Idle thread-seconds that would not have occurred if the chunks of slow ones had ended when
 * predicted. */
static double
s_tail_s(const search_t *self, why_t why)
{
    const sink_sweep_t *sweep = &self->facts->sweep;
    int64_t end_ns = sweep->t_tail0_ns, t1_ns = sweep->t_tail1_ns;
    for (size_t i = 0; i < self->facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &self->facts->chunks[i];
        int64_t t_ns = chunk->t_end_ns;
        double excess = sink_chunk_s(chunk) - self->model->whole.predicted_s[i];
        if (self->why[i] == why && excess > 0)
            t_ns -= (int64_t)(excess * 1e9);
        if (t_ns > end_ns && t_ns < t1_ns)
            end_ns = t_ns;
        else if (t_ns >= t1_ns)
            return 0;
    }
    return sink_sweep_idle_tail_s(sweep, end_ns);
}

/* The worst worker processed its queue until its last chunk; at the predicted speed it would
 * have finished earlier. Returns the share of the time in which others had no more tasks that
 * this explains. */
static double
s_queue_share(const search_t *self, uint32_t worst, double excess_s)
{
    const sink_load_t *load = &self->facts->sweep.workers[worst];
    double threads = load->present_s > 0 ? load->thread_s / load->present_s : 1;
    int64_t first_ns = INT64_MAX, end_ns = 0;
    for (size_t i = 0, end = 0; i < self->n; i = end) { /* sorted by worker */
        int64_t last_ns = 0;
        for (; end < self->n && self->members[end].group == self->members[i].group; end++) {
            int64_t t_ns = self->facts->chunks[self->members[end].row].t_end_ns;
            last_ns = t_ns > last_ns ? t_ns : last_ns;
        }
        if (self->members[i].group == worst)
            end_ns = last_ns;
        else if (last_ns < first_ns)
            first_ns = last_ns;
    }
    double waited_s = (double)(end_ns - first_ns) * 1e-9, sooner_s = excess_s / threads;
    if (first_ns >= end_ns)
        return 0;
    return sooner_s < waited_s ? sooner_s / waited_s : 1;
}

static void
s_search(search_t *self, why_t why, sink_slow_t *slow)
{
    bool by_worker = why == OF_SLOW_WORKER;
    double worst_s = 0, ratio;
    s_gather(self, by_worker);
    bool many_files = s_has_two_files(self, self->members, self->n);
    for (size_t i = 0, end; i < self->n; i = end) {
        end = sink_grouped_end(self->members, self->n, i);
        const sink_grouped_t *members = self->members + i;
        if (by_worker && many_files && !s_has_two_files(self, members, end - i))
            continue;
        if (end - i < self->n && s_is_slow(self, members, end - i, &ratio))
            s_add_group(self, members, end - i, ratio, why, slow, &worst_s);
    }
    if (slow->n == 0)
        return;
    slow->tail_s = s_tail_s(self, why);
    if (by_worker)
        slow->queue_share = s_queue_share(self, slow->worst, worst_s);
}

crema_err_t
sink_slow_find(const sink_facts_t *facts, const sink_model_t *model, const sink_tables_t *tables,
               sink_slow_t *ret_workers, sink_slow_t *ret_servers, sink_slow_t *ret_files)
{
    size_t n = facts->n_chunks + 1;
    crema_err_t err = CREMA_OK;
    search_t self = {.facts = facts,
                     .model = model,
                     .why = sink_scratch(facts->dir, n, 1, &err),
                     .members = sink_scratch(facts->dir, n, sizeof *self.members, &err),
                     .scratch = sink_scratch(facts->dir, n, sizeof *self.scratch, &err)};
    *ret_workers = *ret_servers = *ret_files = (sink_slow_t){0};
    if (err == CREMA_OK)
        s_gather(&self, true);
    bool enough = err == CREMA_OK && self.n >= SINK_SLOW_CHUNKS;
    if (enough)
        s_search(&self, OF_SLOW_WORKER, ret_workers);
    if (err == CREMA_OK)
        err = sink_server_find(facts, tables, self.why, OF_SLOW_SERVER, ret_servers);
    if (err == CREMA_OK && enough)
        s_search(&self, OF_SLOW_FILE, ret_files);
    sink_scratch_free(self.why);
    sink_scratch_free(self.members);
    sink_scratch_free(self.scratch);
    return err;
}
