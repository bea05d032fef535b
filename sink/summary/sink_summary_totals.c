/* Sums over a run, and the parallel factors. */
#include <math.h>

#include "sink_summary.h"

double
sink_ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

void
sink_tally_add(sink_tally_t *self, const sink_chunk_t *chunk)
{
    self->chunks++;
    sink_sum_add(&self->events, chunk->n_events < 0 ? NAN : (double)chunk->n_events);
    sink_sum_add(&self->bytes_b, chunk->bytes_read_b < 0 ? NAN : (double)chunk->bytes_read_b);
    sink_sum_add(&self->wall_s, sink_chunk_process_s(chunk));
    sink_sum_add(&self->open_s, chunk->open_s);
    sink_sum_add(&self->cpu_s, chunk->cpu_s);
    sink_sum_add(&self->gc_s, chunk->gc_s);
}

int64_t
sink_tally_int(const sink_sum_t *sum)
{
    double value = sink_sum(sum);
    return isnan(value) ? -1 : (int64_t)value;
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
    sink_tally_t all = {0};
    sink_sum_t gc = {0};
    sum.N = sink_ratio(sum.A, sum.W);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (!chunk->counted)
            continue;
        sink_tally_add(&all, chunk);
        sink_sum_add(&gc, chunk->gc_s);
    }
    sum.n = all.chunks;
    sum.no_cpu = all.cpu_s.n_known < all.cpu_s.n;
    sum.no_bytes = all.bytes_b.n_known < all.bytes_b.n;
    sum.no_open = all.open_s.n_known < all.open_s.n;
    sum.no_process = all.wall_s.n_known < all.wall_s.n;
    sum.no_gc = gc.n_known < gc.n;
    sum.E = s_or_nothing(&all.events);
    sum.P = s_or_nothing(&all.wall_s);
    sum.C = s_or_nothing(&all.cpu_s);
    sum.B = s_or_nothing(&all.bytes_b);
    sum.open = s_or_nothing(&all.open_s);
    sum.gc = s_or_nothing(&gc);
    if (!sink_budget_knows_cpu(self->budget))
        sum.noncpu = NAN;
    *ret_totals = sum;
}

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
