/* The time budget: waterfall, split and the run's efficiency. */
#include <math.h>
#include <stdlib.h>

#include "crema_metrics.h"
#include "crema_split.h"
#include "sink_path.h"
#include "sink_scratch.h"
#include "sink_sort.h"
#include "sink_summary.h"

/* coffea merges this many outputs in one task. */
#define MERGE_WIDTH 20

/* ---- waterfall */

static crema_err_t
s_category(const sink_summary_t *self, const char *category, double s, int rank)
{
    crema_waterfall_row_t row = {
        .thread_seconds = s,
        .fraction = sink_ratio(s, self->budget->cap_s),
        .rank = rank,
    };
    SINK_TEXT(row.category, category);
    return sink_tables_add(self->tables, CREMA_TABLE_WATERFALL, &row);
}

crema_err_t
sink_summary_waterfall(const sink_summary_t *self)
{
    const sink_budget_t *b = self->budget;
    const double seconds[CREMA_WATERFALL_COUNT] = {
        [CREMA_WATERFALL_PROCESSOR_CPU] = sink_budget_knows_cpu(b) ? b->all.cpu_s : NAN,
        [CREMA_WATERFALL_PROCESSOR_NONCPU] = b->all.noncpu_s,
        [CREMA_WATERFALL_USER_METERED] = b->all.user_s,
        [CREMA_WATERFALL_RUNTIME] = b->all.runtime_s,
        [CREMA_WATERFALL_PREPROCESS] = sink_spent_side_s(&b->all, CREMA_SIDE_PREPROCESS),
        [CREMA_WATERFALL_MERGE] = sink_spent_side_s(&b->all, CREMA_SIDE_MERGE),
        [CREMA_WATERFALL_OVERHEAD] = sink_spent_side_s(&b->all, CREMA_SIDE_OVERHEAD),
        [CREMA_WATERFALL_UNATTRIBUTED] = sink_spent_side_s(&b->all, CREMA_SIDE_UNATTRIBUTED),
        [CREMA_WATERFALL_WASTED] = b->all.wasted_s,
        [CREMA_WATERFALL_OTHER_RUNS] = sink_spent_side_s(&b->all, CREMA_SIDE_FOREIGN),
        [CREMA_WATERFALL_IDLE_STARTUP] = b->idle_s[SINK_IDLE_STARTUP],
        [CREMA_WATERFALL_IDLE_DRAINED] = b->idle_s[SINK_IDLE_DRAINED],
        [CREMA_WATERFALL_IDLE_TAIL] = b->idle_s[SINK_IDLE_TAIL],
        [CREMA_WATERFALL_IDLE_JOIN] = b->idle_s[SINK_IDLE_JOIN],
        [CREMA_WATERFALL_IDLE_LATENCY] = b->idle_s[SINK_IDLE_LATENCY],
        [CREMA_WATERFALL_IDLE_IMBALANCE] = b->idle_s[SINK_IDLE_IMBALANCE],
        [CREMA_WATERFALL_IDLE_STARVED] = b->idle_s[SINK_IDLE_STARVED],
        [CREMA_WATERFALL_IDLE_PAUSED] = b->idle_s[SINK_IDLE_PAUSED],
        [CREMA_WATERFALL_IDLE_PREPROCESS] = b->idle_s[SINK_IDLE_PREPROCESS],
        [CREMA_WATERFALL_IDLE_MERGE] = b->idle_s[SINK_IDLE_MERGE],
        [CREMA_WATERFALL_ABSENT] = b->absent_s,
        [CREMA_WATERFALL_RESIDUAL] = b->residual_s,
    };
    crema_err_t err = CREMA_OK;
    for (int i = 0; i < CREMA_WATERFALL_COUNT && err == CREMA_OK; i++)
        err = s_category(self, crema_waterfall_names[i], seconds[i], i);
    return err;
}

/* ---- split */

/* Of tasks, as the seconds; of transfers all. What the memory monitor spills belongs to no side. */
static double
s_bytes(const sink_facts_t *facts, crema_side_t side)
{
    double sum = facts->n_metered > 0 ? 0 : -1;
    for (size_t i = 0; i < facts->n_metered; i++) {
        const sink_metered_t *m = &facts->metered[i];
        bool in_side = m->side == side && m->in == SINK_UNIT_BYTES;
        if (in_side && (m->context == CREMA_CONTEXT_EXECUTE || side == CREMA_SIDE_TRANSFER))
            sum += m->value;
    }
    return sum;
}

static crema_err_t
s_side(const sink_summary_t *self, const char *name, double cpu_s, double noncpu_s,
       double runtime_s, double failed_s, double bytes, bool in_budget)
{
    crema_split_row_t row = {
        .cpu_s = cpu_s,
        .noncpu_s = noncpu_s,
        .runtime_s = runtime_s,
        .failed_s = failed_s,
        .bytes_b = (int64_t)bytes,
        .in_budget = in_budget,
    };
    SINK_TEXT(row.side, name);
    return sink_tables_add(self->tables, CREMA_TABLE_SPLIT, &row);
}

crema_err_t
sink_summary_split(const sink_summary_t *self)
{
    const sink_budget_t *b = self->budget;
    crema_err_t err = CREMA_OK;
    for (int i = 0; i < CREMA_SIDE_COUNT && err == CREMA_OK; i++) {
        crema_side_t side = (crema_side_t)i;
        bool any = b->all.metered || self->facts->n_tasks > 0;
        double cpu_s = any ? b->all.side_cpu_s[i] : NAN;
        double noncpu_s = any ? b->all.side_noncpu_s[i] : NAN;
        if (side == CREMA_SIDE_PROCESSOR) {
            cpu_s = sink_budget_knows_cpu(b) ? b->all.cpu_s : NAN;
            noncpu_s = b->all.noncpu_s + b->all.user_s;
        } else if (side == CREMA_SIDE_TRANSFER) {
            noncpu_s = b->all.metered ? b->transfer_s : NAN;
        }
        err = s_side(self, crema_side_name(side), cpu_s, noncpu_s,
                     side != CREMA_SIDE_RUNTIME ? 0
                     : b->all.metered           ? b->all.runtime_s
                                                : NAN,
                     side == CREMA_SIDE_WASTED ? b->all.wasted_s : 0, s_bytes(self->facts, side),
                     side != CREMA_SIDE_TRANSFER);
    }
    if (err == CREMA_OK)
        err = s_side(self, "idle", 0, sink_budget_idle_s(b), 0, 0, 0, true);
    return err;
}

/* ---- critical path */

/* A successful task. */
typedef struct {
    int64_t key;
    size_t row;
    double s;
} done_t;

static int
s_by_key(const void *a, const void *b)
{
    const done_t *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

/* Successful tasks by key; the last attempt counts. Returns their number. */
static size_t
s_take_done(const sink_facts_t *facts, done_t *done)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        if (task->status == 0 && task->task_key != 0)
            done[n++] =
                (done_t){task->task_key, i, (double)(task->t_stop_ns - task->t_start_ns) * 1e-9};
    }
    sink_sort_by_int64(done, n, sizeof *done, s_by_key);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || done[i + 1].key != done[i].key)
            done[kept++] = done[i];
    return kept;
}

/* UINT32_MAX: not among them. */
static uint32_t
s_find(const done_t *done, size_t n, int64_t key)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (done[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && low < UINT32_MAX && done[low].key == key ? (uint32_t)low : UINT32_MAX;
}

static size_t
s_edges(const sink_rows_t *rows, const done_t *done, size_t n_done, sink_edge_t *edges)
{
    size_t n = 0;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_task_deps_row_t *row = sink_rows_at(rows, i);
        sink_edge_t edge = {s_find(done, n_done, row->task_key),
                            s_find(done, n_done, row->dep_key)};
        if (edge.task != UINT32_MAX && edge.needs != UINT32_MAX)
            edges[n++] = edge;
    }
    return n;
}

/* From the task graph, if it was recorded and has no cycle. */
static crema_err_t
s_exact_path(const sink_summary_t *self, double *ret_s, bool *ret_exact)
{
    const sink_facts_t *facts = self->facts;
    const sink_rows_t *rows = sink_tables_rows(self->tables, CREMA_TABLE_TASK_DEPS);
    size_t n_rows = sink_rows_count(rows);
    *ret_exact = false;
    if (n_rows == 0 || facts->n_tasks == 0)
        return CREMA_OK;
    crema_err_t err = CREMA_OK;
    done_t *done = sink_scratch(facts->dir, facts->n_tasks + 1, sizeof *done, &err);
    double *durations = sink_scratch(facts->dir, facts->n_tasks + 1, sizeof *durations, &err);
    sink_edge_t *edges = sink_scratch(facts->dir, n_rows + 1, sizeof *edges, &err);
    if (err == CREMA_OK) {
        size_t n_done = s_take_done(facts, done), n = s_edges(rows, done, n_done, edges);
        for (size_t i = 0; i < n_done; i++)
            durations[i] = done[i].s;
        err = sink_path_longest(facts->dir, durations, n_done, edges, n, ret_s);
        *ret_exact = err == CREMA_OK && n > 0;
        if (err == CREMA_EINVAL)
            err = CREMA_OK;
    }
    sink_scratch_free(done);
    sink_scratch_free(durations);
    sink_scratch_free(edges);
    return err;
}

/* Lower bound: the longest chunk followed by one merge per level. */
static double
s_path_bound(const sink_facts_t *facts, const sink_sums_t *sums)
{
    double merge = NAN;
    size_t levels = 0;
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        double s = (double)(task->t_stop_ns - task->t_start_ns) * 1e-9;
        if (task->side == CREMA_SIDE_MERGE && task->status == 0 && (isnan(merge) || s < merge))
            merge = s;
    }
    for (size_t n = (size_t)sums->totals.n; n > 1; n = (n + MERGE_WIDTH - 1) / MERGE_WIDTH)
        levels++;
    return isnan(merge) ? sums->longest_s : sums->longest_s + (double)levels * merge;
}

/* ---- efficiency */

static crema_err_t
s_pop(const sink_summary_t *self, sink_pop_t *ret_pop)
{
    const sink_facts_t *facts = self->facts;
    double *useful = calloc(facts->n_workers + 1, sizeof *useful);
    double *present = calloc(facts->n_workers + 1, sizeof *present);
    if (!useful || !present) {
        free(useful);
        free(present);
        return CREMA_ENOMEM;
    }
    for (size_t w = 0; w < facts->n_workers; w++) {
        useful[w] = self->sums->workers[w].counted.cpu_s.known;
        present[w] = facts->sweep.workers[w].thread_s;
    }
    *ret_pop = sink_summary_pop(useful, present, facts->n_workers, self->sums->totals.A,
                                self->sums->totals.cap);
    free(useful);
    free(present);
    return CREMA_OK;
}

crema_err_t
sink_summary_efficiency(const sink_summary_t *self)
{
    const sink_sweep_t *sweep = &self->facts->sweep;
    const sink_totals_t sum = self->sums->totals;
    sink_pop_t pop;
    double t_inf_s = s_path_bound(self->facts, self->sums);
    bool exact;
    crema_err_t err = s_pop(self, &pop);
    if (err == CREMA_OK)
        err = s_exact_path(self, &t_inf_s, &exact);
    if (err != CREMA_OK)
        return err;
    if (isnan(sum.C)) /* useful work is unknown */
        pop.pe = pop.lb = pop.sched_e = NAN;
    double steady_events = !isnan(sum.E) ? self->sums->steady_events : NAN;
    double steady_s = (double)(sweep->t_steady1_ns - sweep->t_steady0_ns) * 1e-9;
    bool tasks = sweep->t_last_start_ns != 0;
    crema_efficiency_row_t row = {
        .t0_ns = self->facts->t0_ns,
        .t1_ns = self->facts->t1_ns,
        .t_steady_start_ns = sweep->t_steady0_ns,
        .t_steady_end_ns = sweep->t_steady1_ns,
        .events = isnan(sum.E) ? -1 : (int64_t)sum.E,
        .wall_s = sum.W,
        .cap_s = sum.cap,
        .alloc_s = sum.A,
        .process_s = sum.P,
        .cpu_s = sum.C,
        .n_threads_avg = sum.N,
        .n_threads_peak = sweep->threads_peak,
        .n_threads_steady = sink_ratio(sweep->steady_thread_s, steady_s),
        .x_total_hz = sink_ratio(sum.E, sum.W),
        .x_steady_hz = sink_ratio(steady_events, steady_s),
        .pe = pop.pe,
        .lb = pop.lb,
        .sched_e = pop.sched_e,
        .alloc_e = pop.alloc_e,
        .tail_s = tasks ? (double)(sweep->t_tail1_ns - sweep->t_tail0_ns) * 1e-9 : NAN,
        .tail_loss = tasks ? sink_ratio(sweep->tail_free_s, sum.A) : NAN,
        .t_inf_s = t_inf_s,
        .t_inf_exact = exact,
    };
    return sink_tables_add(self->tables, CREMA_TABLE_EFFICIENCY, &row);
}
