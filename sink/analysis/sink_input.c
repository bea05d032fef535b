#include "sink_input.h"

#include <math.h>
#include <stdlib.h>

#include "crema_json.h"
#include "sink_bound.h"
#include "sink_scratch.h"
#include "sink_sort.h"

#define CHUNKS "coffea.chunks"
#define COMPUTED_ONCE "coffea.computed_once" /* of CHUNKS, those that Dask did not compute again */
#define PROCESSED "coffea.processed_chunks"
#define EXCEPTION "exception"
/* [start, end, start, ...]: ns since the start of the run */
#define WITHOUT_RESULT "coffea.without_result_ns"
#define MAX_SPANS 128

/* The outcome of a chunk in one pass; before that, of one attempt. */
typedef struct {
    int64_t chunk_id, events;
    int64_t task_key; /* of Dask, which may keep its result; 0: none */
    size_t row;
    uint32_t file;
    uint16_t pass;
    bool counted, dropped;
    bool returned;  /* did not fail */
    bool in_result; /* began outside calls without a result */
} fate_t;

typedef struct {
    int64_t start_ns, end_ns;
} span_t;

static int64_t
s_count(const sink_decoder_t *run, const char *attribute)
{
    const char *text = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), attribute);
    char *end = NULL;
    double value = text ? strtod(text, &end) : NAN;
    return text && end != text && *end == '\0' && value >= 0 && value < 9e15 ? (int64_t)value : -1;
}

/* Reads when chunks began that are in no result; returns the number of spans. */
static size_t
s_spans(const sink_decoder_t *run, span_t spans[MAX_SPANS])
{
    const sink_meta_t *meta = sink_decoder_meta(run);
    const char *list = sink_texts_find(sink_meta_attributes(meta), WITHOUT_RESULT);
    const int64_t t0_ns = sink_meta_start_ns(meta);
    size_t n = 0;
    if (!list || sink_meta_clock_stepped(meta)) /* the times of chunks may be those of others */
        return 0;
    for (const char *at = crema_json_first(list); at && n < MAX_SPANS; n++) {
        int64_t start_ns, end_ns;
        const char *end = crema_json_after(at);
        if (!end || crema_json_get_int(at, &start_ns) != CREMA_OK ||
            crema_json_get_int(end, &end_ns) != CREMA_OK || start_ns < 0 || end_ns < start_ns)
            break;
        spans[n] = (span_t){sink_bound_sum(t0_ns, (uint64_t)start_ns),
                            sink_bound_sum(t0_ns, (uint64_t)end_ns)};
        at = crema_json_after(end);
    }
    return n;
}

static bool
s_within(int64_t t_ns, const span_t *spans, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t_ns >= spans[i].start_ns && t_ns < spans[i].end_ns)
            return true;
    return false;
}

/* True for a failed attempt whose task did not fail for Dask, or that had no task. */
static bool
s_is_dropped(const sink_chunk_t *chunk)
{
    return chunk->status == CREMA_CHUNK_ERROR && (chunk->task_is_ok || !chunk->in_task);
}

static int
s_by_pass(const fate_t *left, const fate_t *right)
{
    if (left->chunk_id != right->chunk_id)
        return left->chunk_id < right->chunk_id ? -1 : 1;
    return (int)left->pass - (int)right->pass;
}

static int
s_by_attempt(const void *a, const void *b)
{
    const fate_t *left = a, *right = b;
    int order = s_by_pass(left, right);
    return order != 0 ? order : (left->row > right->row) - (left->row < right->row);
}

/* Returns their number. */
static size_t
s_take_fates(const sink_facts_t *facts, const sink_decoder_t *run, fate_t *fates)
{
    span_t spans[MAX_SPANS];
    size_t n = 0, n_spans = s_spans(run, spans);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        fates[i] = (fate_t){.chunk_id = chunk->chunk_id,
                            .events = chunk->n_entries > 0 ? chunk->n_entries : 0,
                            .row = i,
                            .file = chunk->file,
                            .pass = chunk->pass,
                            .counted = chunk->counted,
                            .dropped = s_is_dropped(chunk),
                            .returned = chunk->status != CREMA_CHUNK_ERROR,
                            .task_key = chunk->task_key,
                            .in_result = !s_within(chunk->t_start_ns, spans, n_spans)};
    }
    sink_sort_by_int64(fates, facts->n_chunks, sizeof *fates, s_by_attempt);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        if (n == 0 || s_by_pass(&fates[n - 1], &fates[i]) != 0) {
            fates[n++] = fates[i];
            continue;
        }
        fates[n - 1].counted |= fates[i].counted;
        fates[n - 1].returned |= fates[i].returned;
        fates[n - 1].in_result |= fates[i].in_result;
        fates[n - 1].dropped = fates[i].dropped; /* the last attempt decides */
    }
    return n;
}

/* True if the scheduler's plugin said which tasks were submitted again. */
static bool
s_has_scheduler(const sink_decoder_t *run)
{
    for (size_t i = 0; i < sink_decoder_streams(run); i++)
        if (sink_decoder_stream(run, i)->kind == CREMA_STREAM_SCHEDULER)
            return true;
    return false;
}

/* How often a task was submitted again. */
static int64_t
s_times_again(const sink_facts_t *facts, int64_t key)
{
    if (key == 0)
        return 0;
    int64_t n = 0;
    size_t at = sink_sort_first(facts->again, facts->n_again, key);
    while (at < facts->n_again && facts->again[at++] == key)
        n++;
    return n;
}

/* How often the result of one chunk served a later call, of a task that was not computed for it:
 * less often than it was submitted again if it was also computed again. */
static int64_t
s_times_reused(const sink_facts_t *facts, const fate_t *fates, size_t n_passes)
{
    int64_t again = 0;
    for (size_t i = 0; i < n_passes; i++)
        if (i == 0 || fates[i].task_key != fates[i - 1].task_key)
            again += s_times_again(facts, fates[i].task_key);
    const int64_t computed_again = (int64_t)n_passes - 1;
    return again > computed_again ? again - computed_again : 0;
}

/* Counts results of chunks: each whose process() was called, of those each where it returned, and
 * of those each that was used again beside its own call's. `again_counted`: the scheduler's plugin
 * says which tasks were submitted again. */
static void
s_count_recorded(sink_input_t *self, const sink_facts_t *facts, const fate_t *fates, size_t n,
                 bool again_counted, int64_t *ret_begun, int64_t *ret_returned)
{
    *ret_begun = *ret_returned = facts->n_cached;
    for (size_t first = 0, end; first < n; first = end) {
        bool in_result = false;
        for (end = first; end < n && fates[end].chunk_id == fates[first].chunk_id; end++)
            in_result |= fates[end].in_result;
        for (size_t i = first; i < end; i++) {
            bool may_be_kept = fates[i].task_key != 0 && !in_result && !again_counted;
            bool counts = fates[i].in_result || may_be_kept;
            *ret_begun += counts;
            *ret_returned += counts && fates[i].returned;
        }
        const int64_t reused = s_times_reused(facts, &fates[first], end - first);
        *ret_begun += reused;
        *ret_returned += reused;
        self->reused += in_result ? reused : 0;
    }
}

/* Returns their number. */
static size_t
s_keep_dropped(fate_t *fates, size_t n_fates)
{
    size_t n = 0;
    for (size_t i = 0; i < n_fates; i++)
        if (fates[i].dropped && !fates[i].counted)
            fates[n++] = fates[i];
    return n;
}

static int
s_by_file(const void *a, const void *b)
{
    const fate_t *left = a, *right = b;
    return (left->file > right->file) - (left->file < right->file);
}

/* By file, *ret_n entries; NULL: no memory. */
static sink_dropped_t *
s_sum_files(fate_t *fates, size_t n_fates, size_t *ret_n)
{
    sink_sort(fates, n_fates, sizeof *fates, s_by_file);
    size_t n_files = n_fates > 0, n = 0;
    for (size_t i = 1; i < n_fates; i++)
        n_files += fates[i].file != fates[i - 1].file;
    sink_dropped_t *dropped = calloc(n_files + 1, sizeof *dropped);
    for (size_t i = 0; dropped && i < n_fates; i++) {
        if (n == 0 || dropped[n - 1].file != fates[i].file)
            dropped[n++].file = fates[i].file;
        dropped[n - 1].chunks++;
        dropped[n - 1].events += fates[i].events;
    }
    *ret_n = n;
    return dropped;
}

static void
s_compare(sink_input_t *self, const sink_decoder_t *run, int64_t begun, int64_t returned)
{
    const int64_t listed = s_count(run, CHUNKS), again = s_count(run, COMPUTED_ONCE);
    const int64_t report = again > 0 ? listed - again : listed, results = s_count(run, PROCESSED);
    bool by_results = results - returned > report - begun;
    self->reported = by_results ? results : report;
    self->recorded = by_results ? returned : begun;
}

crema_err_t
sink_input_take(sink_input_t *self, const sink_facts_t *facts, const sink_decoder_t *run)
{
    bool raised = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), EXCEPTION) != NULL;
    crema_err_t err = CREMA_OK;
    fate_t *fates = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof *fates, &err);
    int64_t begun, returned;
    *self = (sink_input_t){0};
    if (!fates)
        return err;
    size_t n_fates = s_take_fates(facts, run, fates);
    s_count_recorded(self, facts, fates, n_fates, s_has_scheduler(run), &begun, &returned);
    s_compare(self, run, begun, returned);
    const size_t n_dropped = raised ? 0 : s_keep_dropped(fates, n_fates);
    self->dropped = s_sum_files(fates, n_dropped, &self->n_dropped);
    sink_scratch_free(fates);
    return self->dropped ? CREMA_OK : CREMA_ENOMEM;
}

void
sink_input_clear(sink_input_t *self)
{
    free(self->dropped);
    *self = (sink_input_t){0};
}
