#include "sink_input.h"

#include <math.h>
#include <stdlib.h>

#include "sink_attempt.h"
#include "sink_intern.h"

#define CHUNKS "coffea.chunks"
#define EXCEPTION "exception"

/* The outcome of a chunk in one pass. */
typedef struct {
    int64_t events;
    uint32_t file;
    bool counted, dropped;
} fate_t;

int64_t
sink_input_reported(const sink_decoder_t *run)
{
    const char *text = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), CHUNKS);
    char *end = NULL;
    double value = text ? strtod(text, &end) : NAN;
    return text && end != text && *end == '\0' && value >= 0 && value < 9e15 ? (int64_t)value : -1;
}

/* True for a failed attempt whose task did not fail for Dask, or that had no task. */
static bool
s_is_dropped(const sink_chunk_t *chunk)
{
    return chunk->status == CREMA_CHUNK_ERROR && (chunk->task_is_ok || !chunk->in_task);
}

static crema_err_t
s_take_fates(const sink_facts_t *facts, fate_t *fates, size_t *ret_n)
{
    sink_intern_t *keys = NULL;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &keys);
    for (size_t i = 0; err == CREMA_OK && i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        const int64_t key[2] = {chunk->chunk_id, chunk->pass};
        uint32_t number;
        bool fresh;
        err = sink_intern_add(keys, key, sizeof key, &number, &fresh);
        if (err != CREMA_OK)
            break;
        fate_t *fate = &fates[number];
        if (fresh)
            *fate =
                (fate_t){chunk->n_entries > 0 ? chunk->n_entries : 0, chunk->file, false, false};
        fate->counted = fate->counted || chunk->counted;
        fate->dropped = s_is_dropped(chunk); /* the last attempt decides */
    }
    *ret_n = keys ? sink_intern_count(keys) : 0;
    sink_intern_destroy(&keys);
    return err;
}

static int
s_by_file(const void *a, const void *b)
{
    const fate_t *left = a, *right = b;
    return (left->file > right->file) - (left->file < right->file);
}

crema_err_t
sink_input_new(const sink_facts_t *facts, const sink_decoder_t *run, int64_t *ret_seen,
               sink_dropped_t **ret_dropped, size_t *ret_n)
{
    fate_t *fates = calloc(facts->n_chunks + 1, sizeof *fates);
    sink_dropped_t *dropped = calloc(facts->n_chunks + 1, sizeof *dropped);
    bool raised = sink_texts_find(sink_meta_attributes(sink_decoder_meta(run)), EXCEPTION) != NULL;
    size_t n_fates = 0, n = 0;
    crema_err_t err = fates && dropped ? s_take_fates(facts, fates, &n_fates) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        free(fates);
        free(dropped);
        *ret_dropped = NULL;
        *ret_n = 0;
        return err;
    }
    qsort(fates, n_fates, sizeof *fates, s_by_file);
    for (size_t i = 0; i < n_fates; i++) {
        if (raised || fates[i].counted || !fates[i].dropped)
            continue;
        if (n == 0 || dropped[n - 1].file != fates[i].file)
            dropped[n++].file = fates[i].file;
        dropped[n - 1].chunks++;
        dropped[n - 1].events += fates[i].events;
    }
    free(fates);
    *ret_seen = (int64_t)n_fates + facts->n_cached;
    *ret_dropped = dropped;
    *ret_n = n;
    return CREMA_OK;
}
