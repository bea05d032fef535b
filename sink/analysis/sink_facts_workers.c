/* The part of the facts about workers: samples, streams, presence. */
#include <math.h>
#include <stdlib.h>

#include "sink_facts_impl.h"
#include "sink_scratch.h"

/* ---- samples */

/* Ranks the observers of a worker, best first: itself, its agent, the scheduler. */
static int
s_rank(int64_t source)
{
    return source == CREMA_SOURCE_WORKER ? 2 : source == CREMA_SOURCE_AGENT ? 1 : 0;
}

/* Sums of one observer of one worker. */
typedef struct {
    int64_t t_ns; /* last sample; 0 before the first */
    double s, cpu_s;
} observed_t;

static void
s_observe(observed_t *seen, int64_t t_ns, double cpu_pct)
{
    double s = seen->t_ns != 0 ? (double)(t_ns - seen->t_ns) * 1e-9 : 0;
    seen->t_ns = t_ns;
    if (isnan(cpu_pct) || s <= 0)
        return;
    seen->s += s;
    seen->cpu_s += s * cpu_pct / 100;
}

/* Agent and hook read the same processes at different times: compares means over the workers
 * that both saw. */
static crema_err_t
s_compare_observers(sink_facts_t *self, const sink_rows_t *rows)
{
    observed_t(*seen)[CREMA_SOURCE_WORKER + 1] = calloc(self->n_workers + 1, sizeof *seen);
    if (!seen)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < sink_rows_count(rows); i++) { /* ordered by time */
        const crema_worker_samples_row_t *row = sink_rows_at(rows, i);
        if (row->worker_id < self->n_workers && row->source <= CREMA_SOURCE_WORKER)
            s_observe(&seen[row->worker_id][row->source], row->t_ns, row->cpu_pct);
    }
    double agent = 0, hook = 0;
    for (size_t w = 0; w < self->n_workers; w++) {
        const observed_t *a = &seen[w][CREMA_SOURCE_AGENT], *h = &seen[w][CREMA_SOURCE_WORKER];
        if (a->s <= 0 || h->s <= 0)
            continue;
        agent += a->cpu_s / a->s;
        hook += h->cpu_s / h->s;
    }
    self->cpu_agent_vs_hook = hook > 0 ? agent / hook : NAN;
    free(seen);
    return CREMA_OK;
}

/* Tasks assigned by the scheduler relative to the workers' threads. */
static double
s_assigned_pct(const sink_rows_t *rows)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_worker_samples_row_t *row = sink_rows_at(rows, i);
        if (row->source != CREMA_SOURCE_SCHEDULER || row->processing == UINT16_MAX ||
            row->nthreads == UINT16_MAX || row->nthreads == 0)
            continue;
        sum += 100.0 * row->processing / row->nthreads;
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

/* Of one worker while tasks ran. */
typedef struct {
    double quota, throttled;
    size_t n;
} quota_t;

static crema_err_t
s_take_quota(sink_facts_t *self, const sink_rows_t *rows)
{
    double waited_s = 0, throttled_s = 0;
    quota_t *quotas = calloc(self->n_workers + 1, sizeof *quotas);
    self->cpu_quota = self->cpu_throttled = NAN;
    if (!quotas)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_worker_samples_row_t *row = sink_rows_at(rows, i);
        if (row->worker_id >= self->n_workers || isnan(row->cpu_throttled) || row->executing == 0 ||
            row->executing == UINT16_MAX)
            continue;
        quota_t *of = &quotas[row->worker_id];
        of->quota = row->cpu_quota;
        of->throttled += (row->cpu_throttled - of->throttled) / (double)++of->n;
    }
    for (size_t w = 0; w < self->n_workers; w++) {
        const double s = isnan(self->workers[w].cpu_wait_s) ? 0 : self->workers[w].cpu_wait_s;
        waited_s += s;
        if (quotas[w].throttled < SINK_THROTTLED_MATTERS)
            continue;
        throttled_s += s;
        if (!(self->cpu_throttled >= quotas[w].throttled)) {
            self->cpu_throttled = quotas[w].throttled;
            self->cpu_quota = quotas[w].quota;
        }
    }
    free(quotas);
    if (throttled_s < waited_s / 2)
        self->cpu_quota = self->cpu_throttled = NAN;
    return CREMA_OK;
}

static void
s_sum_samples(sink_facts_t *self)
{
    for (size_t i = 0, end = 0; i < self->n_samples; i = end) {
        sink_worker_t *worker = &self->workers[self->samples[i].worker];
        double first = NAN;
        for (; end < self->n_samples && self->samples[end].worker == self->samples[i].worker;
             end++) {
            const sink_sample_t *sample = &self->samples[end];
            if (isnan(first))
                first = sample->cpu_wait_s;
            if (!isnan(sample->cpu_wait_s))
                worker->cpu_wait_s = sample->cpu_wait_s - first;
        }
    }
}

static sink_sample_t
s_sample(const crema_worker_samples_row_t *row)
{
    return (sink_sample_t){.t_ns = row->t_ns,
                           .cpu_pct = row->cpu_pct,
                           .rss_b = row->rss_b,
                           .memory_limit_b = row->memory_limit_b,
                           .net_read_b = row->net_read_b,
                           .cpu_wait_s = row->cpu_wait_s,
                           .gil_contention = row->gil_contention,
                           .worker = row->worker_id,
                           .executing = row->executing,
                           .nthreads = row->nthreads,
                           .source = row->source};
}

/* Observers of one worker, and the place of its next sample. */
typedef struct {
    int best; /* rank */
    size_t n, at;
} place_t;

static void
s_rank_observers(const sink_facts_t *self, const sink_rows_t *rows, place_t *places)
{
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_worker_samples_row_t *row = sink_rows_at(rows, i);
        if (row->worker_id >= self->n_workers)
            continue;
        place_t *place = &places[row->worker_id];
        int rank = s_rank(row->source);
        if (rank > place->best)
            *place = (place_t){.best = rank};
        place->n += rank == place->best;
    }
}

/* Of each worker the samples of its best observer. Rows are ordered by time, so that it is
 * enough to know where the samples of each worker begin. */
static void
s_place_samples(sink_facts_t *self, const sink_rows_t *rows, place_t *places)
{
    for (size_t w = 0; w < self->n_workers; w++) {
        places[w].at = self->n_samples;
        self->n_samples += places[w].n;
    }
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_worker_samples_row_t *row = sink_rows_at(rows, i);
        if (row->worker_id < self->n_workers && s_rank(row->source) == places[row->worker_id].best)
            self->samples[places[row->worker_id].at++] = s_sample(row);
    }
}

crema_err_t
sink_facts_take_samples(sink_facts_t *self, const sink_rows_t *rows)
{
    crema_err_t err = CREMA_OK;
    place_t *places = sink_scratch(NULL, self->n_workers + 1, sizeof *places, &err);
    self->samples = sink_scratch(self->dir, sink_rows_count(rows) + 1, sizeof *self->samples, &err);
    if (err == CREMA_OK) {
        s_rank_observers(self, rows, places);
        s_place_samples(self, rows, places);
        self->assigned_pct = s_assigned_pct(rows);
        err = s_compare_observers(self, rows);
    }
    sink_scratch_free(places);
    if (err != CREMA_OK)
        return err;
    s_sum_samples(self);
    return s_take_quota(self, rows);
}

/* ---- presence */

crema_err_t
sink_facts_take_streams(sink_facts_t *self, const sink_decoder_t *run)
{
    self->workers = calloc(self->n_workers + 1, sizeof *self->workers);
    if (!self->workers)
        return CREMA_ENOMEM;
    for (size_t w = 0; w < self->n_workers; w++)
        self->workers[w].cpu_wait_s = NAN;
    for (size_t i = 0; i < sink_decoder_streams(run); i++) {
        const sink_stream_t *stream = sink_decoder_stream(run, i);
        if (stream->worker >= self->n_workers)
            continue;
        self->workers[stream->worker].has_stream = true;
        self->workers[stream->worker].outside_dask = stream->t_process_ns != 0;
        if (!stream->closed || stream->end == CREMA_END_WRITER_GONE)
            self->workers[stream->worker].killed = true;
    }
    return CREMA_OK;
}

static void
s_take_death(sink_worker_t *worker, const crema_membership_row_t *row)
{
    bool goes = row->event == CREMA_MEMBER_LEAVE || row->event == CREMA_MEMBER_LOST ||
                row->event == CREMA_MEMBER_RETIRE;
    if (!goes || row->evidence == CREMA_EVIDENCE_RUN_BOUNDARY)
        return;
    worker->has_left = true;
    worker->was_retired = row->event == CREMA_MEMBER_RETIRE;
    worker->cause = (crema_death_t)row->cause;
    worker->exit_status = row->exit_status;
    worker->signal = row->signal;
    worker->death_rss_b = row->rss_b;
    worker->death_limit_b = row->memory_limit_b;
}

/* Change points of /membership, then first and last sight of workers missing there. */
static size_t
s_take_members(sink_facts_t *self, const sink_tables_t *tables, sink_member_t *events)
{
    const sink_rows_t *rows = sink_tables_rows(tables, CREMA_TABLE_MEMBERSHIP);
    size_t n = 0;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_membership_row_t *row = sink_rows_at(rows, i);
        sink_member_t event = {.t_ns = row->t_ns,
                               .t_uncertainty_ns = row->t_uncertainty_ns,
                               .worker = row->worker_id,
                               .nthreads = row->nthreads == UINT16_MAX ? 0 : row->nthreads,
                               .event = (crema_member_event_t)row->event,
                               .boundary = row->evidence == CREMA_EVIDENCE_RUN_BOUNDARY};
        if (event.worker >= self->n_workers)
            continue;
        s_take_death(&self->workers[event.worker], row);
        bool about_slots = event.event == CREMA_MEMBER_PAUSE || event.event == CREMA_MEMBER_RESUME;
        if (!about_slots) { /* a worker may report its own pauses where no scheduler is watched */
            self->workers[event.worker].is_member = true;
            self->has_membership = true;
            if (event.t_uncertainty_ns > 0 && !event.boundary)
                self->members_bound_s += (double)event.t_uncertainty_ns * 1e-9 / 2;
        }
        events[n++] = event;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (self->workers[events[i].worker].is_member)
            events[kept++] = events[i];
    const sink_rows_t *workers = sink_tables_rows(tables, CREMA_TABLE_DICT_WORKER);
    self->outside_dask = self->n_workers > 0;
    for (uint32_t i = 0; i < self->n_workers; i++) {
        const crema_dict_worker_row_t *row = sink_rows_at(workers, i);
        self->outside_dask = self->outside_dask && self->workers[i].outside_dask;
        if (self->workers[i].is_member || !self->workers[i].has_stream || row->t_first_ns == 0)
            continue;
        events[kept++] =
            (sink_member_t){.t_ns = row->t_first_ns, .worker = i, .event = CREMA_MEMBER_JOIN};
        events[kept++] =
            (sink_member_t){.t_ns = row->t_last_ns, .worker = i, .event = CREMA_MEMBER_LEAVE};
    }
    return kept;
}

/* From each pause to the event that ends it: the worker resumes or leaves, or the run ends.
 * Events are sorted by time. */
static size_t
s_take_pauses(const sink_facts_t *self, const sink_member_t *events, size_t n, int64_t *since_ns,
              sink_spell_t *out)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        const sink_member_t *e = &events[i];
        int64_t *since = &since_ns[e->worker];
        if (e->event == CREMA_MEMBER_PAUSE && *since == 0) {
            *since = e->t_ns;
        } else if (*since != 0 && e->event != CREMA_MEMBER_PAUSE && e->event != CREMA_MEMBER_JOIN) {
            out[m++] = (sink_spell_t){*since, e->t_ns, e->worker};
            *since = 0;
        }
    }
    for (uint32_t w = 0; w < self->n_workers; w++)
        if (since_ns[w] != 0)
            out[m++] = (sink_spell_t){since_ns[w], self->t1_ns, w};
    return m;
}

crema_err_t
sink_facts_take_presence(sink_facts_t *self, const sink_tables_t *tables)
{
    const sink_rows_t *workers = sink_tables_rows(tables, CREMA_TABLE_DICT_WORKER);
    size_t most =
        sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_MEMBERSHIP)) + 2 * self->n_workers + 1;
    sink_member_t *events = calloc(most, sizeof *events);
    uint32_t *slots = calloc(self->n_workers + 1, sizeof *slots);
    int64_t *since_ns = calloc(self->n_workers + 1, sizeof *since_ns);
    self->presence = calloc(most, sizeof *self->presence);
    self->paused = calloc(most, sizeof *self->paused);
    if (!events || !slots || !since_ns || !self->presence || !self->paused) {
        free(events);
        free(slots);
        free(since_ns);
        return CREMA_ENOMEM;
    }
    for (uint32_t i = 0; i < self->n_workers; i++) {
        const crema_dict_worker_row_t *row = sink_rows_at(workers, i);
        slots[i] = row->nthreads == UINT16_MAX ? 0 : row->nthreads;
    }
    size_t n = s_take_members(self, tables, events);
    self->n_paused = s_take_pauses(self, events, n, since_ns, self->paused);
    self->n_presence =
        sink_presence_from(events, n, slots, self->t0_ns, self->t1_ns, self->presence);
    free(events);
    free(slots);
    free(since_ns);
    return CREMA_OK;
}
