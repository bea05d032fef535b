/* Sums over a run, and the parallel factors. */
#include <math.h>

#include "sink_stats.h"
#include "sink_summary.h"

double
sink_ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* NaN: nothing to add up, or none of it known. */
static double
s_or_nothing(const sink_sum_t *sum)
{
    return sum->n > 0 ? sink_sum(sum) : NAN;
}

void
sink_summary_totals(const sink_summary_t *self, sink_totals_t *ret_totals)
{
    const sink_facts_t *facts = self->facts;
    sink_totals_t sum = {.W = self->budget->wall_s,
                         .A = self->budget->alloc_s,
                         .cap = self->budget->cap_s,
                         .noncpu = self->budget->all.noncpu_s + self->budget->all.user_s};
    sink_sum_t events = {0}, wall = {0}, cpu = {0}, bytes = {0}, open = {0}, gc = {0};
    sum.N = sink_ratio(sum.A, sum.W);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (!chunk->counted)
            continue;
        sum.n++;
        sink_sum_add(&events, chunk->n_events < 0 ? NAN : (double)chunk->n_events);
        sink_sum_add(&wall, chunk->wall_s);
        sink_sum_add(&open, chunk->open_s);
        sink_sum_add(&gc, chunk->gc_s);
        sink_sum_add(&cpu, chunk->cpu_s);
        sink_sum_add(&bytes, chunk->bytes_read_b < 0 ? NAN : (double)chunk->bytes_read_b);
    }
    sum.no_cpu = cpu.n_known < cpu.n;
    sum.no_bytes = bytes.n_known < bytes.n;
    sum.no_open = open.n_known < open.n;
    sum.no_gc = gc.n_known < gc.n;
    sum.E = s_or_nothing(&events);
    sum.P = s_or_nothing(&wall);
    sum.C = s_or_nothing(&cpu);
    sum.B = s_or_nothing(&bytes);
    sum.open = s_or_nothing(&open);
    sum.gc = s_or_nothing(&gc);
    if (!sink_budget_knows_cpu(self->budget))
        sum.noncpu = NAN;
    *ret_totals = sum;
}

sink_pop_t
sink_summary_pop(const double *useful_s, const double *present_s, size_t n, double alloc_s,
                 double cap_s)
{
    double sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        double share = sink_ratio(useful_s[i], present_s[i]);
        sum += useful_s[i];
        if (share > most)
            most = share;
    }
    sink_pop_t pop = {.pe = sink_ratio(sum, alloc_s), .alloc_e = sink_ratio(alloc_s, cap_s)};
    pop.lb = sink_ratio(pop.pe, most);
    pop.sched_e = most > 0 ? most : NAN;
    pop.of_cap = sink_ratio(sum, cap_s);
    return pop;
}
