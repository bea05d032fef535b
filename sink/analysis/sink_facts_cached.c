#include <stdlib.h>

#include "sink_facts_impl.h"
#include "sink_scratch.h"
#include "sink_sort.h"

#define METRIC_CACHED "crema.cached_chunks"
#define METRIC_KEPT "crema.kept_tasks"

static int
s_by_hash(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* *ret_keys: sorted hashes of the tasks of chunks. */
static crema_err_t
s_take_keys(const sink_facts_t *self, int64_t **ret_keys)
{
    crema_err_t err = CREMA_OK;
    int64_t *keys = sink_scratch(self->dir, self->n_chunks + 1, sizeof *keys, &err);
    for (size_t i = 0; keys && i < self->n_chunks; i++)
        keys[i] = self->chunks[i].task_key;
    if (keys)
        sink_sort_by_int64(keys, self->n_chunks, sizeof *keys, s_by_hash);
    *ret_keys = keys;
    return err;
}

crema_err_t
sink_facts_count_cached(sink_facts_t *self, const sink_rows_t *rows, sink_dict_t *dict)
{
    const uint32_t cached = sink_dict_find(dict, CREMA_DICT_METRIC, METRIC_CACHED);
    const uint32_t kept = sink_dict_find(dict, CREMA_DICT_METRIC, METRIC_KEPT);
    int64_t *keys = NULL;
    crema_err_t err = kept == SINK_DICT_NONE ? CREMA_OK : s_take_keys(self, &keys);
    if ((cached == SINK_DICT_NONE && kept == SINK_DICT_NONE) || err != CREMA_OK)
        return err;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_custom_row_t *row = sink_rows_at(rows, i); /* packed */
        const int64_t key = row->chunk_id;
        if (row->metric_id == cached)
            self->n_cached++;
        else if (keys && row->metric_id == kept && key != 0)
            self->n_cached += bsearch(&key, keys, self->n_chunks, sizeof *keys, s_by_hash) != NULL;
    }
    sink_scratch_free(keys);
    return CREMA_OK;
}
