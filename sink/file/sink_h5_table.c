/* Tables: one compound dataset each. */
#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#include "sink_filter.h"
#include "sink_h5_impl.h"

#define COLUMNS_MAX 64

/* ---- creating */

static bool
s_put_columns(hid_t dataset, const crema_table_t *table)
{
    const char *names[COLUMNS_MAX], *units[COLUMNS_MAX], *meanings[COLUMNS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < table->n_columns && n < COLUMNS_MAX; i++) {
        if (table->columns[i].size == 0)
            continue;
        names[n] = table->columns[i].name;
        units[n] = table->columns[i].units;
        meanings[n++] = table->columns[i].meaning;
    }
    return sink_h5_put_texts(dataset, "column_names", names, n) &&
           sink_h5_put_texts(dataset, "column_units", units, n) &&
           sink_h5_put_texts(dataset, "column_desc", meanings, n);
}

/* The columns that define the row order; empty if rows stay in order of arrival. */
static const char *
s_sort_key(const sink_h5_t *self, const crema_table_t *table, char key[128])
{
    const char *first = table->columns[0].name;
    key[0] = '\0';
    if (self->live || table->kind == CREMA_KIND_SUMMARY)
        return key;
    if (table->kind == CREMA_KIND_STREAM)
        snprintf(key, 128, "%s,stream_id,seq", first);
    else if (table->id == CREMA_TABLE_GAPS)
        snprintf(key, 128, "%s,stream_id,first_seq", first);
    else if (table->kind == CREMA_KIND_ACCOUNT)
        snprintf(key, 128, "%s,stream_id", first);
    else
        snprintf(key, 128, "%s", first);
    return key;
}

/* Live: growing and unfiltered. Final: chunked and compressed, or contiguous if the table
 * defines no chunks. */
static hid_t
s_creation(const sink_h5_t *self, const crema_table_t *table)
{
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    if (create < 0)
        return -1;
    hsize_t chunk = self->live ? table->live_chunk_rows : table->final_chunk_rows;
    bool good = H5Pset_obj_track_times(create, false) >= 0;
    if (self->live)
        good = good && H5Pset_fill_time(create, H5D_FILL_TIME_NEVER) >= 0;
    else
        good = good && H5Pset_attr_creation_order(create, H5P_CRT_ORDER_TRACKED |
                                                              H5P_CRT_ORDER_INDEXED) >= 0;
    if (chunk > 0)
        good = good && H5Pset_chunk(create, 1, &chunk) >= 0;
    if (chunk > 0 && !self->live)
        good =
            good && H5Pset_shuffle(create) >= 0 && H5Pset_deflate(create, SINK_FILTER_LEVEL) >= 0;
    if (!good) {
        H5Pclose(create);
        return -1;
    }
    return create;
}

/* Creates intermediate groups that keep the order of their members. */
static hid_t
s_linking(void)
{
    hid_t link = H5Pcreate(H5P_LINK_CREATE);
    if (link >= 0 && H5Pset_create_intermediate_group(link, 1) < 0) {
        H5Pclose(link);
        return -1;
    }
    return link;
}

static hid_t
s_create(const sink_h5_t *self, const crema_table_t *table, uint64_t n)
{
    hsize_t size = n, most = table->final_chunk_rows > 0 || self->live ? H5S_UNLIMITED : n;
    hid_t type = sink_h5_row_type(table), create = s_creation(self, table), link = s_linking();
    hid_t space = H5Screate_simple(1, &size, &most), dataset = -1;
    if (type >= 0 && create >= 0 && link >= 0 && space >= 0)
        dataset = H5Dcreate2(self->file, table->path, type, space, link, create, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(link);
    H5Pclose(create);
    H5Tclose(type);
    return dataset;
}

crema_err_t
sink_h5_make_table(sink_h5_t *self, const crema_table_t *table, uint64_t n, const char *time_basis,
                   int64_t *ret_dataset)
{
    hid_t dataset = s_create(self, table, n);
    if (dataset < 0)
        return sink_h5_fail(self, "make table", table->path);
    *ret_dataset = dataset;
    char key[128];
    if (!sink_h5_put_text(dataset, "description", table->description) ||
        !s_put_columns(dataset, table) ||
        !sink_h5_put_text(dataset, "sort_key", s_sort_key(self, table, key)) ||
        !sink_h5_put_int(dataset, "n_rows_lost", 0) ||
        !sink_h5_put_text(dataset, "time_basis", time_basis))
        return sink_h5_fail(self, "describe table", table->path);
    return CREMA_OK;
}

/* ---- rows */

static bool
s_write(hid_t dataset, hid_t type, uint64_t first, uint64_t n, const uint8_t *rows)
{
    hsize_t start = first, count = n;
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &count, NULL);
    bool good = space >= 0 && memory >= 0 &&
                H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0 &&
                H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, rows) >= 0;
    H5Sclose(memory);
    H5Sclose(space);
    return good;
}

crema_err_t
sink_h5_put_rows(sink_h5_t *self, const crema_table_t *table, uint64_t first, const uint8_t *rows,
                 uint64_t n)
{
    if (n == 0)
        return CREMA_OK;
    hsize_t start = first, end = first + n;
    if (end > (uint64_t)table->live_chunk_rows * SINK_H5_LIVE_CHUNKS_MAX)
        return CREMA_ELIMIT;
    hid_t dataset = self->tables[table->id];
    if (end > self->rows[table->id]) {
        if (H5Dset_extent(dataset, &end) < 0)
            return sink_h5_fail(self, "grow table", table->path);
        self->rows[table->id] = end;
    }
    bool good;
    if (first % table->live_chunk_rows == 0 && n == table->live_chunk_rows) {
        good = H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &start, n * crema_table_row_bytes(table),
                              rows) >= 0;
    } else {
        int64_t *type = &self->types[table->id];
        if (*type < 0)
            *type = sink_h5_row_type(table);
        good = *type >= 0 && s_write(dataset, *type, first, n, rows);
    }
    return good ? CREMA_OK : sink_h5_fail(self, "write rows of", table->path);
}

crema_err_t
sink_h5_write_table(sink_h5_t *self, const crema_table_t *table, uint64_t n, const uint8_t *rows,
                    const char *time_basis)
{
    int64_t dataset = -1;
    crema_err_t err = sink_h5_make_table(self, table, n, time_basis, &dataset);
    if (err == CREMA_OK && table->final_chunk_rows > 0) {
        err = sink_h5_write_chunks(self, table, dataset, rows, n);
    } else if (err == CREMA_OK && n > 0) {
        hid_t type = sink_h5_row_type(table);
        if (type < 0 || !s_write(dataset, type, 0, n, rows))
            err = sink_h5_fail(self, "write rows of", table->path);
        H5Tclose(type);
    }
    if (dataset >= 0 && H5Dclose(dataset) < 0 && err == CREMA_OK)
        err = sink_h5_fail(self, "close table", table->path);
    return err;
}

crema_err_t
sink_h5_set_lost(sink_h5_t *self, const crema_table_t *table, int64_t n_rows_lost)
{
    hid_t dataset = H5Dopen2(self->file, table->path, H5P_DEFAULT);
    hid_t attribute = dataset < 0 ? -1 : H5Aopen(dataset, "n_rows_lost", H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT64, &n_rows_lost) >= 0;
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "describe table", table->path);
    H5Aclose(attribute);
    H5Dclose(dataset);
    return err;
}
