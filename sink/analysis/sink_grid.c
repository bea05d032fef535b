#include "sink_grid.h"

#include <math.h>
#include <string.h>

/* Seconds of a step. The last one may exceed the window: its means cover the part within. */
static double
s_step_s(const sink_facts_t *facts, const sink_axis_t *axis, size_t i)
{
    int64_t from = axis->t0_ns + (int64_t)i * axis->step_ns, to = from + axis->step_ns;
    return (double)((to < facts->t1_ns ? to : facts->t1_ns) - from) * 1e-9;
}

/* Adds to each step the part of `amount` that falls into it, if it is spread evenly from t0 to t1;
 * nothing after the window. */
static void
s_spread(const sink_facts_t *facts, const sink_axis_t *axis, int64_t t0_ns, int64_t t1_ns,
         double amount, double *steps)
{
    if (t1_ns > facts->t1_ns && t1_ns > t0_ns) {
        int64_t until = t0_ns > facts->t1_ns ? t0_ns : facts->t1_ns;
        amount *= (double)(until - t0_ns) / (double)(t1_ns - t0_ns);
        t1_ns = until;
    }
    if (amount > 0)
        sink_axis_spread(axis, t0_ns, t1_ns, amount, steps);
}

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
            s_spread(facts, axis, p->t0_ns, p->t1_ns,
                     (double)(p->t1_ns - p->t0_ns) * 1e-9 * p->nthreads,
                     s_row(&block, CREMA_GRID_SLOT_BUSY_PCT, p->worker));
    }
    for (size_t i = 0; i < facts->n_tasks + facts->n_chunks; i++) {
        sink_busy_t b;
        if (sink_facts_busy(facts, i, &b) && s_is_in(&block, b.worker) && b.t1_ns > b.t0_ns)
            s_spread(facts, axis, b.t0_ns, b.t1_ns, (double)(b.t1_ns - b.t0_ns) * 1e-9,
                     s_row(&block, CREMA_GRID_BUSY_THREADS, b.worker));
    }
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *c = &facts->chunks[i];
        if (!c->counted || !s_is_in(&block, c->worker))
            continue;
        s_spread(facts, axis, c->t_start_ns, c->t_end_ns, (double)c->n_events,
                 s_row(&block, CREMA_GRID_EVENT_RATE, c->worker));
        s_spread(facts, axis, c->t_start_ns, c->t_end_ns, (double)c->bytes_read_b,
                 s_row(&block, CREMA_GRID_BYTES_RATE, c->worker));
    }
    s_samples(&block, facts);
    for (size_t i = 0; i < n * axis->n; i++) {
        double threads_s = values[CREMA_GRID_SLOT_BUSY_PCT][i];
        double busy_s = values[CREMA_GRID_BUSY_THREADS][i];
        double step_s = s_step_s(facts, axis, i % axis->n);
        bool there = threads_s > 0;
        values[CREMA_GRID_SLOT_BUSY_PCT][i] = there ? 100 * busy_s / threads_s : NAN;
        values[CREMA_GRID_BUSY_THREADS][i] = there || busy_s > 0 ? busy_s / step_s : NAN;
        static const crema_grid_t rates[] = {CREMA_GRID_EVENT_RATE, CREMA_GRID_BYTES_RATE};
        for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
            double *amount = &values[rates[k]][i];
            *amount = there || *amount > 0 ? *amount / step_s : NAN;
        }
    }
}

/* ---- sums */

void
sink_grid_sum(const sink_facts_t *facts, const sink_axis_t *axis, crema_grid_t variable,
              double *values)
{
    const sink_sweep_t *sweep = &facts->sweep;
    if (variable == CREMA_GRID_EVENT_RATE_TOTAL || variable == CREMA_GRID_DATA_RATE_TOTAL) {
        memset(values, 0, axis->n * sizeof *values);
        for (size_t i = 0; i < facts->n_chunks; i++) {
            const sink_chunk_t *c = &facts->chunks[i];
            int64_t amount =
                variable == CREMA_GRID_EVENT_RATE_TOTAL ? c->n_events : c->bytes_read_b;
            if (c->counted)
                s_spread(facts, axis, c->t_start_ns, c->t_end_ns, (double)amount, values);
        }
        for (size_t i = 0; i < axis->n; i++)
            values[i] /= s_step_s(facts, axis, i);
        return;
    }
    const double *sums = variable == CREMA_GRID_N_WORKERS   ? sweep->worker_ns
                         : variable == CREMA_GRID_N_THREADS ? sweep->thread_ns
                                                            : sweep->busy_ns;
    for (size_t i = 0; i < axis->n; i++)
        values[i] = sums[i] * 1e-9 / s_step_s(facts, axis, i);
}
