/* Chunks of final tables: compressed, and compared with the rows, on two cores. Only the calling
 * thread uses HDF5. */
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "sink_both.h"
#include "sink_filter.h"
#include "sink_h5_impl.h"

#define CORES 2
#define AT_ONCE 4 /* chunks per core */

typedef struct {
    const uint8_t *rows;
    uint64_t first;
    size_t n;
    uint8_t *packed;
    size_t bytes;
    bool holds; /* the packed chunk has the rows */
} chunk_t;

/* What one core works on. */
typedef struct {
    sink_filter_t *filter;
    chunk_t chunks[AT_ONCE];
    size_t n;
} share_t;

typedef struct {
    int64_t dataset;
    size_t row_bytes, chunk_rows;
    size_t room;  /* of a packed chunk */
    uint32_t sum; /* of the packed chunks read */
    share_t shares[CORES];
} work_t;

static void
s_clear(work_t *self)
{
    for (int i = 0; i < CORES; i++) {
        sink_filter_destroy(&self->shares[i].filter);
        for (int k = 0; k < AT_ONCE; k++)
            free(self->shares[i].chunks[k].packed);
    }
}

/* Call s_clear() afterwards in any case. */
static crema_err_t
s_begin(work_t *self, int64_t dataset, const crema_table_t *table)
{
    *self = (work_t){.dataset = dataset,
                     .row_bytes = crema_table_row_bytes(table),
                     .chunk_rows = table->final_chunk_rows};
    crema_err_t err = CREMA_OK;
    for (int i = 0; i < CORES && err == CREMA_OK; i++)
        err = sink_filter_new(self->row_bytes, self->chunk_rows, &self->shares[i].filter);
    if (err == CREMA_OK)
        self->room = sink_filter_bound(self->shares[0].filter);
    for (int i = 0; i < CORES && err == CREMA_OK; i++)
        for (int k = 0; k < AT_ONCE && err == CREMA_OK; k++)
            if (!(self->shares[i].chunks[k].packed = malloc(self->room)))
                err = CREMA_ENOMEM;
    return err;
}

/* Hands out the next chunks; returns the first row behind them. */
static uint64_t
s_share_out(work_t *self, const uint8_t *rows, uint64_t first, uint64_t n)
{
    for (int i = 0; i < CORES; i++) {
        share_t *share = &self->shares[i];
        for (share->n = 0; share->n < AT_ONCE && first < n; share->n++) {
            chunk_t *chunk = &share->chunks[share->n];
            chunk->rows = rows ? rows + first * self->row_bytes : NULL;
            chunk->first = first;
            chunk->n = n - first < self->chunk_rows ? n - first : self->chunk_rows;
            first += chunk->n;
        }
    }
    return first;
}

static void
s_on_both(work_t *self, void (*run)(void *))
{
    if (self->shares[1].n > 0)
        sink_both(run, &self->shares[0], run, &self->shares[1]);
    else
        run(&self->shares[0]);
}

/* Calls `each` for the chunks in order; false if it failed. */
static bool
s_each(work_t *self, bool (*each)(work_t *, chunk_t *))
{
    for (int i = 0; i < CORES; i++)
        for (size_t k = 0; k < self->shares[i].n; k++)
            if (!each(self, &self->shares[i].chunks[k]))
                return false;
    return true;
}

/* ---- writing */

static void
s_pack(void *context)
{
    share_t *self = context;
    for (size_t i = 0; i < self->n; i++) {
        chunk_t *chunk = &self->chunks[i];
        chunk->bytes = sink_filter_pack(self->filter, chunk->rows, chunk->n, chunk->packed);
    }
}

static bool
s_put(work_t *self, chunk_t *chunk)
{
    const hsize_t offset = chunk->first;
    return H5Dwrite_chunk(self->dataset, H5P_DEFAULT, 0, &offset, chunk->bytes, chunk->packed) >= 0;
}

crema_err_t
sink_h5_write_chunks(sink_h5_t *self, const crema_table_t *table, int64_t dataset,
                     const uint8_t *rows, uint64_t n)
{
    work_t work;
    crema_err_t err = s_begin(&work, dataset, table);
    for (uint64_t first = 0; err == CREMA_OK && first < n;) {
        first = s_share_out(&work, rows, first, n);
        s_on_both(&work, s_pack);
        if (!s_each(&work, s_put))
            err = sink_h5_fail(self, "write rows of", table->path);
    }
    s_clear(&work);
    return err;
}

/* ---- comparing */

static bool
s_get(work_t *self, chunk_t *chunk)
{
    const hsize_t offset = chunk->first;
    hsize_t bytes = 0;
    uint32_t skipped = 0; /* filters */
    if (H5Dget_chunk_storage_size(self->dataset, &offset, &bytes) < 0 || bytes > self->room ||
        H5Dread_chunk(self->dataset, H5P_DEFAULT, &offset, &skipped, chunk->packed) < 0)
        return false;
    chunk->bytes = bytes;
    self->sum = sink_filter_sum(self->sum, chunk->packed, bytes);
    return skipped == 0;
}

static void
s_compare(void *context)
{
    share_t *self = context;
    for (size_t i = 0; i < self->n; i++) {
        chunk_t *chunk = &self->chunks[i];
        chunk->holds =
            sink_filter_holds(self->filter, chunk->packed, chunk->bytes, chunk->rows, chunk->n);
    }
}

static bool
s_is_held(work_t *self, chunk_t *chunk)
{
    (void)self;
    return chunk->holds;
}

crema_err_t
sink_h5_compare_chunks(sink_h5_t *self, const crema_table_t *table, const uint8_t *rows, uint64_t n,
                       bool *ret_equal, uint32_t *ret_sum)
{
    hid_t dataset = H5Dopen2(self->file, table->path, H5P_DEFAULT);
    work_t work;
    if (dataset < 0)
        return sink_h5_fail(self, "read rows of", table->path);
    *ret_equal = true;
    crema_err_t err = s_begin(&work, dataset, table);
    for (uint64_t first = 0; err == CREMA_OK && *ret_equal && first < n;) {
        first = s_share_out(&work, rows, first, n);
        if (!s_each(&work, s_get)) {
            err = sink_h5_fail(self, "read rows of", table->path);
        } else if (rows) {
            s_on_both(&work, s_compare);
            *ret_equal = s_each(&work, s_is_held);
        }
    }
    *ret_sum = work.sum;
    s_clear(&work);
    H5Dclose(dataset);
    return err;
}
