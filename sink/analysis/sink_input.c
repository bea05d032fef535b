#include "sink_input.h"

#include <math.h>
#include <stdlib.h>

#include "sink_scratch.h"
#include "sink_sort.h"

#define CHUNKS "coffea.chunks"
#define COMPUTED_ONCE "coffea.computed_once" /* of CHUNKS, those that Dask did not compute again */
#define PROCESSED "coffea.processed_chunks"
#define EXCEPTION "exception"

/* The outcome of a chunk in one pass; before that, of one attempt. */
typedef struct {
    int64_t chunk_id, events;
    size_t row;
    uint32_t file;
    uint16_t pass;
    bool counted, dropped;
} fate_t;

static int64_t
s_count(const sink_decoder_t *run, const char *attribute)
{
    const char *text = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), attribute);
    char *end = NULL;
    double value = text ? strtod(text, &end) : NAN;
    return text && end != text && *end == '\0' && value >= 0 && value < 9e15 ? (int64_t)value : -1;
}

int64_t
sink_input_reported(const sink_decoder_t *run)
{
    const int64_t listed = s_count(run, CHUNKS), again = s_count(run, COMPUTED_ONCE);
    const int64_t report = again > 0 ? listed - again : listed, results = s_count(run, PROCESSED);
    return report > results ? report : results;
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
s_take_fates(const sink_facts_t *facts, fate_t *fates)
{
    size_t n = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        fates[i] = (fate_t){.chunk_id = chunk->chunk_id,
                            .events = chunk->n_entries > 0 ? chunk->n_entries : 0,
                            .row = i,
                            .file = chunk->file,
                            .pass = chunk->pass,
                            .counted = chunk->counted,
                            .dropped = s_is_dropped(chunk)};
    }
    sink_sort_by_int64(fates, facts->n_chunks, sizeof *fates, s_by_attempt);
    for (size_t i = 0; i < facts->n_chunks; i++) {
        if (n == 0 || s_by_pass(&fates[n - 1], &fates[i]) != 0) {
            fates[n++] = fates[i];
            continue;
        }
        fates[n - 1].counted = fates[n - 1].counted || fates[i].counted;
        fates[n - 1].dropped = fates[i].dropped; /* the last attempt decides */
    }
    return n;
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

crema_err_t
sink_input_new(const sink_facts_t *facts, const sink_decoder_t *run, int64_t *ret_seen,
               sink_dropped_t **ret_dropped, size_t *ret_n)
{
    bool raised = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), EXCEPTION) != NULL;
    crema_err_t err = CREMA_OK;
    fate_t *fates = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof *fates, &err);
    *ret_dropped = NULL;
    *ret_n = 0;
    if (!fates)
        return err;
    size_t n_fates = s_take_fates(facts, fates);
    const size_t n_dropped = raised ? 0 : s_keep_dropped(fates, n_fates);
    *ret_dropped = s_sum_files(fates, n_dropped, ret_n);
    sink_scratch_free(fates);
    *ret_seen = (int64_t)n_fates + facts->n_cached;
    return *ret_dropped ? CREMA_OK : CREMA_ENOMEM;
}
