/* Rows of /summary/workflow about workers, activities and efficiency. */
#include <math.h>

#include "crema_split.h"
#include "sink_workflow.h"

/* Sum of one of Dask's activities over all tasks; NaN if Dask metered nothing. */
static double
s_metered(const workflow_t *self, const char *activity, sink_unit_kind_t in)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_dict_t *dict = sink_decoder_dict(self->in->run);
    uint32_t id = sink_dict_find(dict, CREMA_DICT_ACTIVITY, activity);
    double sum = facts->n_metered > 0 ? 0 : NAN;
    for (size_t i = 0; i < facts->n_metered; i++) {
        const sink_metered_t *m = &facts->metered[i];
        if (m->activity == id && m->in == in && m->context == CREMA_CONTEXT_EXECUTE)
            sum += m->value;
    }
    return sum;
}

/* ---- workers and memory */

typedef struct {
    double seconds, rss, cpu_seconds, cpu, share_seconds, share;
    double share_min, share_max, peak;
} memory_t;

/* Memory is valid until the next sample of its worker; CPU is that since the sample before. */
static memory_t
s_memory(const sink_facts_t *facts, int64_t chunks_peak_b)
{
    memory_t m = {.share_min = NAN, .share_max = NAN, .peak = NAN};
    for (size_t i = 0; i < facts->n_samples; i++) {
        const sink_sample_t *now = &facts->samples[i];
        bool more = i + 1 < facts->n_samples && facts->samples[i + 1].worker == now->worker;
        bool earlier = i > 0 && facts->samples[i - 1].worker == now->worker;
        double s = more ? (double)(facts->samples[i + 1].t_ns - now->t_ns) * 1e-9 : 0;
        if (!isnan(now->cpu_pct) && earlier) {
            double since_s = (double)(now->t_ns - facts->samples[i - 1].t_ns) * 1e-9;
            m.cpu_seconds += since_s;
            m.cpu += since_s * now->cpu_pct;
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
    if (chunks_peak_b > 0 && (isnan(m.peak) || (double)chunks_peak_b > m.peak))
        m.peak = (double)chunks_peak_b;
    return m;
}

/* Unweighted mean over samples, as published elsewhere. */
static double
s_mean_rss(const sink_facts_t *facts)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < facts->n_samples; i++) {
        if (facts->samples[i].rss_b < 0)
            continue;
        sum += (double)facts->samples[i].rss_b;
        n++;
    }
    return sink_ratio(sum, n);
}

/* Mean of n(t) at evenly spaced instants: what a sampler would have seen. */
static double
s_sampled_workers(const sink_facts_t *facts)
{
    enum { INSTANTS = 1000 };
    const sink_sweep_t *sweep = &facts->sweep;
    double sum = 0;
    size_t step = 0;
    for (int i = 0; i < INSTANTS; i++) {
        int64_t t_ns = facts->t0_ns + (facts->t1_ns - facts->t0_ns) / INSTANTS * i;
        while (step + 1 < sweep->n_counts && sweep->counts[step + 1].t_ns <= t_ns)
            step++;
        sum += sweep->n_counts ? sweep->counts[step].workers : 0;
    }
    return sum / INSTANTS;
}

/* Trapezoids through the change points, as if steps were slopes: as published elsewhere. */
static double
s_trapezoid_s(const sink_facts_t *facts)
{
    const sink_sweep_t *sweep = &facts->sweep;
    double sum = 0;
    size_t from = 0;
    for (size_t i = 1; i <= sweep->n_counts; i++) {
        bool last = i == sweep->n_counts;
        const sink_step_t *a = &sweep->counts[from], *b = &sweep->counts[last ? i - 1 : i];
        if (!last && a->workers == b->workers)
            continue;
        int64_t t_ns = last ? facts->t1_ns : b->t_ns;
        sum += (a->workers + b->workers) / 2.0 * (double)(t_ns - a->t_ns) * 1e-9;
        from = i;
    }
    return sum;
}

/* How long threads of the workers waited for a core; NaN if the kernel does not report it. */
static double
s_cpu_wait_s(const sink_facts_t *facts)
{
    double sum = NAN;
    for (size_t w = 0; w < facts->n_workers; w++) {
        double s = facts->workers[w].cpu_wait_s;
        if (!isnan(s))
            sum = isnan(sum) ? s : sum + s;
    }
    return sum;
}

void
workflow_workers(workflow_t *self)
{
    const sink_facts_t *facts = self->in->facts;
    const sink_sweep_t *sweep = &facts->sweep;
    const sink_totals_t *s = &self->sum;
    int64_t n = (int64_t)facts->n_presence, samples = (int64_t)facts->n_samples;
    bool any = n > 0;
    unsigned seen = facts->has_membership ? 0 : IS_ESTIMATE;
    double workers = any ? sink_ratio(sweep->worker_s, s->W) : NAN;
    double bound = sink_ratio(facts->members_bound_s, s->W);
    double raw_workers = any ? sink_ratio(s_trapezoid_s(facts), s->W) : NAN;
    double raw_cores = raw_workers * sink_ratio(sweep->alloc_s, sweep->worker_s);
    memory_t m = s_memory(facts, self->in->sums->rss_peak_b);
    workflow_put(self, "time_avg_workers_raw", raw_workers, n, seen);
    workflow_put(self, "total_cores_raw", raw_cores, n, seen);
    workflow_put(self, "cpu_efficiency_raw", sink_ratio(s->P, s->W * raw_cores), s->n,
                 seen | IS_FRACTION);
    workflow_put(self, "event_rate_core_averaged_raw", sink_ratio(s->E, s->W * raw_cores), s->n,
                 seen);
    workflow_put(self, "cpu_wait_seconds", s_cpu_wait_s(facts), samples, 0);
    workflow_put(self, "closure_cpu_agent_vs_hook", facts->cpu_agent_vs_hook, samples, 0);
    workflow_put_bounds(self, "time_avg_workers", workers, workers - bound, workers + bound, n,
                        seen);
    workflow_put(self, "avg_workers", any ? s_sampled_workers(facts) : NAN, 1000, seen);
    workflow_put(self, "peak_workers", any ? sweep->workers_peak : NAN, n, seen);
    workflow_put(self, "total_cores", any ? s->N : NAN, n, seen);
    workflow_put(self, "peak_cores", any ? sweep->threads_peak : NAN, n, seen);
    workflow_put(self, "cores_per_worker", sink_ratio(sweep->alloc_s, sweep->worker_s), n, seen);
    workflow_put(self, "avg_memory_per_worker", sink_ratio(m.rss, m.seconds), samples, 0);
    workflow_put(self, "avg_memory_per_worker_raw", s_mean_rss(facts), samples, 0);
    workflow_put(self, "peak_memory_per_worker", m.peak, samples, 0);
    workflow_put(self, "memory_utilization_avg", sink_ratio(m.share, m.share_seconds), samples, 0);
    workflow_put(self, "memory_utilization_min", m.share_min, samples, 0);
    workflow_put(self, "memory_utilization_max", m.share_max, samples, 0);
    workflow_put(self, "slot_busy_pct", any ? 100 * sink_ratio(sweep->busy_s, s->A) : NAN, n,
                 seen | IS_FRACTION);
    workflow_put(self, "cpu_utilization_raw", facts->assigned_pct, samples, 0);
    workflow_put(self, "cpu_pct_avg", sink_ratio(m.cpu, m.cpu_seconds), samples, 0);
}

/* ---- fine metrics */

void
workflow_fine(workflow_t *self)
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
        if (facts->metered[i].context == CREMA_CONTEXT_EXECUTE && facts->metered[i].in == in_s &&
            facts->metered[i].kind != CREMA_ACTIVITY_IDLE)
            known += facts->metered[i].value;
    workflow_put(self, "cpu_time_seconds", s_metered(self, "thread-cpu", in_s), n, 0);
    workflow_put(self, "io_time_seconds", s_metered(self, "thread-noncpu", in_s), n, 0);
    workflow_put(self, "disk_read_bytes", disk_b, n, 0);
    workflow_put(self, "disk_read_seconds", s_metered(self, "disk-read", in_s), n, 0);
    workflow_put(self, "disk_write_bytes", s_metered(self, "disk-write", in_b), n, 0);
    workflow_put(self, "disk_write_seconds", s_metered(self, "disk-write", in_s), n, 0);
    workflow_put(self, "total_bytes_memory_read_dask", memory_b, n, 0);
    workflow_put(self, "memory_read_count", s_metered(self, "memory-read", SINK_UNIT_COUNT), n, 0);
    workflow_put(self, "spill_cache_hit_fraction", sink_ratio(memory_b, memory_b + disk_b), n,
                 IS_FRACTION);
    workflow_put(self, "compression_time_seconds", compress, n, 0);
    workflow_put(self, "decompression_time_seconds", decompress, n, 0);
    workflow_put(self, "serialization_time_seconds", serialize, n, 0);
    workflow_put(self, "deserialization_time_seconds", deserialize, n, 0);
    workflow_put(self, "total_compression_overhead_seconds", compress + decompress, n, 0);
    workflow_put(self, "total_serialization_overhead_seconds", serialize + deserialize, n, 0);
    workflow_put(self, "closure_seconds_known_vs_thread_seconds", sink_ratio(known, self->sum.A), n,
                 IS_FRACTION);
    unsigned stand_in = all->metered ? 0 : IS_ESTIMATE;
    bool any = all->metered || self->sum.n > 0;
    any = any && sink_budget_knows_cpu(self->in->budget);
    double cpu_s = any ? all->cpu_s : NAN, noncpu_s = any ? self->sum.noncpu : NAN;
    workflow_put(self, "processor_cpu_time_seconds", cpu_s, n, stand_in);
    workflow_put(self, "processor_noncpu_time_seconds", noncpu_s, n, stand_in);
    workflow_put(self, "processor_cpu_percentage", 100 * sink_ratio(cpu_s, cpu_s + noncpu_s), n,
                 stand_in | IS_FRACTION);
    workflow_put(self, "processor_noncpu_percentage", 100 * sink_ratio(noncpu_s, cpu_s + noncpu_s),
                 n, stand_in | IS_FRACTION);
    double overhead_cpu_s = all->metered ? 0 : NAN, overhead_noncpu_s = overhead_cpu_s;
    static const crema_side_t others[] = {CREMA_SIDE_PREPROCESS, CREMA_SIDE_MERGE,
                                          CREMA_SIDE_OVERHEAD, CREMA_SIDE_UNATTRIBUTED};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        overhead_cpu_s += all->side_cpu_s[others[i]];
        overhead_noncpu_s += all->side_noncpu_s[others[i]];
    }
    workflow_put(self, "overhead_cpu_time_seconds", overhead_cpu_s, n, 0);
    workflow_put(self, "overhead_noncpu_time_seconds", overhead_noncpu_s, n, 0);
}

/* ---- efficiency */

void
workflow_efficiency(workflow_t *self)
{
    const sink_totals_t *s = &self->sum;
    const sink_budget_t *b = self->in->budget;
    unsigned cpu = s->no_cpu ? IS_ESTIMATE : 0;
    bool any = (b->all.metered || s->n > 0) && sink_budget_knows_cpu(b);
    double noncpu = any ? s->noncpu : NAN, cpu_s = any ? b->all.cpu_s : NAN;
    workflow_put(self, "core_occupancy", sink_ratio(s->open + s->P, s->A), s->n,
                 IS_FRACTION | (s->no_open ? IS_ESTIMATE : 0));
    workflow_put(self, "core_efficiency", sink_ratio(s->P, s->A), s->n, IS_FRACTION);
    workflow_put(self, "cpu_efficiency", sink_ratio(s->C, s->A), s->n, cpu | IS_FRACTION);
    workflow_put(self, "speedup", sink_ratio(s->P, s->W), s->n, 0);
    workflow_put(self, "mean_busy_slots", sink_ratio(s->P, s->W), s->n, 0);
    workflow_put(self, "speedup_measured", NAN, 0, 0);
    workflow_put(self, "io_overhead_raw", sink_ratio(noncpu, s->W), s->n, 0);
    workflow_put(self, "noncpu_fraction_task", sink_ratio(noncpu, cpu_s + noncpu), s->n,
                 IS_FRACTION);
    workflow_put(self, "noncpu_fraction_alloc", sink_ratio(noncpu, s->A), s->n, IS_FRACTION);
    workflow_put(self, "efficiency_ratio_raw", sink_ratio(s->P, s->W), s->n, 0);
    workflow_put(self, "efficiency_ratio", sink_ratio(s->P, s->A), s->n, IS_FRACTION);
    workflow_put(self, "straggler_excess_fraction",
                 s->n ? sink_ratio(self->in->model->excess_s, s->A) : NAN, s->n, IS_FRACTION);
    workflow_put(self, "transfer_time_seconds", b->all.metered ? b->transfer_s : NAN,
                 (int64_t)self->in->facts->n_metered, 0);
    double residual = sink_ratio(b->residual_s, b->cap_s);
    bool open = fabs(residual) > 0.02;
    workflow_put(self, "closure_waterfall_residual", residual, 1, open ? IS_OPEN : 0);
}
