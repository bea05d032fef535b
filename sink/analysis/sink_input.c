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
    size_t row;
    uint32_t file;
    uint16_t pass;
    bool counted, dropped;
    bool returned;  /* did not fail */
    bool of_dask;   /* computed by a task of Dask, which may keep its result */
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
                            .of_dask = chunk->task_key != 0,
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

/* True if the scheduler's plugin counted what Dask had kept from earlier. */
static bool
s_has_scheduler(const sink_decoder_t *run)
{
    for (size_t i = 0; i < sink_decoder_streams(run); i++)
        if (sink_decoder_stream(run, i)->kind == CREMA_STREAM_SCHEDULER)
            return true;
    return false;
}

/* Counts chunks whose process() was called, and those of them where it returned. `kept_counted`:
 * what Dask kept of a call without a result is counted elsewhere. */
static void
s_count_recorded(const fate_t *fates, size_t n, bool kept_counted, int64_t *ret_begun,
                 int64_t *ret_returned)
{
    *ret_begun = *ret_returned = 0;
    for (size_t first = 0, end; first < n; first = end) {
        bool in_result = false;
        for (end = first; end < n && fates[end].chunk_id == fates[first].chunk_id; end++)
            in_result |= fates[end].in_result;
        for (size_t i = first; i < end; i++) {
            bool may_be_kept = fates[i].of_dask && !in_result && !kept_counted;
            bool counts = fates[i].in_result || may_be_kept;
            *ret_begun += counts;
            *ret_returned += counts && fates[i].returned;
        }
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
    s_count_recorded(fates, n_fates, s_has_scheduler(run), &begun, &returned);
    s_compare(self, run, begun + facts->n_cached, returned + facts->n_cached);
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
