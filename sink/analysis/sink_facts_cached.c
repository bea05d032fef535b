#include "sink_facts_impl.h"
#include "sink_scratch.h"
#include "sink_sort.h"

#define METRIC_CACHED "crema.cached_chunks"
#define METRIC_AGAIN "crema.tasks_again"

static int
s_by_hash(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

crema_err_t
sink_facts_take_repeated(sink_facts_t *self, const sink_rows_t *rows, sink_dict_t *dict)
{
    const uint32_t cached = sink_dict_find(dict, CREMA_DICT_METRIC, METRIC_CACHED);
    const uint32_t again = sink_dict_find(dict, CREMA_DICT_METRIC, METRIC_AGAIN);
    size_t n = 0;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_custom_row_t *row = sink_rows_at(rows, i);
        self->n_cached += cached != SINK_DICT_NONE && row->metric_id == cached;
        n += again != SINK_DICT_NONE && row->metric_id == again;
    }
    if (n == 0)
        return CREMA_OK;
    crema_err_t err = CREMA_OK;
    self->again = sink_scratch(self->dir, n, sizeof *self->again, &err);
    if (!self->again)
        return err;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_custom_row_t *row = sink_rows_at(rows, i);
        if (row->metric_id == again)
            self->again[self->n_again++] = row->chunk_id;
    }
    sink_sort_by_int64(self->again, n, sizeof *self->again, s_by_hash);
    return CREMA_OK;
}
