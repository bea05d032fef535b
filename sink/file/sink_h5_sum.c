/* Checksums of a run file: of the rows of its tables, of its grid, and of its attributes. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_h5_impl.h"
#include "sink_payload.h"

#define DATASETS_MAX 256
#define PATH_BYTES 256
#define BLOCK_BYTES ((size_t)1 << 20)

/* ---- values */

/* Adds texts with their NUL, and anything else as stored; frees texts of variable length. */
static void
s_add_values(sink_payload_t *sum, hid_t type, size_t n, const uint8_t *values)
{
    const size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) <= 0) {
        sink_payload_add(sum, values, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        char *text;
        memcpy(&text, values + i * size, size);
        sink_payload_add(sum, text ? text : "", text ? strlen(text) + 1 : 1);
        H5free_memory(text);
    }
}

/* ---- rows of tables, and the grid */

typedef struct {
    bool tables; /* or all other datasets */
    char paths[DATASETS_MAX][PATH_BYTES];
    size_t n;
} paths_t;

static bool
s_is_table(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    bool is = H5Tget_class(type) == H5T_COMPOUND && H5Sget_simple_extent_ndims(space) == 1;
    H5Sclose(space);
    H5Tclose(type);
    return is;
}

static herr_t
s_collect_path(hid_t root, const char *path, const H5O_info_t *info, void *context)
{
    paths_t *paths = context;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t dataset = H5Dopen2(root, path, H5P_DEFAULT);
    if (dataset < 0)
        return -1;
    const bool is = s_is_table(dataset);
    H5Dclose(dataset);
    if (is != paths->tables)
        return 0;
    if (paths->n == DATASETS_MAX || strlen(path) >= PATH_BYTES)
        return -1;
    strcpy(paths->paths[paths->n++], path);
    return 0;
}

static int
s_by_path(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Digests the rows along the first dimension, including columns of newer versions. */
static bool
s_digest_rows(hid_t dataset, hid_t type, hid_t space, sink_payload_t *sum, uint8_t *block)
{
    hsize_t size[H5S_MAX_RANK], first[H5S_MAX_RANK] = {0}, row_values = 1;
    const int rank = H5Sget_simple_extent_dims(space, size, NULL);
    if (rank < 1)
        return false;
    for (int i = 1; i < rank; i++)
        row_values *= size[i];
    const hsize_t rows = row_values > 0 ? size[0] : 0;
    const hsize_t most = rows > 0 ? BLOCK_BYTES / (row_values * H5Tget_size(type)) : 0;
    bool good = rows == 0 || most > 0;
    for (; good && first[0] < rows; first[0] += size[0]) {
        size[0] = rows - first[0] < most ? rows - first[0] : most;
        hid_t memory = H5Screate_simple(rank, size, NULL);
        good = H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, size, NULL) >= 0 &&
               H5Dread(dataset, type, memory, space, H5P_DEFAULT, block) >= 0;
        H5Sclose(memory);
        if (good)
            s_add_values(sum, type, size[0] * row_values, block);
    }
    return good;
}

static bool
s_digest_dataset(hid_t file, const char *path, sink_payload_t *sum, uint8_t *block)
{
    hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
    if (dataset < 0)
        return false;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    const bool good = s_digest_rows(dataset, type, space, sum, block);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return good;
}

static crema_err_t
s_sum_datasets(sink_h5_t *self, bool tables, uint8_t sha256[SINK_PAYLOAD_BYTES])
{
    paths_t *paths = calloc(1, sizeof *paths);
    uint8_t *block = malloc(BLOCK_BYTES);
    sink_payload_t *sum = NULL;
    crema_err_t err = paths && block ? sink_payload_new(&sum) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        free(paths);
        free(block);
        return err;
    }
    const char *bad = NULL;
    paths->tables = tables;
    if (H5Ovisit(self->file, H5_INDEX_NAME, H5_ITER_NATIVE, s_collect_path, paths) < 0)
        bad = tables ? "the tables" : "/grid";
    qsort(paths->paths, paths->n, PATH_BYTES, s_by_path);
    for (size_t i = 0; i < paths->n && !bad; i++)
        if (!s_digest_dataset(self->file, paths->paths[i], sum, block))
            bad = paths->paths[i];
    sink_payload_end(&sum, sha256);
    if (bad)
        err = sink_h5_fail(self, "read", bad);
    free(block);
    free(paths);
    return err;
}

crema_err_t
sink_h5_payload(sink_h5_t *self, uint8_t sha256[SINK_PAYLOAD_BYTES])
{
    return s_sum_datasets(self, true, sha256);
}

crema_err_t
sink_h5_grid_sum(sink_h5_t *self, uint8_t sha256[SINK_PAYLOAD_BYTES])
{
    return s_sum_datasets(self, false, sha256);
}

/* ---- attributes */

/* References between datasets are HDF5's own and left out. */
static bool
s_digest_values(hid_t attribute, hid_t type, size_t n, sink_payload_t *sum)
{
    const H5T_class_t class = H5Tget_class(type);
    if (n == 0 || (class != H5T_STRING && class != H5T_INTEGER && class != H5T_FLOAT))
        return true;
    uint8_t *values = calloc(n, H5Tget_size(type));
    const bool good = values && H5Aread(attribute, type, values) >= 0;
    if (good)
        s_add_values(sum, type, n, values);
    free(values);
    return good;
}

static herr_t
s_digest_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    (void)info;
    sink_payload_t *sum = context;
    if (strcmp(name, SINK_H5_ATTRIBUTES_SUM) == 0 || strcmp(name, "created_utc") == 0)
        return 0;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0)
        return -1;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    sink_payload_add(sum, name, strlen(name) + 1);
    const bool good = n >= 0 && s_digest_values(attribute, type, (size_t)n, sum);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return good ? 0 : -1;
}

static herr_t
s_digest_object(hid_t root, const char *path, const H5O_info_t *info, void *context)
{
    (void)info;
    hid_t object = H5Oopen(root, path, H5P_DEFAULT);
    if (object < 0)
        return -1;
    sink_payload_add(context, path, strlen(path) + 1);
    const herr_t done =
        H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, s_digest_attribute, context);
    H5Oclose(object);
    return done;
}

crema_err_t
sink_h5_attributes_sum(sink_h5_t *self, uint8_t sha256[SINK_PAYLOAD_BYTES])
{
    sink_payload_t *sum;
    crema_err_t err = sink_payload_new(&sum);
    if (err != CREMA_OK)
        return err;
    if (H5Ovisit(self->file, H5_INDEX_NAME, H5_ITER_INC, s_digest_object, sum) < 0)
        err = sink_h5_fail(self, "read", "the attributes");
    sink_payload_end(&sum, sha256);
    return err;
}

static crema_err_t
s_write_sum(sink_h5_t *self, crema_err_t (*compute)(sink_h5_t *, uint8_t *), const char *attribute)
{
    uint8_t sha256[SINK_PAYLOAD_BYTES];
    char text[2 * SINK_PAYLOAD_BYTES + 1];
    crema_err_t err = compute(self, sha256);
    if (err != CREMA_OK)
        return err;
    sink_payload_hex(sha256, text);
    if (H5Adelete(self->file, attribute) < 0 || !sink_h5_put_text(self->file, attribute, text))
        return sink_h5_fail(self, "write attribute", attribute);
    return CREMA_OK;
}

crema_err_t
sink_h5_write_sums(sink_h5_t *self)
{
    crema_err_t err = s_write_sum(self, sink_h5_grid_sum, SINK_H5_GRID_SUM);
    return err == CREMA_OK ? s_write_sum(self, sink_h5_attributes_sum, SINK_H5_ATTRIBUTES_SUM)
                           : err;
}
