/* What holds the run back, with the figures behind it. */
#include <math.h>
#include <stdio.h>

#include "sink_bottleneck.h"
#include "sink_cell.h"
#include "sink_summary.h"

#define EVIDENCE_BYTES 192

static double
s_percent(double part, double whole)
{
    return 100 * sink_ratio(part, whole);
}

/* "" where the seconds say it all. */
static void
s_evidence(const sink_summary_t *self, const sink_bottleneck_t *found, crema_bottleneck_t what,
           char text[EVIDENCE_BYTES])
{
    sink_totals_t sum;
    const sink_sweep_t *sweep = &self->facts->sweep;
    const sink_spent_t *all = &self->budget->all;
    text[0] = '\0';
    sink_summary_totals(self, &sum);
    switch (what) {
    case CREMA_BOTTLENECK_COMPUTE:
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the processor's task time is thread CPU",
                 s_percent(all->cpu_s, all->cpu_s + sum.noncpu));
        break;
    case CREMA_BOTTLENECK_GARBAGE:
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the chunks' CPU", s_percent(sum.gc, sum.C));
        break;
    case CREMA_BOTTLENECK_INPUT:
        snprintf(
            text, EVIDENCE_BYTES,
            "%.0f %% of the processor's task time is not CPU; %.3g MB/s read while in process()",
            s_percent(sum.noncpu, all->cpu_s + sum.noncpu), 1e-6 * sink_ratio(sum.B, sum.P));
        break;
    case CREMA_BOTTLENECK_GIL:
        if (!isnan(found->gil_held))
            snprintf(text, EVIDENCE_BYTES,
                     "%zu workers run %.2g tasks at once; %.0f %% of the looks found the GIL held",
                     found->n_gil, found->tasks_at_once, 100 * found->gil_held);
        else if (found->n_gil > 0)
            snprintf(text, EVIDENCE_BYTES,
                     "%zu workers run %.2g tasks at once and want no more than %.1f cores each",
                     found->n_gil, found->tasks_at_once, SINK_GIL_CORES);
        break;
    case CREMA_BOTTLENECK_CORES:
        snprintf(text, EVIDENCE_BYTES, "%s",
                 found->cores_known ? "run-queue delay of the workers, as the kernel counts it"
                                    : "the kernel does not say");
        break;
    case CREMA_BOTTLENECK_CHUNKS:
        snprintf(text, EVIDENCE_BYTES,
                 "opening is %.0f %% of a chunk's %.3g s; %.3g s for the executor and %.3g s free "
                 "while tasks were ready",
                 100 * found->open_share, sink_ratio(sum.open + sum.P, (double)sum.n),
                 all->runtime_s, self->budget->idle_s[SINK_IDLE_LATENCY]);
        break;
    case CREMA_BOTTLENECK_TAIL:
        snprintf(text, EVIDENCE_BYTES,
                 "the last chunk to begin did so %.3g s before the end of all",
                 (double)(sweep->t_tail1_ns - sweep->t_tail0_ns) * 1e-9);
        break;
    default:
        break;
    }
}

/* What follows from a rule and not from a meter is an estimate. */
static sink_status_t
s_status(const sink_summary_t *self, const sink_bottleneck_t *found, crema_bottleneck_t what)
{
    static const bool divided[CREMA_BOTTLENECK_COUNT] = {
        [CREMA_BOTTLENECK_COMPUTE] = true, [CREMA_BOTTLENECK_INPUT] = true,
        [CREMA_BOTTLENECK_GIL] = true,     [CREMA_BOTTLENECK_CORES] = true,
        [CREMA_BOTTLENECK_CHUNKS] = true,
    };
    if (what == CREMA_BOTTLENECK_CORES && !found->cores_known)
        return SINK_STATUS_UNAVAILABLE;
    if (self->partial)
        return SINK_STATUS_INCOMPLETE;
    return divided[what] || self->budget->cpu_unknown ? SINK_STATUS_ESTIMATED : SINK_STATUS_OK;
}

static crema_err_t
s_put(const sink_summary_t *self, const sink_bottleneck_t *found, int rank)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_BOTTLENECKS);
    crema_bottleneck_t what = found->order[rank];
    sink_status_t status = s_status(self, found, what);
    double s = status == SINK_STATUS_UNAVAILABLE ? NAN : found->seconds[what];
    char evidence[EVIDENCE_BYTES];
    uint8_t row[SINK_ROW_BYTES_MAX];
    s_evidence(self, found, what, evidence);
    crema_row_clear(t, row);
    sink_cell_set(t, row, "rank", rank);
    sink_cell_set_text(t, row, "name", crema_bottleneck_words[what].name);
    sink_cell_set_real(t, row, "thread_seconds", s);
    sink_cell_set_real(t, row, "fraction", sink_ratio(s, self->budget->cap_s));
    sink_cell_set(t, row, "status", status);
    sink_cell_set_text(t, row, "evidence", evidence);
    sink_cell_set_text(t, row, "advice", crema_bottleneck_words[what].advice);
    return sink_tables_add(self->tables, t->id, row);
}

crema_err_t
sink_summary_bottlenecks(const sink_summary_t *self)
{
    sink_bottleneck_t found;
    crema_err_t err = sink_bottleneck_find(self->facts, self->budget, &found);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT && err == CREMA_OK; i++)
        err = s_put(self, &found, i);
    return err;
}
