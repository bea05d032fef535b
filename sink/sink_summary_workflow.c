/* /summary/workflow: one row a metric of the whole run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_split.h"
#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_intern.h"
#include "sink_stats.h"
#include "sink_summary.h"

/* Values of /summary/workflow.status. */
enum { STATUS_OK, STATUS_ESTIMATED, STATUS_INCOMPLETE, STATUS_UNAVAILABLE };

/* How a metric is to be judged. */
#define FROM_RECORDS 0u /* incomplete when the run is */
#define FROM_WINDOW 1u  /* needs no record */
#define IS_ESTIMATE 2u  /* a stand-in for what was not measured */
#define IS_OPEN 8u      /* a sum that does not close */
#define IS_FRACTION                                                                                \
    4u /* over 1 (100 for a percentage) it does not mean what it says: flagged, never clamped */

typedef struct {
    const sink_summary_t *in;
    sink_totals_t sum;
    crema_err_t err;
} workflow_t;

static void
s_put_bounds(workflow_t *self, const char *name, const char *units, double value, double lo,
             double hi, int64_t n, unsigned flags, const char *definition)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_WORKFLOW);
    double most = strcmp(units, "%") == 0 ? 100 : 1;
    int status = STATUS_OK;
    if (isnan(value) || isinf(value)) {
        status = STATUS_UNAVAILABLE;
        value = NAN;
    } else if ((flags & IS_OPEN) || (self->in->partial && !(flags & FROM_WINDOW))) {
        status = STATUS_INCOMPLETE;
    } else if ((flags & IS_ESTIMATE) || ((flags & IS_FRACTION) && value > most * (1 + 1e-9))) {
        status = STATUS_ESTIMATED;
    }
    uint8_t row[SINK_ROW_BYTES_MAX];
    crema_row_clear(t, row);
    sink_cell_set_text(t, row, "name", name);
    sink_cell_set_real(t, row, "value", value);
    sink_cell_set_real(t, row, "lo", lo);
    sink_cell_set_real(t, row, "hi", hi);
    sink_cell_set_text(t, row, "units", units);
    sink_cell_set(t, row, "status", status);
    sink_cell_set(t, row, "n", n);
    sink_cell_set_text(t, row, "definition", definition);
    if (self->err == CREMA_OK)
        self->err = sink_tables_add(self->in->tables, t->id, row);
}

static void
s_put(workflow_t *self, const char *name, const char *units, double value, int64_t n,
      unsigned flags, const char *definition)
{
    s_put_bounds(self, name, units, value, NAN, NAN, n, flags, definition);
}

/* A number that the collector gave as a root attribute; NaN without. */
static double
s_told(const workflow_t *self, const char *name)
{
    const char *text =
        sink_texts_find(sink_told_attributes(sink_decoder_told(self->in->run)), name);
    char *end;
    if (!text)
        return NAN;
    double value = strtod(text, &end);
    return end != text && *end == '\0' ? value : NAN;
}

/* Sum of one of Dask's activities over all tasks; NaN where Dask metered nothing at all. */
static double
s_metered(const workflow_t *self, const char *activity, sink_unit_kind_t in)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_dict_t *dict = sink_decoder_dict(self->in->run);
    uint32_t id = sink_dict_find(dict, CREMA_DICT_ACTIVITY, activity);
    double sum = facts->n_metered > 0 ? 0 : NAN;
    for (size_t i = 0; i < facts->n_metered; i++) {
        const sink_metered_t *m = &facts->metered[i];
        if (m->activity == id && m->in == in && m->context == SINK_CONTEXT_EXECUTE)
            sum += m->value;
    }
    return sum;
}

/* ---- throughput */

static void
s_throughput(workflow_t *self)
{
    const sink_totals_t *s = &self->sum;
    unsigned bytes = s->no_bytes ? IS_ESTIMATE : FROM_RECORDS, cpu = s->no_cpu ? IS_ESTIMATE : 0;
    double reported_b = s_told(self, "coffea.bytesread"), reported = s_told(self, "coffea.entries");
    s_put(self, "wall_time", "s", s->W, 1, FROM_WINDOW, "W: end less start of the run");
    s_put(self, "data_rate_gbps", "Gbit/s", 8e-9 * sink_ratio(s->B, s->W), s->n, bytes,
          "8e-9 B/W; B: compressed bytes requested by counted attempts");
    s_put(self, "data_rate_mb_s", "MB/s", 1e-6 * sink_ratio(s->B, s->W), s->n, bytes, "1e-6 B/W");
    s_put(self, "event_rate_wall_clock", "kHz", 1e-3 * sink_ratio(s->E, s->W), s->n, 0,
          "E/W/1000; E: events of counted attempts");
    s_put(self, "event_rate_aggregated", "kHz", 1e-3 * sink_ratio(s->E, s->P), s->n, 0,
          "E/P/1000; P: seconds of process()");
    s_put(self, "event_rate_per_cpu_s", "Hz", sink_ratio(s->E, s->C), s->n, cpu,
          "E/C; C: thread CPU of counted attempts");
    s_put(self, "event_rate_core_averaged", "Hz", sink_ratio(s->E, s->A), s->n, 0,
          "E/A; A: thread-seconds present");
    s_put(self, "total_bytes_read_coffea", "B", isnan(s->B) ? reported_b : s->B, s->n,
          bytes | (isnan(s->B) ? IS_ESTIMATE : 0),
          "B, file opening included; from coffea's report if no chunk tells");
    s_put(self, "closure_bytes_chunks_vs_report", "1", sink_ratio(s->B, reported_b), s->n, 0,
          "B / bytesread of coffea's report; 1 closes");
    s_put(self, "total_events", "count", s->n ? s->E : reported, s->n, s->n ? 0 : IS_ESTIMATE,
          "E; from coffea's report if no chunk was recorded");
    s_put(self, "closure_events_chunks_vs_report", "1", sink_ratio(s->E, reported), s->n, 0,
          "E / entries of coffea's report; 1 closes, less: attempts that coffea does not know of");
}

static double
s_uncompressed(const sink_facts_t *facts, double *ret_ratio, int64_t *ret_n)
{
    double compressed = 0, uncompressed = 0;
    *ret_n = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *c = &facts->chunks[i];
        if (!c->counted || c->bytes_accessed_b <= 0 || c->bytes_uncompressed_b <= 0)
            continue;
        compressed += (double)c->bytes_accessed_b;
        uncompressed += (double)c->bytes_uncompressed_b;
        ++*ret_n;
    }
    *ret_ratio = sink_ratio(uncompressed, compressed);
    return *ret_n > 0 ? uncompressed : NAN;
}

/* What the hosts' network interfaces took in: every host once, however many workers it has. */
static double
s_wire_b(const workflow_t *self, int64_t *ret_hosts)
{
    const sink_facts_t *facts = self->in->facts;
    const crema_table_t *t = crema_table(CREMA_TABLE_DICT_WORKER);
    const sink_rows_t *workers = sink_tables_rows(self->in->tables, t->id);
    size_t host = sink_cell_column(t, "host"), size = t->columns[host].size;
    size_t offset = crema_table_offset(t, host);
    sink_intern_t *hosts = NULL;
    double sum = 0;
    int64_t *low = calloc(facts->n_workers + 1, sizeof *low);
    int64_t *high = calloc(facts->n_workers + 1, sizeof *high);
    bool good = low && high && sink_intern_new(SINK_DICT_MAX, &hosts) == CREMA_OK;
    for (size_t i = 0; good && i < facts->n_samples; i++) {
        const sink_sample_t *sample = &facts->samples[i];
        uint32_t number;
        bool fresh;
        if (sample->net_read_b < 0)
            continue;
        const uint8_t *row = sink_rows_at(workers, sample->worker);
        if (sink_intern_add(hosts, row + offset, size, &number, &fresh) != CREMA_OK)
            break;
        if (fresh || sample->net_read_b < low[number])
            low[number] = sample->net_read_b;
        if (fresh || sample->net_read_b > high[number])
            high[number] = sample->net_read_b;
    }
    *ret_hosts = hosts ? sink_intern_count(hosts) : 0;
    for (int64_t i = 0; i < *ret_hosts; i++)
        sum += (double)(high[i] - low[i]);
    free(low);
    free(high);
    sink_intern_destroy(&hosts);
    return *ret_hosts > 0 ? sum : NAN;
}

static void
s_data(workflow_t *self)
{
    double ratio;
    int64_t n, hosts;
    double uncompressed = s_uncompressed(self->in->facts, &ratio, &n);
    double wire_b = s_wire_b(self, &hosts);
    size_t branches = sink_rows_count(sink_tables_rows(self->in->tables, CREMA_TABLE_DICT_BRANCH));
    double columns = branches ? (double)branches : s_told(self, "coffea.n_columns");
    s_put(self, "wire_rate_gbps", "Gbit/s", 8e-9 * sink_ratio(wire_b, self->sum.W), hosts,
          IS_ESTIMATE, "8e-9 bytes into the workers' hosts / W, between the first and last sample");
    s_put(self, "num_columns", "count", columns, 1, branches ? 0 : IS_ESTIMATE,
          "branches touched; from coffea's report if none was recorded");
    s_put(self, "total_bytes_uncompressed", "B", uncompressed, n, 0,
          "uncompressed size of the branches touched");
    s_put(self, "compression_ratio", "1", ratio, n, 0,
          "uncompressed / compressed size of the branches touched");
}

/* ---- chunks */

static void
s_chunk_times(workflow_t *self, double *walls)
{
    const sink_facts_t *facts = self->in->facts;
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        if (!facts->chunks[i].counted || isnan(facts->chunks[i].wall_s))
            continue;
        walls[n++] = facts->chunks[i].wall_s;
        sum += facts->chunks[i].wall_s;
    }
    sink_stats_sort(walls, n);
    int64_t rows = (int64_t)n;
    s_put(self, "chunk_wall_min", "s", n ? walls[0] : NAN, rows, 0, "shortest process()");
    s_put(self, "chunk_wall_mean", "s", sink_ratio(sum, (double)n), rows, 0, "mean process()");
    s_put(self, "chunk_wall_p50", "s", sink_stats_quantile(walls, n, 0.5), rows, 0, "median");
    s_put(self, "chunk_wall_p95", "s", sink_stats_quantile(walls, n, 0.95), rows, 0,
          "95 % quantile, interpolated");
    s_put(self, "chunk_wall_max", "s", n ? walls[n - 1] : NAN, rows, 0, "longest process()");
}

static void
s_chunks(workflow_t *self)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_totals_t *s = &self->sum;
    int64_t by_status[SINK_CHUNK_PARTIAL + 1] = {0}, superseded = 0;
    double open_s = 0, gc_s = 0;
    bool any_gc = false;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *c = &facts->chunks[i];
        if (c->status <= SINK_CHUNK_PARTIAL)
            by_status[c->status]++;
        superseded += sink_chunk_returned(c->status) && !c->counted;
        if (!c->counted)
            continue;
        open_s += isnan(c->open_s) ? 0 : c->open_s;
        gc_s += isnan(c->gc_s) ? 0 : c->gc_s;
        any_gc = any_gc || !isnan(c->gc_s);
    }
    bool any = facts->n_chunks > 0;
    int64_t all = (int64_t)facts->n_chunks;
    double reported_s = s_told(self, "coffea.processtime");
    unsigned cpu = s->no_cpu ? IS_ESTIMATE : 0, stand_in = s->n ? 0 : IS_ESTIMATE;
    s_put(self, "num_chunks", "count", any ? (double)s->n : NAN, s->n, 0,
          "counted attempts: process() returned (ok or partial) and not superseded");
    s_put(self, "num_chunks_submitted", "count", s_told(self, "coffea.chunks"), 1, 0,
          "chunks of coffea's report: submitted, not done");
    s_put(self, "num_attempts", "count", any ? (double)all : NAN, all, 0, "rows of /chunks");
    s_put(self, "num_failed_attempts", "count",
          any ? (double)(by_status[SINK_CHUNK_ERROR] + by_status[SINK_CHUNK_CANCELLED]) : NAN, all,
          0, "attempts with status error or cancelled");
    s_put(self, "num_lost_attempts", "count", any ? (double)by_status[SINK_CHUNK_LOST] : NAN, all,
          0, "attempts whose worker went away");
    s_put(self, "num_superseded_attempts", "count", any ? (double)superseded : NAN, all, 0,
          "ok attempts whose result was lost and computed again");
    s_put(self, "total_cpu_time", "s", s->n ? s->P : reported_s, s->n, stand_in,
          "P, as coffea's processtime: wall time of process(), not CPU");
    s_put(self, "process_wall_time", "s", s->n ? s->P : reported_s, s->n, stand_in,
          "P: seconds of process() of counted attempts");
    s_put(self, "process_cpu_time", "s", s->C, s->n, cpu,
          "C: thread CPU of counted attempts, opening included");
    s_put(self, "open_time", "s", s->n ? open_s : NAN, s->n, 0,
          "opening files and building events, counted attempts");
    s_put(self, "gc_time", "s", any_gc ? gc_s : NAN, s->n, 0,
          "Python's garbage collector in counted attempts; part of process_cpu_time");
    s_put(self, "avg_cpu_time_per_chunk", "s", sink_ratio(s->P, (double)s->n), s->n, 0,
          "P / chunks");
    s_put(self, "avg_process_cpu_per_chunk", "s", sink_ratio(s->C, (double)s->n), s->n, cpu,
          "C / chunks");
    double *walls = malloc((facts->n_chunks + 1) * sizeof *walls);
    if (!walls) {
        self->err = CREMA_ENOMEM;
        return;
    }
    s_chunk_times(self, walls);
    free(walls);
    s_put(self, "chunk_s_per_event", "s", sink_ratio(s->P, s->E), s->n, 0, "P/E");
    s_put_bounds(self, "chunk_b_per_event", "B", self->in->model->memory.b,
                 self->in->model->memory.b_lo, self->in->model->memory.b_hi,
                 (int64_t)self->in->model->memory.n, 0,
                 "slope of rss_peak_b on n_events, Theil-Sen");
}

/* ---- workers and memory */

typedef struct {
    double seconds, rss, cpu_seconds, cpu, share_seconds, share;
    double share_min, share_max, peak;
} memory_t;

/* A sample holds until the next one of its worker. */
static memory_t
s_memory(const sink_facts_t *facts)
{
    memory_t m = {.share_min = NAN, .share_max = NAN, .peak = NAN};
    for (size_t i = 0; i < facts->n_samples; i++) {
        const sink_sample_t *now = &facts->samples[i];
        bool more = i + 1 < facts->n_samples && facts->samples[i + 1].worker == now->worker;
        double s = more ? (double)(facts->samples[i + 1].t_ns - now->t_ns) * 1e-9 : 0;
        if (!isnan(now->cpu_pct)) {
            m.cpu_seconds += s;
            m.cpu += s * now->cpu_pct;
        }
        if (now->rss_b < 0)
            continue;
        double rss = (double)now->rss_b;
        m.seconds += s;
        m.rss += s * rss;
        m.peak = isnan(m.peak) || rss > m.peak ? rss : m.peak;
        if (now->memory_limit_b <= 0)
            continue;
        double share = 100 * rss / (double)now->memory_limit_b;
        m.share_seconds += s;
        m.share += s * share;
        m.share_min = isnan(m.share_min) || share < m.share_min ? share : m.share_min;
        m.share_max = isnan(m.share_max) || share > m.share_max ? share : m.share_max;
    }
    for (size_t i = 0; i < facts->n_chunks; i++) {
        double rss = (double)facts->chunks[i].rss_peak_b;
        if (rss > 0 && (isnan(m.peak) || rss > m.peak))
            m.peak = rss;
    }
    return m;
}

/* Mean of n(t) at instants spread evenly: what a sampler would have seen. */
static double
s_sampled_workers(const sink_facts_t *facts)
{
    enum { INSTANTS = 1000 };
    const sink_sweep_t *sweep = &facts->sweep;
    double sum = 0;
    size_t step = 0;
    for (int i = 0; i < INSTANTS; i++) {
        int64_t t_ns = facts->t0_ns + (facts->t1_ns - facts->t0_ns) / INSTANTS * i;
        while (step + 1 < sweep->n_steps && sweep->steps[step + 1].t_ns <= t_ns)
            step++;
        sum += sweep->n_steps ? sweep->steps[step].workers : 0;
    }
    return sum / INSTANTS;
}

static void
s_workers(workflow_t *self)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_sweep_t *sweep = &facts->sweep;
    const sink_totals_t *s = &self->sum;
    int64_t n = (int64_t)facts->n_presence, samples = (int64_t)facts->n_samples;
    bool any = n > 0;
    unsigned seen = facts->has_membership ? 0 : IS_ESTIMATE;
    double workers = any ? sink_ratio(sweep->worker_s, s->W) : NAN;
    double bound = sink_ratio(facts->members_bound_s, s->W);
    memory_t m = s_memory(facts);
    s_put_bounds(self, "time_avg_workers", "count", workers, workers - bound, workers + bound, n,
                 seen,
                 "integral of the step function n(t) / W; bounds from the times' uncertainty");
    s_put(self, "avg_workers", "count", any ? s_sampled_workers(facts) : NAN, 1000, seen,
          "mean of n(t) at 1000 instants; a cross-check");
    s_put(self, "peak_workers", "count", any ? sweep->workers_peak : NAN, n, seen, "max n(t)");
    s_put(self, "total_cores", "count", any ? s->N : NAN, n, seen, "A/W: threads, time-averaged");
    s_put(self, "peak_cores", "count", any ? sweep->threads_peak : NAN, n, seen,
          "most threads at one time");
    s_put(self, "cores_per_worker", "count", sink_ratio(sweep->alloc_s, sweep->worker_s), n, seen,
          "thread-seconds / worker-seconds");
    s_put(self, "avg_memory_per_worker", "B", sink_ratio(m.rss, m.seconds), samples, 0,
          "resident memory, each sample weighted by the time to the next");
    s_put(self, "peak_memory_per_worker", "B", m.peak, samples, 0,
          "highest resident memory in samples and chunks");
    s_put(self, "memory_utilization_avg", "%", sink_ratio(m.share, m.share_seconds), samples, 0,
          "resident memory / limit, time-weighted");
    s_put(self, "memory_utilization_min", "%", m.share_min, samples, 0, "smallest sample");
    s_put(self, "memory_utilization_max", "%", m.share_max, samples, 0, "largest sample");
    s_put(self, "slot_busy_pct", "%", any ? 100 * sink_ratio(sweep->busy_s, s->A) : NAN, n,
          seen | IS_FRACTION, "100 x thread-seconds running tasks / A");
    s_put(self, "cpu_pct_avg", "%", sink_ratio(m.cpu, m.cpu_seconds), samples, 0,
          "CPU of the worker process, of one core, time-weighted");
}

/* ---- fine metrics */

static void
s_fine(workflow_t *self)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_spent_t *all = &self->in->budget->all;
    int64_t n = (int64_t)facts->n_metered;
    const unsigned in_s = SINK_UNIT_SECONDS, in_b = SINK_UNIT_BYTES;
    double compress = s_metered(self, "compress", in_s);
    double decompress = s_metered(self, "decompress", in_s);
    double serialize = s_metered(self, "serialize", in_s);
    double deserialize = s_metered(self, "deserialize", in_s);
    double memory_b = s_metered(self, "memory-read", in_b),
           disk_b = s_metered(self, "disk-read", in_b);
    double known = facts->n_metered > 0 ? 0 : NAN;
    for (size_t i = 0; i < facts->n_metered; i++)
        if (facts->metered[i].context == SINK_CONTEXT_EXECUTE && facts->metered[i].in == in_s &&
            facts->metered[i].kind != CREMA_ACTIVITY_IDLE)
            known += facts->metered[i].value;
    s_put(self, "cpu_time_seconds", "s", s_metered(self, "thread-cpu", in_s), n, 0,
          "Dask's thread-cpu of all tasks; native threads are not in it");
    s_put(self, "io_time_seconds", "s", s_metered(self, "thread-noncpu", in_s), n, 0,
          "Dask's thread-noncpu of all tasks: input, waiting, the GIL, native threads");
    s_put(self, "disk_read_bytes", "B", disk_b, n, 0, "spilled data read back");
    s_put(self, "disk_read_seconds", "s", s_metered(self, "disk-read", in_s), n, 0,
          "reading spilled data");
    s_put(self, "disk_write_bytes", "B", s_metered(self, "disk-write", in_b), n, 0, "data spilled");
    s_put(self, "disk_write_seconds", "s", s_metered(self, "disk-write", in_s), n, 0, "spilling");
    s_put(self, "total_bytes_memory_read_dask", "B", memory_b, n, 0,
          "dependency values found in memory; nothing of the input files");
    s_put(self, "memory_read_count", "count", s_metered(self, "memory-read", SINK_UNIT_COUNT), n, 0,
          "dependency values found in memory");
    s_put(self, "spill_cache_hit_fraction", "1", sink_ratio(memory_b, memory_b + disk_b), n,
          IS_FRACTION, "memory-read / (memory-read + disk-read), bytes");
    s_put(self, "compression_time_seconds", "s", compress, n, 0, "Dask's compress");
    s_put(self, "decompression_time_seconds", "s", decompress, n, 0, "Dask's decompress");
    s_put(self, "serialization_time_seconds", "s", serialize, n, 0, "Dask's serialize");
    s_put(self, "deserialization_time_seconds", "s", deserialize, n, 0, "Dask's deserialize");
    s_put(self, "total_compression_overhead_seconds", "s", compress + decompress, n, 0,
          "compress + decompress; coffea's own lz4 is in thread-cpu");
    s_put(self, "total_serialization_overhead_seconds", "s", serialize + deserialize, n, 0,
          "serialize + deserialize");
    s_put(self, "closure_seconds_known_vs_thread_seconds", "1", sink_ratio(known, self->sum.A), n,
          IS_FRACTION, "all seconds that Dask metered in tasks / A");
    unsigned stand_in = all->metered ? 0 : IS_ESTIMATE;
    bool any = all->metered || self->sum.n > 0;
    double cpu_s = any ? all->cpu_s : NAN, noncpu_s = any ? self->sum.noncpu : NAN;
    s_put(self, "processor_cpu_time_seconds", "s", cpu_s, n, stand_in,
          "thread CPU of the processor's tasks; from chunks where Dask metered nothing");
    s_put(self, "processor_noncpu_time_seconds", "s", noncpu_s, n, stand_in,
          "the rest of the processor's tasks, user-metered seconds included");
    s_put(self, "processor_cpu_percentage", "%", 100 * sink_ratio(cpu_s, cpu_s + noncpu_s), n,
          stand_in | IS_FRACTION, "cpu / (cpu + noncpu)");
    s_put(self, "processor_noncpu_percentage", "%", 100 * sink_ratio(noncpu_s, cpu_s + noncpu_s), n,
          stand_in | IS_FRACTION, "noncpu / (cpu + noncpu)");
    double overhead_cpu_s = all->metered ? 0 : NAN, overhead_noncpu_s = overhead_cpu_s;
    static const crema_side_t others[] = {CREMA_SIDE_PREPROCESS, CREMA_SIDE_MERGE,
                                          CREMA_SIDE_OVERHEAD, CREMA_SIDE_UNATTRIBUTED};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        overhead_cpu_s += all->side_cpu_s[others[i]];
        overhead_noncpu_s += all->side_noncpu_s[others[i]];
    }
    s_put(self, "overhead_cpu_time_seconds", "s", overhead_cpu_s, n, 0,
          "thread CPU of all other tasks: preprocessing, merging, the rest");
    s_put(self, "overhead_noncpu_time_seconds", "s", overhead_noncpu_s, n, 0,
          "the rest of all other tasks");
}

/* ---- efficiency */

static void
s_efficiency(workflow_t *self)
{
    const sink_totals_t *s = &self->sum;
    const sink_budget_t *b = self->in->budget;
    unsigned cpu = s->no_cpu ? IS_ESTIMATE : 0;
    bool any = b->all.metered || s->n > 0;
    double noncpu = any ? s->noncpu : NAN, cpu_s = any ? b->all.cpu_s : NAN;
    s_put(self, "core_occupancy", "1", sink_ratio(s->P, s->A), s->n, IS_FRACTION,
          "P/A: share of the threads in process(); 1 also when all of it waits");
    s_put(self, "cpu_efficiency", "1", sink_ratio(s->C, s->A), s->n, cpu | IS_FRACTION, "C/A");
    s_put(self, "speedup", "1", sink_ratio(s->P, s->W), s->n, 0,
          "P/W: mean busy slots; contention raises it");
    s_put(self, "mean_busy_slots", "count", sink_ratio(s->P, s->W), s->n, 0, "P/W");
    s_put(self, "speedup_measured", "1", NAN, 0, 0,
          "N_ref T_ref / T_N: needs a reference run, see crema's scaling analysis");
    s_put(self, "io_overhead_raw", "1", sink_ratio(noncpu, s->W), s->n, 0,
          "noncpu/W: up to the number of threads");
    s_put(self, "noncpu_fraction_task", "1", sink_ratio(noncpu, cpu_s + noncpu), s->n, IS_FRACTION,
          "noncpu / (cpu + noncpu) of the processor's tasks");
    s_put(self, "noncpu_fraction_alloc", "1", sink_ratio(noncpu, s->A), s->n, IS_FRACTION,
          "noncpu/A");
    s_put(self, "efficiency_ratio_raw", "1", sink_ratio(s->P, s->W), s->n, 0,
          "P/W: 1 is one busy slot");
    s_put(self, "efficiency_ratio", "1", sink_ratio(s->P, s->A), s->n, IS_FRACTION, "P/A");
    s_put(self, "straggler_excess_fraction", "1",
          s->n ? sink_ratio(self->in->model->excess_s, s->A) : NAN, s->n, IS_FRACTION,
          "sum of max(0, chunk time - (a + b n)) / A");
    s_put(self, "transfer_time_seconds", "s", b->all.metered ? b->transfer_s : NAN,
          (int64_t)self->in->facts->n_metered, 0,
          "Dask's transfers; they run beside tasks and are never added");
    double residual = sink_ratio(b->residual_s, b->cap_s);
    bool open = fabs(residual) > 0.02;
    s_put(self, "closure_waterfall_residual", "1", residual, 1, open ? IS_OPEN : 0,
          "residual of the waterfall / capacity; beyond 0.02 the budget does not close");
}

crema_err_t
sink_summary_workflow(const sink_summary_t *self)
{
    workflow_t workflow = {.in = self};
    sink_summary_totals(self, &workflow.sum);
    s_throughput(&workflow);
    s_data(&workflow);
    s_chunks(&workflow);
    s_workers(&workflow);
    s_fine(&workflow);
    s_efficiency(&workflow);
    return workflow.err;
}
