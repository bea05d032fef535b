/* Reads a final file back before it is put in place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_filter.h"
#include "sink_seal_impl.h"

#define VERIFY_BYTES ((size_t)1 << 20)

/* As every program reads them: through HDF5. The caller frees the rows. */
static crema_err_t
s_read_rows(sink_h5_t *file, const crema_table_t *table, size_t first, size_t n, uint8_t **ret_rows)
{
    uint8_t *rows = malloc(n * crema_table_row_bytes(table));
    crema_err_t err = rows ? sink_h5_read_rows(file, table, first, n, rows) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        *ret_rows = rows;
    else
        free(rows);
    return err;
}

static crema_err_t
s_read_sum(sink_h5_t *file, const crema_table_t *table, size_t first, size_t n, uint32_t *ret_sum)
{
    uint8_t *rows;
    crema_err_t err = s_read_rows(file, table, first, n, &rows);
    if (err != CREMA_OK)
        return err;
    *ret_sum = sink_filter_sum(0, rows, n * crema_table_row_bytes(table));
    free(rows);
    return CREMA_OK;
}

/* Every chunk as it is stored, and the first and last one also through HDF5. */
static crema_err_t
s_read_chunks(sink_h5_t *file, const crema_table_t *table, size_t n, const sink_seal_sum_t *sum,
              bool *ret_equal)
{
    const size_t chunk = table->final_chunk_rows, last = (n - 1) / chunk * chunk;
    sink_seal_sum_t now = {0};
    bool unasked;
    crema_err_t err = s_read_sum(file, table, 0, n < chunk ? n : chunk, &now.first);
    if (err == CREMA_OK)
        err = s_read_sum(file, table, last, n - last, &now.last);
    if (err == CREMA_OK)
        err = sink_h5_compare_chunks(file, table, NULL, n, &unasked, &now.chunks);
    *ret_equal = err == CREMA_OK && now.chunks == sum->chunks && now.first == sum->first &&
                 now.last == sum->last;
    return err;
}

/* A table that is not compressed. */
static crema_err_t
s_read_all(sink_h5_t *file, const crema_table_t *table, const sink_rows_t *rows, bool *ret_equal)
{
    const size_t row_bytes = crema_table_row_bytes(table);
    const size_t n = sink_rows_count(rows), most = VERIFY_BYTES / row_bytes;
    crema_err_t err = CREMA_OK;
    for (size_t first = 0, part; err == CREMA_OK && *ret_equal && first < n; first += part) {
        uint8_t *read;
        part = n - first < most ? n - first : most;
        err = s_read_rows(file, table, first, part, &read);
        if (err != CREMA_OK)
            break;
        *ret_equal = memcmp(read, sink_rows_at(rows, first), part * row_bytes) == 0;
        free(read);
    }
    return err;
}

static crema_err_t
s_compare_table(sink_seal_t *self, sink_h5_t *file, const crema_table_t *table)
{
    const sink_rows_t *rows = sink_tables_rows(self->tables, table->id);
    const size_t n = sink_rows_count(rows);
    bool equal = true;
    crema_err_t err = CREMA_OK;
    if (n > 0)
        err = table->final_chunk_rows > 0
                  ? s_read_chunks(file, table, n, &self->sums[table->id], &equal)
                  : s_read_all(file, table, rows, &equal);
    if (err != CREMA_OK) {
        snprintf(self->why, self->why_size, "%s", sink_h5_why(file));
    } else if (!equal) {
        snprintf(self->why, self->why_size, "the file was written but reads back differently");
        err = CREMA_EH5;
    }
    return err;
}

static crema_err_t
s_compare_rows(sink_seal_t *self, sink_h5_t *file)
{
    crema_err_t err = CREMA_OK;
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++)
        err = s_compare_table(self, file, crema_table((crema_table_id_t)t));
    return err;
}

static crema_err_t
s_count_rows(sink_seal_t *self, sink_h5_t *file)
{
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        char why[SINK_H5_WHY_BYTES];
        uint64_t rows;
        crema_err_t err = sink_h5_table(file, table, &rows, why);
        if (err != CREMA_OK) {
            snprintf(self->why, self->why_size, "the file was written but reads back wrong: %s",
                     why);
            return CREMA_EH5;
        }
        if (rows != sink_rows_count(sink_tables_rows(self->tables, table->id))) {
            snprintf(self->why, self->why_size,
                     "the file was written but reads back with %llu rows in /%s",
                     (unsigned long long)rows, table->path);
            return CREMA_EH5;
        }
    }
    return CREMA_OK;
}

crema_err_t
sink_seal_verify(sink_seal_t *self)
{
    char why[SINK_H5_WHY_BYTES] = "";
    sink_h5_t *file = NULL;
    crema_err_t err = sink_h5_open(self->temporary, &file, why);
    if (err != CREMA_OK) {
        snprintf(self->why, self->why_size, "%s", why);
        return err;
    }
    err = s_count_rows(self, file);
    if (err == CREMA_OK)
        err = s_compare_rows(self, file);
    crema_err_t closed = sink_h5_close(&file, NULL);
    return err == CREMA_OK ? closed : err;
}
