/* Rows of /summary/workflow about events, bytes and chunks. */
#include <math.h>
#include <stdlib.h>

#include "sink_intern.h"
#include "sink_scratch.h"
#include "sink_stats.h"
#include "sink_workflow.h"

/* ---- throughput */

/* 1; NaN with more than one pass: coffea's report covers only one of them. */
static double
s_one_pass(const workflow_t *self)
{
    return self->in->sums->n_passes > 2 ? NAN : 1;
}

void
workflow_throughput(workflow_t *self)
{
    const sink_totals_t *s = &self->sum;
    unsigned bytes = s->no_bytes ? IS_ESTIMATE : FROM_RECORDS, cpu = s->no_cpu ? IS_ESTIMATE : 0;
    double reported_b = workflow_reported(self, "coffea.bytesread"),
           reported = workflow_reported(self, "coffea.entries"), passes = s_one_pass(self);
    workflow_put(self, "wall_time", s->W, 1, FROM_WINDOW);
    workflow_put(self, "data_rate_gbps", 8e-9 * sink_ratio(s->B, s->W), s->n, bytes);
    workflow_put(self, "data_rate_mb_s", 1e-6 * sink_ratio(s->B, s->W), s->n, bytes);
    workflow_put(self, "event_rate_wall_clock", 1e-3 * sink_ratio(s->E, s->W), s->n, 0);
    workflow_put(self, "event_rate_aggregated", 1e-3 * sink_ratio(s->E, s->P), s->n, 0);
    workflow_put(self, "event_rate_per_cpu_s", sink_ratio(s->E, s->C), s->n, cpu);
    workflow_put(self, "event_rate_core_averaged", sink_ratio(s->E, s->A), s->n, 0);
    workflow_put(self, "total_bytes_read_coffea", isnan(s->B) ? reported_b : s->B, s->n,
                 bytes | (isnan(s->B) ? IS_ESTIMATE : 0));
    workflow_put(self, "closure_bytes_chunks_vs_report", passes * sink_ratio(s->B, reported_b),
                 s->n, 0);
    workflow_put(self, "total_events", isnan(s->E) ? reported : s->E, s->n,
                 isnan(s->E) ? IS_ESTIMATE : 0);
    workflow_put(self, "closure_events_chunks_vs_report", passes * sink_ratio(s->E, reported), s->n,
                 0);
}

#define N_SOURCES (CREMA_SOURCE_WORKER + 1)

/* Bytes received by the hosts' network interfaces, each host once. Observers of a host may see
 * other interfaces (a worker in a container), so only samples of the same kind of observer are
 * compared; of a host the workers' own count, else its agent's. */
static double
s_wire_b(const workflow_t *self, int64_t *ret_hosts)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_rows_t *workers = sink_tables_rows(self->in->tables, CREMA_TABLE_DICT_WORKER);
    sink_intern_t *hosts = NULL;
    double sum = 0;
    int64_t(*low)[N_SOURCES] = calloc(facts->n_workers + 1, sizeof *low);
    int64_t(*high)[N_SOURCES] = calloc(facts->n_workers + 1, sizeof *high);
    bool good = low && high && sink_intern_new(SINK_INTERN_ANY, &hosts) == CREMA_OK;
    for (size_t i = 0; good && i < facts->n_samples; i++) {
        const sink_sample_t *sample = &facts->samples[i];
        uint32_t number;
        bool fresh;
        if (sample->net_read_b < 0 || sample->source >= N_SOURCES)
            continue;
        const crema_dict_worker_row_t *row = sink_rows_at(workers, sample->worker);
        if (sink_intern_add(hosts, row->host, sizeof row->host, &number, &fresh) != CREMA_OK)
            break;
        for (size_t k = 0; fresh && k < N_SOURCES; k++)
            high[number][k] = -1;
        int64_t *least = &low[number][sample->source], *most = &high[number][sample->source];
        if (*most < 0 || sample->net_read_b < *least)
            *least = sample->net_read_b;
        if (sample->net_read_b > *most)
            *most = sample->net_read_b;
    }
    *ret_hosts = hosts ? sink_intern_count(hosts) : 0;
    for (int64_t i = 0; i < *ret_hosts; i++) {
        crema_source_t best =
            high[i][CREMA_SOURCE_WORKER] < 0 ? CREMA_SOURCE_AGENT : CREMA_SOURCE_WORKER;
        sum += high[i][best] < 0 ? 0 : (double)(high[i][best] - low[i][best]);
    }
    free(low);
    free(high);
    sink_intern_destroy(&hosts);
    return *ret_hosts > 0 ? sum : NAN;
}

void
workflow_data(workflow_t *self)
{
    const sink_sums_t *sums = self->in->sums;
    const double uncompressed = sums->uncompressed_b.known, n = (double)sums->uncompressed_b.n;
    int64_t hosts;
    double wire_b = s_wire_b(self, &hosts);
    size_t branches = sink_rows_count(sink_tables_rows(self->in->tables, CREMA_TABLE_DICT_BRANCH));
    double columns = branches ? (double)branches : workflow_reported(self, "coffea.n_columns");
    workflow_put(self, "wire_rate_gbps", 8e-9 * sink_ratio(wire_b, self->sum.W), hosts,
                 IS_ESTIMATE);
    workflow_put(self, "num_columns", columns, 1, branches ? 0 : IS_ESTIMATE);
    workflow_put(self, "total_bytes_uncompressed", n > 0 ? uncompressed : NAN, (int64_t)n, 0);
    workflow_put(self, "compression_ratio", sink_ratio(uncompressed, sums->compressed_b.known),
                 (int64_t)n, 0);
}

/* ---- chunks */

static void
s_chunk_times(workflow_t *self, double *walls)
{
    const sink_facts_t *facts = self->in->facts;
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        double process_s = sink_chunk_process_s(&facts->chunks[i]);
        if (!facts->chunks[i].counted || isnan(process_s))
            continue;
        walls[n++] = process_s;
        sum += process_s;
    }
    int64_t rows = (int64_t)n;
    workflow_put(self, "chunk_wall_min", sink_stats_select(walls, n, 0), rows, 0);
    workflow_put(self, "chunk_wall_mean", sink_ratio(sum, (double)n), rows, 0);
    workflow_put(self, "chunk_wall_p50", sink_stats_select(walls, n, 0.5), rows, 0);
    workflow_put(self, "chunk_wall_p95", sink_stats_select(walls, n, 0.95), rows, 0);
    workflow_put(self, "chunk_wall_max", sink_stats_select(walls, n, 1), rows, 0);
}

void
workflow_chunks(workflow_t *self)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_totals_t *s = &self->sum;
    const sink_sums_t *sums = self->in->sums;
    const int64_t *by_status = sums->by_status;
    bool any = facts->n_chunks > 0;
    int64_t all = (int64_t)facts->n_chunks;
    double reported_s = workflow_reported(self, "coffea.processtime");
    unsigned cpu = s->no_cpu ? IS_ESTIMATE : 0, stand_in = isnan(s->P)     ? IS_ESTIMATE
                                                           : s->no_process ? IS_OPEN
                                                                           : 0;
    workflow_put(self, "num_chunks", any ? (double)s->n : NAN, s->n, 0);
    workflow_put(self, "num_chunks_submitted", workflow_reported(self, "coffea.chunks"), 1, 0);
    workflow_put(self, "closure_chunks_chunks_vs_report",
                 s_one_pass(self) *
                     sink_ratio((double)s->n, workflow_reported(self, "coffea.chunks")),
                 s->n, 0);
    workflow_put(self, "num_attempts", any ? (double)all : NAN, all, 0);
    workflow_put(self, "num_failed_attempts",
                 any ? (double)(by_status[CREMA_CHUNK_ERROR] + by_status[CREMA_CHUNK_CANCELLED])
                     : NAN,
                 all, 0);
    workflow_put(self, "num_lost_attempts", any ? (double)by_status[CREMA_CHUNK_LOST] : NAN, all,
                 0);
    workflow_put(self, "num_superseded_attempts", any ? (double)sums->superseded : NAN, all, 0);
    workflow_put(self, "total_cpu_time", isnan(s->P) ? reported_s : s->P, s->n, stand_in);
    workflow_put(self, "process_wall_time", isnan(s->P) ? reported_s : s->P, s->n, stand_in);
    workflow_put(self, "process_cpu_time", s->C, s->n, cpu);
    workflow_put(self, "open_time", s->open, s->n, s->no_open ? IS_ESTIMATE : 0);
    workflow_put(self, "gc_time", s->gc, s->n, s->no_gc ? IS_ESTIMATE : 0);
    workflow_put(self, "avg_cpu_time_per_chunk", sink_ratio(s->P, (double)s->n), s->n, 0);
    workflow_put(self, "avg_process_cpu_per_chunk", sink_ratio(s->C, (double)s->n), s->n, cpu);
    double *walls = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof *walls, &self->err);
    if (!walls)
        return;
    s_chunk_times(self, walls);
    sink_scratch_free(walls);
    workflow_put(self, "chunk_s_per_event", sink_ratio(s->P, s->E), s->n, 0);
    workflow_put_bounds(self, "chunk_b_per_event", self->in->model->memory.b,
                        self->in->model->memory.b_lo, self->in->model->memory.b_hi,
                        (int64_t)self->in->model->memory.n, 0);
    /* As published elsewhere: growth of the process between two samples. */
    const sink_sum_t *growth = &sums->growth_b_per_event;
    workflow_put(self, "chunk_b_per_event_raw", sink_ratio(growth->known, (double)growth->n), s->n,
                 0);
}
