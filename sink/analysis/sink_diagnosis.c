#include "sink_diagnosis.h"

#include <math.h>

static double
s_positive(double s)
{
    return s > 0 ? s : 0;
}

/* Takes at most `s` seconds from a cause. */
static double
s_take(double *from_s, double s)
{
    double taken = sink_least(s_positive(s), s_positive(*from_s));
    *from_s -= taken;
    return taken;
}

/* What is waited for, by cause. */
static const crema_bottleneck_t c_causes[CREMA_LOOK_COUNT] = {
    [CREMA_LOOK_UNKNOWN] = CREMA_BOTTLENECK_WAITING,
    [CREMA_LOOK_CPU] = CREMA_BOTTLENECK_COMPUTE,
    [CREMA_LOOK_CORE] = CREMA_BOTTLENECK_CORES,
    [CREMA_LOOK_GIL] = CREMA_BOTTLENECK_GIL,
    [CREMA_LOOK_INPUT] = CREMA_BOTTLENECK_INPUT,
    [CREMA_LOOK_SERVICE] = CREMA_BOTTLENECK_SERVICE,
    [CREMA_LOOK_FILE] = CREMA_BOTTLENECK_FILE,
    [CREMA_LOOK_LOCK] = CREMA_BOTTLENECK_LOCK,
    [CREMA_LOOK_SLEEP] = CREMA_BOTTLENECK_SLEEP,
    [CREMA_LOOK_NATIVE] = CREMA_BOTTLENECK_NATIVE,
    [CREMA_LOOK_CHILD] = CREMA_BOTTLENECK_CHILDREN,
    [CREMA_LOOK_PAGE_FAULT] = CREMA_BOTTLENECK_PAGE_FAULT,
};

/* Non-CPU time of the processor's tasks, by cause; the others are 0. */
typedef struct {
    sink_range_t of[CREMA_BOTTLENECK_COUNT];
    double open_gil_s;
} waits_t;

static sink_range_t
s_times(sink_range_t range, double factor)
{
    return (sink_range_t){range.value * factor, range.lo * factor, range.hi * factor};
}

/* Dask meters whole tasks: what of their waiting was not in a chunk was not seen. */
static waits_t
s_waits(const sink_measured_t *m, double noncpu_s)
{
    waits_t w = {0};
    double part = m->chunk_noncpu_s > 0 ? sink_least(1, noncpu_s / m->chunk_noncpu_s) : 0;
    for (int i = 0; i < CREMA_LOOK_COUNT; i++)
        if (i != CREMA_LOOK_CPU)
            w.of[c_causes[i]] = s_times(m->waits[i], part);
    double opening_s = m->opening_s * part, rest_s = noncpu_s - m->chunk_noncpu_s * part;
    w.of[CREMA_BOTTLENECK_OPENING] = (sink_range_t){opening_s, opening_s, opening_s};
    w.open_gil_s = sink_least(m->open_gil_s * part, w.of[CREMA_BOTTLENECK_GIL].value);
    sink_range_t *waiting = &w.of[CREMA_BOTTLENECK_WAITING];
    *waiting = (sink_range_t){waiting->value + rest_s, waiting->lo + rest_s, waiting->hi + rest_s};
    return w;
}

/* Excess time of slow ones and the idle time of threads that waited for them. */
static double
s_take_slow(double *s, const sink_slow_t *slow)
{
    double sum = s_take(&s[CREMA_BOTTLENECK_COMPUTE], slow->cpu_s);
    static const crema_bottleneck_t waits[] = {
        CREMA_BOTTLENECK_INPUT,  CREMA_BOTTLENECK_OPENING,  CREMA_BOTTLENECK_SERVICE,
        CREMA_BOTTLENECK_FILE,   CREMA_BOTTLENECK_SLEEP,    CREMA_BOTTLENECK_LOCK,
        CREMA_BOTTLENECK_NATIVE, CREMA_BOTTLENECK_CHILDREN, CREMA_BOTTLENECK_PAGE_FAULT,
        CREMA_BOTTLENECK_CORES,  CREMA_BOTTLENECK_WAITING,
    };
    double noncpu_s = 0;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        noncpu_s += s_take(&s[waits[i]], slow->noncpu_s - noncpu_s);
    sum += s_take(&s[CREMA_BOTTLENECK_PREPROCESS], slow->preprocess_s);
    sum += noncpu_s + s_take(&s[CREMA_BOTTLENECK_TAIL], slow->tail_s);
    return sum + s_take(&s[CREMA_BOTTLENECK_IMBALANCE],
                        slow->queue_share * s[CREMA_BOTTLENECK_IMBALANCE]);
}

/* Of the time threads waited for tasks: what scheduling this many may cost. */
static double
s_price_s(const sink_measured_t *m, const sink_budget_t *b)
{
    return sink_least(sink_budget_class_s(b, SINK_IDLE_LATENCY),
                      SINK_TASK_PRICE_S * (double)m->n_tasks);
}

/* Threads that were not there, or were there before their first task. In Dask's case they are of
 * workers that came late or left early. Outside Dask an executor makes its processes when it has
 * work for them: their start is its cost, and between its pools there are no threads. */
static void
s_divide_absence(const sink_measured_t *m, const sink_budget_t *b, double *s)
{
    double missing_s = sink_least(m->missing_s, b->absent_s), absent_s = b->absent_s - missing_s;
    double join_s = sink_budget_class_s(b, SINK_IDLE_JOIN);
    s[CREMA_BOTTLENECK_WASTED] += missing_s;
    if (!b->outside_dask) {
        s[CREMA_BOTTLENECK_SCALING] = join_s + absent_s;
        return;
    }
    double before_s = s_take(&absent_s, b->absent_before_s);
    double after_s = s_take(&absent_s, b->absent_after_s);
    s[CREMA_BOTTLENECK_STARTUP] += join_s + before_s;
    s[CREMA_BOTTLENECK_DRAINED] += after_s;
    s[CREMA_BOTTLENECK_STARVED] += absent_s;
}

/* Without chunks, as where Dask's own tasks are the analysis, looks say what those did. */
static void
s_divide_others(const sink_measured_t *m, double *s)
{
    double whole_s = 0, others_s = s[CREMA_BOTTLENECK_OVERHEAD];
    for (int i = 0; i < CREMA_LOOK_COUNT; i++)
        whole_s += m->others_s[i];
    if (m->n_chunks > 0 || !(whole_s > 0))
        return;
    for (int i = 0; i < CREMA_LOOK_COUNT; i++)
        if (i != CREMA_LOOK_UNKNOWN) {
            double part_s = others_s * m->others_s[i] / whole_s;
            s[c_causes[i]] += part_s;
            s[CREMA_BOTTLENECK_OVERHEAD] -= part_s;
        }
}

static void
s_divide(const sink_measured_t *m, const sink_budget_t *b, const waits_t *w, double *s)
{
    const sink_spent_t *all = &b->all;
    double chunk_cpu_s = m->chunk_s - m->chunk_noncpu_s;
    double open_cpu = chunk_cpu_s > 0 ? sink_least(1, m->open_cpu_s / chunk_cpu_s) : 0;
    double price_s = s_price_s(m, b);
    double gc_s = sink_least(m->gc_s, all->cpu_s * (1 - open_cpu));
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++)
        s[i] = w->of[i].value;
    s[CREMA_BOTTLENECK_COMPUTE] = all->cpu_s * (1 - open_cpu) - gc_s;
    s[CREMA_BOTTLENECK_GARBAGE] = gc_s;
    s[CREMA_BOTTLENECK_GIL] -= w->open_gil_s;
    s[CREMA_BOTTLENECK_USER] = all->user_s;
    s[CREMA_BOTTLENECK_CHUNKS] = all->cpu_s * open_cpu + w->open_gil_s +
                                 (all->runtime_s - all->spill_s - all->serialize_s) + price_s;
    s[CREMA_BOTTLENECK_LATENCY] = sink_budget_class_s(b, SINK_IDLE_LATENCY) - price_s;
    s[CREMA_BOTTLENECK_SPILL] = all->spill_s + sink_budget_class_s(b, SINK_IDLE_PAUSED);
    s[CREMA_BOTTLENECK_SERIALIZE] = all->serialize_s;
    s[CREMA_BOTTLENECK_PREPROCESS] = sink_spent_side_s(all, CREMA_SIDE_PREPROCESS) +
                                     sink_budget_class_s(b, SINK_IDLE_PREPROCESS);
    s[CREMA_BOTTLENECK_MERGE] =
        sink_spent_side_s(all, CREMA_SIDE_MERGE) + sink_budget_class_s(b, SINK_IDLE_MERGE);
    s[CREMA_BOTTLENECK_OVERHEAD] = sink_spent_side_s(all, CREMA_SIDE_OVERHEAD) +
                                   sink_spent_side_s(all, CREMA_SIDE_UNATTRIBUTED);
    s[CREMA_BOTTLENECK_WASTED] = all->wasted_s;
    s[CREMA_BOTTLENECK_STARTUP] = sink_budget_class_s(b, SINK_IDLE_STARTUP);
    s[CREMA_BOTTLENECK_DRAINED] = sink_budget_class_s(b, SINK_IDLE_DRAINED);
    s[CREMA_BOTTLENECK_TAIL] = sink_budget_class_s(b, SINK_IDLE_TAIL);
    s[CREMA_BOTTLENECK_STARVED] = sink_budget_class_s(b, SINK_IDLE_STARVED);
    s[CREMA_BOTTLENECK_IMBALANCE] = sink_budget_class_s(b, SINK_IDLE_IMBALANCE);
    s_divide_absence(m, b, s);
    s_divide_others(m, s);
    s[CREMA_BOTTLENECK_SLOW_WORKERS] = s_take_slow(s, &m->workers);
    s[CREMA_BOTTLENECK_SLOW_SERVERS] = s_take_slow(s, &m->servers);
    s[CREMA_BOTTLENECK_SLOW_FILES] = s_take_slow(s, &m->files);
}

/* Seconds that a rule may have assigned to another cause. */
static sink_range_t
s_seconds(const sink_diagnosis_t *self, const sink_measured_t *m, const sink_budget_t *b,
          crema_bottleneck_t what)
{
    double price_s = s_price_s(m, b), s = self->causes[what].s;
    switch (what) {
    case CREMA_BOTTLENECK_CHUNKS: /* larger chunks mean fewer to wait for and to open */
        return (sink_range_t){s, s_positive(s - price_s),
                              s + self->causes[CREMA_BOTTLENECK_LATENCY].s +
                                  self->causes[CREMA_BOTTLENECK_OPENING].s};
    case CREMA_BOTTLENECK_LATENCY:
        /* threads may have been idle because the scheduler was late */
        return (sink_range_t){s, s_positive(s - price_s),
                              s + price_s + self->causes[CREMA_BOTTLENECK_STARVED].s};
    case CREMA_BOTTLENECK_SLOW_WORKERS: /* their queues may be why others were idle */
        return (sink_range_t){s, s, s + self->causes[CREMA_BOTTLENECK_IMBALANCE].s};
    default:
        return (sink_range_t){s, s, s};
    }
}

/* A run ends with whole chunks: without the cause its last one may end half a chunk earlier or
 * later, or the tail may vanish. No bounds if no chunk has a duration. */
static void
s_bound(const sink_diagnosis_t *self, const sink_measured_t *m, const sink_budget_t *b, double each,
        crema_bottleneck_t what, sink_cause_t *cause)
{
    sink_range_t s = {0};
    if (cause->s > 0)
        s = s_seconds(self, m, b, what);
    double tail_s =
        what == CREMA_BOTTLENECK_TAIL ? 0 : self->causes[CREMA_BOTTLENECK_TAIL].s * each;
    double half_s = m->n_chunks > 0 ? m->chunk_s / (double)m->n_chunks / 2 : NAN;
    double sooner_s = sink_least(fmax(half_s, tail_s), s.hi * each);
    cause->lo = cause->hi = NAN;
    if (isnan(half_s) || isnan(cause->saving_s))
        return;
    cause->lo = sink_least(s_positive(s.lo * each - half_s), cause->saving_s);
    cause->hi = fmax(sink_least(s.hi * each + sooner_s, b->wall_s), cause->saving_s);
}

/* A second saved on every thread shortens the run by a second if the rest is spread evenly;
 * shorter tasks also shorten the tail. Saved waiting counts less where threads share the GIL,
 * since they would wait for that instead. */
static void
s_save(sink_diagnosis_t *self, const sink_measured_t *m, const sink_budget_t *b, const waits_t *w)
{
    static const crema_bottleneck_t in_tasks[] = {
        CREMA_BOTTLENECK_COMPUTE,
        CREMA_BOTTLENECK_GARBAGE,
        CREMA_BOTTLENECK_USER,
    };
    const sink_spent_t *all = &b->all;
    double threads = b->wall_s > 0 ? b->cap_s / b->wall_s : 0;
    double each = threads > 0 ? 1 / threads : NAN,
           tasks_s = all->cpu_s + all->noncpu_s + all->user_s;
    double tail = tasks_s > 0 ? self->causes[CREMA_BOTTLENECK_TAIL].s / tasks_s : 0;
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++)
        self->causes[i].saving_s = self->causes[i].s * each;
    for (size_t i = 0; i < sizeof in_tasks / sizeof *in_tasks; i++)
        self->causes[in_tasks[i]].saving_s *= 1 + tail;
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++)
        s_bound(self, m, b, each, (crema_bottleneck_t)i, &self->causes[i]);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        sink_cause_t *cause = &self->causes[i];
        const sink_range_t *range = &w->of[i];
        if (!(range->value > 0) && !(range->hi > 0))
            continue;
        /* What a slow server or the chunks' opening took of it is saved with that. */
        double part = range->value > 0 ? sink_least(1, cause->s / range->value) : 1;
        bool waits = i != CREMA_BOTTLENECK_GIL && i != CREMA_BOTTLENECK_CORES;
        double pays = (waits ? m->wait_pays : 1) * part * each;
        cause->saving_s = range->value * pays * (1 + tail);
        /* The tail may stay as it is, or vanish. */
        double tail_s = self->causes[CREMA_BOTTLENECK_TAIL].s * each;
        cause->lo = sink_least(s_positive(range->lo) * pays, cause->saving_s);
        cause->hi = fmax(range->hi * pays + (range->hi > 0 ? tail_s : 0), cause->saving_s);
        cause->estimated = true;
    }
}

/* NaN stays. */
static double
s_measurable(double s)
{
    return fabs(s) < SINK_MEASURABLE_S ? 0 : s;
}

static void
s_drop_rounding(sink_diagnosis_t *self)
{
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        sink_cause_t *cause = &self->causes[i];
        cause->s = s_measurable(cause->s);
        cause->saving_s = s_measurable(cause->saving_s);
        cause->lo = s_measurable(cause->lo);
        cause->hi = s_measurable(cause->hi);
    }
}

/* Marks the two that are waited for most if the looks do not show for which one more. */
static void
s_doubt(sink_diagnosis_t *self, const sink_budget_t *b, const waits_t *w)
{
    int first = 0, second = 0;
    for (int i = 1; i < CREMA_BOTTLENECK_COUNT; i++)
        if (w->of[i].value > w->of[first].value) {
            second = first;
            first = i;
        } else if (second == first || w->of[i].value > w->of[second].value) {
            second = i;
        }
    const sink_range_t *x = &w->of[first], *y = &w->of[second];
    bool matters = self->causes[first].s >= SINK_LOSS_MATTERS * b->cap_s;
    if (!matters || !(y->value > 0) || x->lo >= y->hi)
        return;
    self->causes[first].also = second;
    self->causes[second].also = first;
}

/* Compute ranks where a loss of exactly SINK_LOSS_MATTERS would, and memory that is soon full
 * before all others: then the run ends. */
static double
s_weight(const sink_diagnosis_t *self, const sink_measured_t *m, const sink_budget_t *b,
         crema_bottleneck_t i)
{
    const sink_spent_t *all = &b->all;
    double s = self->causes[i].s, tasks_s = all->cpu_s + all->noncpu_s + all->user_s;
    if (i == CREMA_BOTTLENECK_MEMORY_GROWTH)
        return m->growth.soon ? INFINITY : -1;
    return i == CREMA_BOTTLENECK_COMPUTE ? sink_least(s, SINK_LOSS_MATTERS * tasks_s) : s;
}

static void
s_rank(sink_diagnosis_t *self, const sink_measured_t *m, const sink_budget_t *b)
{
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        int at = i;
        for (; at > 0 && s_weight(self, m, b, (crema_bottleneck_t)i) >
                             s_weight(self, m, b, self->order[at - 1]);
             at--)
            self->order[at] = self->order[at - 1];
        self->order[at] = (crema_bottleneck_t)i;
    }
}

sink_diagnosis_t
sink_diagnosis_make(const sink_measured_t *measured, const sink_budget_t *budget)
{
    static const crema_bottleneck_t by_rule[] = {
        CREMA_BOTTLENECK_COMPUTE,       CREMA_BOTTLENECK_CHUNKS,
        CREMA_BOTTLENECK_LATENCY,       CREMA_BOTTLENECK_SLOW_FILES,
        CREMA_BOTTLENECK_SLOW_WORKERS,  CREMA_BOTTLENECK_SLOW_SERVERS,
        CREMA_BOTTLENECK_MEMORY_GROWTH,
    };
    sink_diagnosis_t self = {0};
    double s[CREMA_BOTTLENECK_COUNT] = {0};
    waits_t waits = s_waits(measured, s_positive(budget->all.noncpu_s));
    s_divide(measured, budget, &waits, s);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++)
        self.causes[i] = (sink_cause_t){.s = s[i], .known = true, .also = -1};
    for (size_t i = 0; i < sizeof by_rule / sizeof *by_rule; i++)
        self.causes[by_rule[i]].estimated = true;
    self.causes[CREMA_BOTTLENECK_CORES].known =
        measured->cores_known || s[CREMA_BOTTLENECK_CORES] > 0;
    self.causes[CREMA_BOTTLENECK_OPENING].known = measured->opening_known;
    s_save(&self, measured, budget, &waits);
    s_drop_rounding(&self);
    s_doubt(&self, budget, &waits);
    s_rank(&self, measured, budget);
    return self;
}
