/* The bottlenecks of a run with their evidence. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_bottleneck.h"
#include "sink_spot.h"
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
    sink_measured_t found;
    sink_diagnosis_t diagnosis;
    bool stepped; /* a clock was set: seconds between times before and after that may be anything */
} bottlenecks_t;

/* Which looks explain a cause; no states: none do. */
static const sink_spot_filter_t c_seen[CREMA_BOTTLENECK_COUNT] = {
#define IN_PROCESS .phases = 1u << CREMA_LOOK_PHASE_PROCESS | 1u << CREMA_LOOK_PHASE_OTHER
#define STATE(name) .states = 1u << CREMA_LOOK_##name
    [CREMA_BOTTLENECK_COMPUTE] = {STATE(CPU), IN_PROCESS},
    [CREMA_BOTTLENECK_INPUT] = {STATE(INPUT), IN_PROCESS},
    [CREMA_BOTTLENECK_GIL] = {STATE(GIL), IN_PROCESS},
    [CREMA_BOTTLENECK_CORES] = {STATE(CORE), IN_PROCESS},
    [CREMA_BOTTLENECK_SERVICE] = {STATE(SERVICE), IN_PROCESS},
    [CREMA_BOTTLENECK_FILE] = {STATE(FILE), IN_PROCESS},
    [CREMA_BOTTLENECK_LOCK] = {STATE(LOCK), IN_PROCESS},
    [CREMA_BOTTLENECK_SLEEP] = {STATE(SLEEP), IN_PROCESS},
    [CREMA_BOTTLENECK_NATIVE] = {STATE(NATIVE), IN_PROCESS},
    [CREMA_BOTTLENECK_CHILDREN] = {STATE(CHILD), IN_PROCESS},
    [CREMA_BOTTLENECK_PAGE_FAULT] = {STATE(PAGE_FAULT), IN_PROCESS},
    [CREMA_BOTTLENECK_WAITING] = {STATE(UNKNOWN), IN_PROCESS},
    [CREMA_BOTTLENECK_GARBAGE] = {STATE(CPU), IN_PROCESS, .gc = true},
    [CREMA_BOTTLENECK_OPENING] = {.states = ~(1u << CREMA_LOOK_CPU | 1u << CREMA_LOOK_CORE |
                                              1u << CREMA_LOOK_GIL),
                                  .phases = 1u << CREMA_LOOK_PHASE_OPENING},
#undef IN_PROCESS
#undef STATE
};

#define PART_MATTERS 0.3  /* of the seconds, that a line, section, place or dataset has */
#define DATASET_MATTERS 2 /* times its part of the events */

/* For "%s". */
typedef struct {
    char text[32];
} figure_t;

/* To so many digits, and never with an exponent. */
static figure_t
s_figure(double value, int digits)
{
    figure_t figure;
    snprintf(figure.text, sizeof figure.text, "%.*e", digits - 1, value);
    const double rounded = strtod(figure.text, NULL);
    if (fabs(rounded) >= pow(10, digits))
        snprintf(figure.text, sizeof figure.text, "%.0f", rounded);
    else
        snprintf(figure.text, sizeof figure.text, "%.*g", digits, value);
    return figure;
}

/* Appends, with "; " before what is not the first; cut at the end. */
__attribute__((format(printf, 2, 3))) static void
s_say(char text[EVIDENCE_BYTES], const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    if (length > 0)
        length += (size_t)snprintf(text + length, EVIDENCE_BYTES - length, "; ");
    if (length >= EVIDENCE_BYTES)
        return;
    va_start(arguments, format);
    vsnprintf(text + length, EVIDENCE_BYTES - length, format, arguments);
    va_end(arguments);
}

static const char *
s_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Part of the events of a run that a dataset has; NaN if the run has none. */
static double
s_of_events(const sink_model_t *model, uint32_t dataset)
{
    double its = 0, all = 0;
    for (size_t i = 0; i < model->n_datasets; i++) {
        all += model->datasets[i].events;
        if (model->datasets[i].dataset == dataset)
            its = model->datasets[i].events;
    }
    return all > 0 ? its / all : NAN;
}

/* Line, section, place and dataset of what is behind a cause. */
static crema_err_t
s_evidence_spot(const bottlenecks_t *self, crema_bottleneck_t what, char text[EVIDENCE_BYTES])
{
    const sink_tables_t *tables = self->in->tables;
    sink_dict_t *dict = sink_decoder_dict(self->in->run);
    sink_spot_filter_t filter = c_seen[what];
    sink_spot_t spot;
    if (filter.states == 0)
        return CREMA_OK;
    if (filter.gc) /* short collections have no line */
        filter.at_least = self->diagnosis.causes[what].s;
    crema_err_t err = sink_spot_find(self->in->facts, tables, &filter, &spot);
    if (err != CREMA_OK)
        return err;
    if (spot.of_frame >= PART_MATTERS) {
        const crema_dict_frame_row_t *frame =
            sink_rows_at(sink_tables_rows(tables, CREMA_TABLE_DICT_FRAME), spot.frame);
        char name[sizeof frame->name + 1] = "";
        memcpy(name, frame->name, sizeof frame->name);
        s_say(text, "%.80s:%d has %.0f %% of it", s_base(name), frame->line, 100 * spot.of_frame);
    }
    if (spot.of_section >= PART_MATTERS)
        s_say(text, "section %.40s", sink_dict_text(dict, CREMA_DICT_SECTION, spot.section));
    if (spot.of_place >= PART_MATTERS)
        s_say(text, "%s %.60s", what == CREMA_BOTTLENECK_CHILDREN ? "child" : "at",
              sink_dict_text(dict, CREMA_DICT_PLACE, spot.place));
    const double of_events = s_of_events(self->in->model, spot.dataset);
    if (spot.of_dataset >= PART_MATTERS && spot.of_dataset >= DATASET_MATTERS * of_events)
        s_say(text, "dataset %.60s has %.0f %% of it and %.0f %% of the events",
              sink_dict_text(dict, CREMA_DICT_DATASET, spot.dataset), 100 * spot.of_dataset,
              100 * of_events);
    return CREMA_OK;
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
        snprintf(text, EVIDENCE_BYTES, "%zu; the worst takes %s times as long: %s%s", slow->n,
                 s_figure(slow->ratio, 2).text, end != name ? "..." : "", end ? end : "");
}

/* Many small requests: latency; few large ones: bandwidth. */
static void
s_evidence_requests(const bottlenecks_t *self, char text[EVIDENCE_BYTES])
{
    const sink_sum_t *requests = &self->in->sums->requests;
    const double bytes = self->in->sums->requested_b.known;
    if (requests->n > 0)
        s_say(text, "%s requests of %s kB per chunk",
              s_figure(requests->known / (double)requests->n, 3).text,
              s_figure(1e-3 * bytes / requests->known, 3).text);
}

static void
s_evidence_opening(const bottlenecks_t *self, char text[EVIDENCE_BYTES])
{
    s_say(text, "opening is %.0f %% of a chunk's %s s",
          s_percent(self->sum.open, self->sum.open + self->sum.P),
          s_figure(sink_ratio(self->sum.open + self->sum.P, (double)self->sum.n), 3).text);
    s_evidence_requests(self, text);
}

/* Slope and interval; the worker with the least room, and how many more of its chunks fit. */
static void
s_evidence_growth(const bottlenecks_t *self, char text[EVIDENCE_BYTES])
{
    const sink_growth_t *growth = &self->found.growth;
    if (!growth->matters)
        return;
    s_say(text, "%s MB per chunk (%s to %s)", s_figure(1e-6 * growth->per_chunk_b, 3).text,
          s_figure(1e-6 * growth->low_b, 3).text, s_figure(1e-6 * growth->high_b, 3).text);
    if (isnan(growth->limit_b))
        s_say(text, "%s MB now, no limit known", s_figure(1e-6 * growth->now_b, 3).text);
    else
        s_say(text, "%s of %s MB now, full after about %s more chunks",
              s_figure(1e-6 * growth->now_b, 4).text, s_figure(1e-6 * growth->limit_b, 4).text,
              s_figure(growth->chunks_left, 2).text);
    s_say(text, "worker %.60s",
          sink_dict_text(sink_decoder_dict(self->in->run), CREMA_DICT_WORKER, growth->worker));
}

/* Threads had no core because control groups had used up their CPU quota. */
static bool
s_is_of_a_quota(const bottlenecks_t *self, crema_bottleneck_t what)
{
    return what == CREMA_BOTTLENECK_CORES && !isnan(self->in->facts->cpu_throttled);
}

/* "" where the seconds need no explanation. */
static void
s_evidence(const bottlenecks_t *self, crema_bottleneck_t what, char text[EVIDENCE_BYTES])
{
    const sink_totals_t *sum = &self->sum;
    const sink_budget_t *budget = self->in->budget;
    const sink_sweep_t *sweep = &self->in->facts->sweep;
    const sink_measured_t *m = &self->found;
    const sink_spent_t *all = &budget->all;
    bool any = sum->n > 0;
    text[0] = '\0';
    if (what == CREMA_BOTTLENECK_COMPUTE && all->cpu_s + sum->noncpu > 0)
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the processor's task time is thread CPU",
                 s_percent(all->cpu_s, all->cpu_s + sum->noncpu));
    else if (what == CREMA_BOTTLENECK_GARBAGE && sum->C > 0 && !isnan(sum->gc))
        snprintf(text, EVIDENCE_BYTES, "%.0f %% of the chunks' CPU", s_percent(sum->gc, sum->C));
    else if (what == CREMA_BOTTLENECK_INPUT && any)
        s_evidence_requests(self, text);
    else if (what == CREMA_BOTTLENECK_WAITING && !m->seen)
        s_say(text, "no thread of a %s was looked at",
              self->in->facts->n_chunks > 0 ? "chunk" : "task");
    else if (s_is_of_a_quota(self, what))
        s_say(text, "a CPU quota of %s cores was used up in %.0f %% of its periods",
              s_figure(self->in->facts->cpu_quota, 3).text, 100 * self->in->facts->cpu_throttled);
    else if (what == CREMA_BOTTLENECK_CORES)
        snprintf(text, EVIDENCE_BYTES, "%s",
                 m->cores_known ? "run-queue delay of the task threads, as the kernel counts it"
                                : "the kernel does not report it");
    else if (what == CREMA_BOTTLENECK_CHUNKS && any && !isnan(sum->open))
        snprintf(text, EVIDENCE_BYTES,
                 "opening is %.0f %% of a chunk's %s s; %.2f s for the executor and %.2f s free "
                 "while tasks were ready",
                 s_percent(sum->open, sum->open + sum->P),
                 s_figure(sink_ratio(sum->open + sum->P, (double)sum->n), 3).text,
                 all->runtime_s - all->spill_s - all->serialize_s,
                 sink_budget_class_s(budget, SINK_IDLE_LATENCY));
    else if (what == CREMA_BOTTLENECK_OPENING && !m->opening_known)
        snprintf(text, EVIDENCE_BYTES,
                 "when process() began is unknown: these seconds are in compute and waiting");
    else if (what == CREMA_BOTTLENECK_OPENING && any && !isnan(sum->open))
        s_evidence_opening(self, text);
    else if (what == CREMA_BOTTLENECK_MEMORY_GROWTH)
        s_evidence_growth(self, text);
    else if (what == CREMA_BOTTLENECK_SLOW_SERVERS)
        s_evidence_slow(self, &m->servers, CREMA_DICT_PLACE, text);
    else if (what == CREMA_BOTTLENECK_SLOW_FILES)
        s_evidence_slow(self, &m->files, CREMA_DICT_FILE, text);
    else if (what == CREMA_BOTTLENECK_SLOW_WORKERS)
        s_evidence_slow(self, &m->workers, CREMA_DICT_WORKER, text);
    else if (what == CREMA_BOTTLENECK_TAIL && sweep->t_last_start_ns != 0)
        snprintf(text, EVIDENCE_BYTES, "the last %s started %.2f s before all had ended",
                 any ? "chunk" : "task", (double)(sweep->t_tail1_ns - sweep->t_tail0_ns) * 1e-9);
    else if (what == CREMA_BOTTLENECK_LATENCY && m->n_tasks > 0)
        snprintf(
            text, EVIDENCE_BYTES, "%s s free for each of %zu tasks",
            s_figure(sink_budget_class_s(budget, SINK_IDLE_LATENCY) / (double)m->n_tasks, 3).text,
            m->n_tasks);
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

/* Tasks without chunks are not told to change theirs. */
static const char *
s_advice(const bottlenecks_t *self, crema_bottleneck_t what)
{
    if (s_is_of_a_quota(self, what))
        return "a larger CPU quota of the container or job, or fewer threads in it";
    if (self->in->facts->n_chunks > 0)
        return crema_bottleneck_words[what].advice;
    switch (what) {
    case CREMA_BOTTLENECK_CHUNKS:
        return "fewer and longer tasks";
    case CREMA_BOTTLENECK_WASTED:
        return "look at status in /task_events and events in /membership";
    case CREMA_BOTTLENECK_WAITING: /* looks are at chunks */
        return "";
    case CREMA_BOTTLENECK_SPILL:
        return "more memory per worker, smaller tasks or outputs";
    case CREMA_BOTTLENECK_PAGE_FAULT:
        return "more memory per worker, smaller tasks: pages are read from disk";
    case CREMA_BOTTLENECK_TAIL:
        return "shorter tasks, the longest first";
    case CREMA_BOTTLENECK_STARVED:
        return "more tasks than threads; submit everything at once";
    case CREMA_BOTTLENECK_LATENCY:
        return "longer tasks; a scheduler with a core of its own; look at event_loop_lag_s";
    case CREMA_BOTTLENECK_IMBALANCE:
        return "shorter tasks; let Dask steal work and queue it at the scheduler";
    default:
        return crema_bottleneck_words[what].advice;
    }
}

static crema_err_t
s_put(const bottlenecks_t *self, int rank)
{
    crema_bottleneck_t what = self->diagnosis.order[rank];
    const sink_cause_t *cause = &self->diagnosis.causes[what];
    const bool known = cause->known && !self->stepped;
    const bool saves = known && (what != CREMA_BOTTLENECK_WAITING || self->found.seen);
    char evidence[EVIDENCE_BYTES] = "";
    if (!self->stepped) {
        const bool quota = s_is_of_a_quota(self, what);
        char more[EVIDENCE_BYTES] = "";
        s_evidence(self, what, more);
        if (quota) /* first, since the sentence depends on it */
            s_say(evidence, "%s", more);
        crema_err_t err = cause->s > 0 ? s_evidence_spot(self, what, evidence) : CREMA_OK;
        if (err != CREMA_OK)
            return err;
        if (!quota && more[0])
            s_say(evidence, "%s", more);
        s_add_doubt(cause, evidence);
    }
    crema_bottlenecks_row_t row = {
        .rank = rank,
        .thread_seconds = known ? cause->s : NAN,
        .fraction = known ? sink_ratio(cause->s, self->in->budget->cap_s) : NAN,
        .status = known ? s_status(self, cause) : CREMA_STATUS_UNAVAILABLE,
        .saving_s = saves ? cause->saving_s : NAN,
        .lo = saves ? cause->lo : NAN,
        .hi = saves ? cause->hi : NAN,
    };
    SINK_TEXT(row.name, crema_bottleneck_words[what].name);
    SINK_TEXT(row.evidence, evidence);
    SINK_TEXT(row.advice, s_advice(self, what));
    return sink_tables_add(self->in->tables, CREMA_TABLE_BOTTLENECKS, &row);
}

crema_err_t
sink_summary_bottlenecks(const sink_summary_t *self)
{
    bottlenecks_t all = {.in = self,
                         .sum = self->sums->totals,
                         .stepped = sink_meta_clock_stepped(sink_decoder_meta(self->run))};
    crema_err_t err = sink_bottleneck_measure(self->facts, self->model, self->tables, &all.found);
    if (err != CREMA_OK)
        return err;
    all.diagnosis = sink_diagnosis_make(&all.found, self->budget);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT && err == CREMA_OK; i++)
        err = s_put(&all, i);
    return err;
}
