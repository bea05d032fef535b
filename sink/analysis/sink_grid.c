#include "sink_grid.h"

#include <math.h>
#include <string.h>

/* ---- per worker */

typedef struct {
    const sink_axis_t *axis;
    size_t first, n;
    double *const *values;
} block_t;

static double *
s_row(const block_t *block, crema_grid_t variable, uint32_t worker)
{
    return block->values[variable] + (worker - block->first) * block->axis->n;
}

static bool
s_is_in(const block_t *block, uint32_t worker)
{
    return worker >= block->first && worker - block->first < block->n;
}

/* Means of the samples in each step. */
static void
s_samples(const block_t *block, const sink_facts_t *facts)
{
    const sink_axis_t *axis = block->axis;
    for (size_t i = 0; i < facts->n_samples;) {
        const sink_sample_t *s = &facts->samples[i];
        uint32_t worker = s->worker;
        int64_t step = (s->t_ns - axis->t0_ns) / axis->step_ns;
        if (!s_is_in(block, worker) || s->t_ns < axis->t0_ns || step >= (int64_t)axis->n) {
            i++;
            continue;
        }
        double sum[4] = {0}, n[4] = {0};
        for (; i < facts->n_samples; i++) {
            s = &facts->samples[i];
            if (s->worker != worker || (s->t_ns - axis->t0_ns) / axis->step_ns != step)
                break;
            double limit = (double)s->memory_limit_b, rss = (double)s->rss_b;
            double value[4] = {s->cpu_pct, rss >= 0 ? rss : NAN,
                               rss >= 0 && limit > 0 ? 100 * rss / limit : NAN,
                               s->executing != UINT16_MAX ? s->executing : NAN};
            for (int k = 0; k < 4; k++) {
                sum[k] += isnan(value[k]) ? 0 : value[k];
                n[k] += !isnan(value[k]);
            }
        }
        static const crema_grid_t variables[4] = {CREMA_GRID_CPU_PCT, CREMA_GRID_RSS_B,
                                                  CREMA_GRID_MEMORY_PCT, CREMA_GRID_EXECUTING};
        for (int k = 0; k < 4; k++)
            if (n[k] > 0)
                s_row(block, variables[k], worker)[step] = sum[k] / n[k];
    }
}

void
sink_grid_workers(const sink_facts_t *facts, const sink_axis_t *axis, size_t first, size_t n,
                  double *const values[CREMA_GRID_PER_WORKER])
{
    block_t block = {axis, first, n, values};
    double step_s = (double)axis->step_ns * 1e-9;
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++) {
        bool summed = v == CREMA_GRID_SLOT_BUSY_PCT || v == CREMA_GRID_BUSY_THREADS ||
                      v == CREMA_GRID_EVENT_RATE || v == CREMA_GRID_BYTES_RATE;
        for (size_t i = 0; i < n * axis->n; i++)
            values[v][i] = summed ? 0 : NAN;
    }
    /* Until the last lines, SLOT_BUSY_PCT holds the thread-seconds present in each step. */
    for (size_t i = 0; i < facts->n_presence; i++) {
        const sink_presence_t *p = &facts->presence[i];
        if (s_is_in(&block, p->worker))
            sink_axis_spread(axis, p->t0_ns, p->t1_ns,
                             (double)(p->t1_ns - p->t0_ns) * 1e-9 * p->nthreads,
                             s_row(&block, CREMA_GRID_SLOT_BUSY_PCT, p->worker));
    }
    for (size_t i = 0; i < facts->n_tasks + facts->n_chunks; i++) {
        sink_busy_t b;
        if (sink_facts_busy(facts, i, &b) && s_is_in(&block, b.worker) && b.t1_ns > b.t0_ns)
            sink_axis_spread(axis, b.t0_ns, b.t1_ns, (double)(b.t1_ns - b.t0_ns) * 1e-9,
                             s_row(&block, CREMA_GRID_BUSY_THREADS, b.worker));
    }
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *c = &facts->chunks[i];
        if (!c->counted || !s_is_in(&block, c->worker))
            continue;
        if (c->n_events > 0)
            sink_axis_spread(axis, c->t_start_ns, c->t_end_ns, (double)c->n_events / step_s,
                             s_row(&block, CREMA_GRID_EVENT_RATE, c->worker));
        if (c->bytes_read_b > 0)
            sink_axis_spread(axis, c->t_start_ns, c->t_end_ns, (double)c->bytes_read_b / step_s,
                             s_row(&block, CREMA_GRID_BYTES_RATE, c->worker));
    }
    s_samples(&block, facts);
    for (size_t i = 0; i < n * axis->n; i++) {
        double threads_s = values[CREMA_GRID_SLOT_BUSY_PCT][i];
        double busy_s = values[CREMA_GRID_BUSY_THREADS][i];
        bool there = threads_s > 0;
        values[CREMA_GRID_SLOT_BUSY_PCT][i] = there ? 100 * busy_s / threads_s : NAN;
        values[CREMA_GRID_BUSY_THREADS][i] = there || busy_s > 0 ? busy_s / step_s : NAN;
        if (!there && values[CREMA_GRID_EVENT_RATE][i] <= 0)
            values[CREMA_GRID_EVENT_RATE][i] = NAN;
        if (!there && values[CREMA_GRID_BYTES_RATE][i] <= 0)
            values[CREMA_GRID_BYTES_RATE][i] = NAN;
    }
}

/* ---- sums */

void
sink_grid_sum(const sink_facts_t *facts, const sink_axis_t *axis, crema_grid_t variable,
              double *values)
{
    const sink_sweep_t *sweep = &facts->sweep;
    double step_s = (double)axis->step_ns * 1e-9;
    if (variable == CREMA_GRID_EVENT_RATE_TOTAL || variable == CREMA_GRID_DATA_RATE_TOTAL) {
        memset(values, 0, axis->n * sizeof *values);
        for (size_t i = 0; i < facts->n_chunks; i++) {
            const sink_chunk_t *c = &facts->chunks[i];
            int64_t amount =
                variable == CREMA_GRID_EVENT_RATE_TOTAL ? c->n_events : c->bytes_read_b;
            if (c->counted && amount > 0)
                sink_axis_spread(axis, c->t_start_ns, c->t_end_ns, (double)amount / step_s, values);
        }
        return;
    }
    const double *sums = variable == CREMA_GRID_N_WORKERS   ? sweep->worker_ns
                         : variable == CREMA_GRID_N_THREADS ? sweep->thread_ns
                                                            : sweep->busy_ns;
    /* The last step may exceed the window: the mean covers the part within. */
    for (size_t i = 0; i < axis->n; i++) {
        int64_t from = axis->t0_ns + (int64_t)i * axis->step_ns, to = from + axis->step_ns;
        if (to > facts->t1_ns)
            to = facts->t1_ns;
        values[i] = to > from ? sums[i] / (double)(to - from) : NAN;
    }
}
