/* The bottlenecks of a run with their evidence. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sink_bottleneck.h"
#include "sink_summary.h"

#define EVIDENCE_BYTES 192
#define EVIDENCE_NAME 96 /* of a file's name the end, which distinguishes it from others */

static double
s_percent(double part, double whole)
{
    return 100 * sink_ratio(part, whole);
}

/* The measurements and the diagnosis. */
typedef struct {
    const sink_summary_t *in;
    sink_totals_t sum;
    sink_bottleneck_t found;
    sink_diagnosis_t diagnosis;
    bool stepped; /* a clock was set: seconds between times before and after that may be anything */
} bottlenecks_t;

static void
s_evidence_gil(const sink_bottleneck_t *found, char text[EVIDENCE_BYTES])
{
    if (found->n_gil == 0)
        return;
    if (!isnan(found->gil_held))
        snprintf(text, EVIDENCE_BYTES,
                 "%zu workers run %.2g tasks at once; %.0f %% of %zu samples found the GIL held",
                 found->n_gil, found->tasks_at_once, 100 * found->gil_held, found->gil_looks);
    else
        snprintf(text, EVIDENCE_BYTES,
                 "%zu workers run %.2g tasks at once and want no more than %.1f cores each",
                 found->n_gil, found->tasks_at_once, SINK_GIL_CORES);
}

static void
s_evidence_slow(const bottlenecks_t *self, const sink_slow_t *slow, crema_dict_t dict,
                char text[EVIDENCE_BYTES])
{
    const char *name =
        slow->n > 0 ? sink_dict_text(sink_decoder_dict(self->in->run), dict, slow->worst) : "";
    size_t length = name ? strlen(name) : 0;
    const char *end = length > EVIDENCE_NAME ? name + length - EVIDENCE_NAME : name;
    while (end && ((unsigned char)*end & 0xC0) == 0x80) /* not inside a character */
        end++;
    if (slow->n > 0)
        snprintf(text, EVIDENCE_BYTES, "%zu; the worst takes %.2g times as long: %s%s", slow->n,
                 slow->ratio, end != name ? "..." : "", end ? end : "");
}

static void
s_evidence_opening(const bottlenecks_t *self, char text[EVIDENCE_BYTES])
{
    const sink_measured_t *m = &self->found.measured;
    snprintf(text, EVIDENCE_BYTES,
             "opening is %.0f %% of a chunk's %.3g s, and %.0f %% of its waiting",
             s_percent(self->sum.open, self->sum.open + self->sum.P),
             sink_ratio(self->sum.open + self->sum.P, (double)self->sum.n),
             100 * m->opening_share.value);
}

/* "" where the seconds need no explanation. */
static void
s_evidence(const bottlenecks_t *self, crema_bottleneck_t what, char text[EVIDENCE_BYTES])
{
    const sink_totals_t *sum = &self->sum;
    const sink_budget_t *budget = self->in->budget;
    const sink_sweep_t *sweep = &self->in->facts->sweep;
    const sink_measured_t *m = &self->found.measured;
    const sink_spent_t *all = &budget->all;
    bool any = sum->n > 0;
    text[0] = '\0';
    if (what == CREMA_BOTTLENECK_COMPUTE && all->cpu_s + sum->noncpu > 0)
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the processor's task time is thread CPU",
                 s_percent(all->cpu_s, all->cpu_s + sum->noncpu));
    else if (what == CREMA_BOTTLENECK_GARBAGE && sum->C > 0 && !isnan(sum->gc))
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the chunks' CPU", s_percent(sum->gc, sum->C));
    else if (what == CREMA_BOTTLENECK_INPUT && any && sum->P > 0 && !isnan(sum->B))
        snprintf(
            text, EVIDENCE_BYTES,
            "%.0f %% of the processor's task time is not CPU; %.3g MB/s read while in process()",
            s_percent(sum->noncpu, all->cpu_s + sum->noncpu), 1e-6 * sink_ratio(sum->B, sum->P));
    else if (what == CREMA_BOTTLENECK_GIL)
        s_evidence_gil(&self->found, text);
    else if (what == CREMA_BOTTLENECK_CORES)
        snprintf(text, EVIDENCE_BYTES, "%s",
                 m->cores_known ? "run-queue delay of the task threads, as the kernel counts it"
                                : "the kernel does not report it");
    else if (what == CREMA_BOTTLENECK_CHUNKS && any && !isnan(sum->open))
        snprintf(text, EVIDENCE_BYTES,
                 "opening is %.0f %% of a chunk's %.3g s; %.2f s for the executor and %.2f s free "
                 "while tasks were ready",
                 s_percent(sum->open, sum->open + sum->P),
                 sink_ratio(sum->open + sum->P, (double)sum->n),
                 all->runtime_s - all->spill_s - all->serialize_s,
                 sink_budget_class_s(budget, SINK_IDLE_LATENCY));
    else if (what == CREMA_BOTTLENECK_OPENING && !m->opening_known)
        snprintf(text, EVIDENCE_BYTES,
                 "when process() began is unknown: these seconds are in compute and input");
    else if (what == CREMA_BOTTLENECK_OPENING && any && !isnan(sum->open))
        s_evidence_opening(self, text);
    else if (what == CREMA_BOTTLENECK_SLOW_FILES)
        s_evidence_slow(self, &m->files, CREMA_DICT_FILE, text);
    else if (what == CREMA_BOTTLENECK_SLOW_WORKERS)
        s_evidence_slow(self, &m->workers, CREMA_DICT_WORKER, text);
    else if (what == CREMA_BOTTLENECK_TAIL && sweep->t_last_start_ns != 0)
        snprintf(text, EVIDENCE_BYTES, "the last %s started %.2f s before all had ended",
                 any ? "chunk" : "task", (double)(sweep->t_tail1_ns - sweep->t_tail0_ns) * 1e-9);
    else if (what == CREMA_BOTTLENECK_LATENCY && m->n_tasks > 0)
        snprintf(text, EVIDENCE_BYTES, "%.3g s free for each of %zu tasks",
                 sink_budget_class_s(budget, SINK_IDLE_LATENCY) / (double)m->n_tasks, m->n_tasks);
    else if (what == CREMA_BOTTLENECK_WASTED && m->missing_s > 0)
        snprintf(text, EVIDENCE_BYTES,
                 "%.2f s of work wasted; threads of killed workers missing for %.2f s",
                 all->wasted_s, fmin(m->missing_s, budget->absent_s));
}

static void
s_add_doubt(const sink_cause_t *cause, char text[EVIDENCE_BYTES])
{
    size_t length = strlen(text);
    if (cause->also >= 0)
        snprintf(text + length, EVIDENCE_BYTES - length, "%s%s explains it as well",
                 length ? "; " : "", crema_bottleneck_words[cause->also].name);
}

/* Of a known cause. Values derived by a rule instead of a meter are estimates. */
static crema_status_t
s_status(const bottlenecks_t *self, const sink_cause_t *cause)
{
    if (self->in->partial)
        return CREMA_STATUS_INCOMPLETE;
    if (cause->also >= 0)
        return CREMA_STATUS_AMBIGUOUS;
    return cause->estimated || self->in->budget->cpu_unknown ? CREMA_STATUS_ESTIMATED
                                                             : CREMA_STATUS_OK;
}

static crema_err_t
s_put(const bottlenecks_t *self, int rank)
{
    crema_bottleneck_t what = self->diagnosis.order[rank];
    const sink_cause_t *cause = &self->diagnosis.causes[what];
    const bool known = cause->known && !self->stepped;
    char evidence[EVIDENCE_BYTES] = "";
    if (!self->stepped) {
        s_evidence(self, what, evidence);
        s_add_doubt(cause, evidence);
    }
    crema_bottlenecks_row_t row = {
        .rank = rank,
        .thread_seconds = known ? cause->s : NAN,
        .fraction = known ? sink_ratio(cause->s, self->in->budget->cap_s) : NAN,
        .status = known ? s_status(self, cause) : CREMA_STATUS_UNAVAILABLE,
        .saving_s = known ? cause->saving_s : NAN,
        .lo = known ? cause->lo : NAN,
        .hi = known ? cause->hi : NAN,
    };
    SINK_TEXT(row.name, crema_bottleneck_words[what].name);
    SINK_TEXT(row.evidence, evidence);
    SINK_TEXT(row.advice, crema_bottleneck_words[what].advice);
    return sink_tables_add(self->in->tables, CREMA_TABLE_BOTTLENECKS, &row);
}

crema_err_t
sink_summary_bottlenecks(const sink_summary_t *self)
{
    bottlenecks_t all = {.in = self,
                         .stepped = sink_meta_clock_stepped(sink_decoder_meta(self->run))};
    sink_summary_totals(self, &all.sum);
    crema_err_t err = sink_bottleneck_measure(self->facts, self->model, &all.found);
    if (err != CREMA_OK)
        return err;
    all.diagnosis = sink_diagnosis_make(&all.found.measured, self->budget);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT && err == CREMA_OK; i++)
        err = s_put(&all, i);
    return err;
}
