/* Reads a run file back, and checks the tables against the contract. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink_h5_impl.h"

#define TEXTS_MAX 256
#define PATH_BYTES 256

/* Opens it for reading, with a lock if the file system has them. */
static hid_t
s_open(const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (access >= 0 && fd >= 0 && sink_h5_set_locks(access, fd))
        file = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (fd >= 0)
        close(fd);
    H5Pclose(access);
    return file;
}

crema_err_t
sink_h5_open(const char *path, sink_h5_t **ret_self, char *ret_why)
{
    sink_h5_t *self = NULL;
    crema_err_t err = sink_h5_new(path, &self);
    if (err != CREMA_OK)
        return err;
    htri_t is_hdf5 = H5Fis_hdf5(path);
    if (is_hdf5 <= 0) {
        err = sink_h5_fail(self, "open", path);
        if (is_hdf5 == 0 || err == CREMA_EH5)
            snprintf(self->why, sizeof self->why, "%s is not an HDF5 file", path);
        return sink_h5_give_up(&self, CREMA_EMAGIC, ret_why);
    }
    self->file = s_open(path);
    if (self->file < 0) {
        err = sink_h5_fail(self, "open", path);
        return sink_h5_give_up(&self, err, ret_why);
    }
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_h5_open_regular(const char *path, sink_h5_t **ret_self, char *ret_why)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        snprintf(ret_why, SINK_H5_WHY_BYTES, "%s is not a regular file", path);
        return CREMA_EMAGIC;
    }
    return sink_h5_open(path, ret_self, ret_why);
}

/* Opens a dataset at a path whose groups may be missing; negative if it does not exist. */
static hid_t
s_open_dataset(hid_t file, const char *path)
{
    char part[PATH_BYTES];
    const char *slash = strchr(path, '/');
    if (slash) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (H5Lexists(file, part, H5P_DEFAULT) <= 0)
            return -1;
    }
    if (H5Lexists(file, path, H5P_DEFAULT) <= 0)
        return -1;
    return H5Dopen2(file, path, H5P_DEFAULT);
}

/* ---- columns */

/* True if the file's compound type has the column with the expected type. */
static bool
s_has_column(hid_t type, const crema_column_t *column)
{
    hid_t member = sink_h5_member_type(type, column);
    if (member < 0)
        return false;
    hid_t ours = sink_h5_column_type(column);
    bool equal = ours >= 0 && H5Tequal(member, ours) > 0;
    if (!equal && column->type == CREMA_T_ENUM) /* newer files may have more labels */
        equal = H5Tget_class(member) == H5T_ENUM && H5Tget_nmembers(member) > H5Tget_nmembers(ours);
    H5Tclose(ours);
    H5Tclose(member);
    return equal;
}

crema_err_t
sink_h5_table(sink_h5_t *self, const crema_table_t *table, uint64_t *ret_rows, char *ret_why)
{
    hid_t dataset = s_open_dataset(self->file, table->path);
    if (dataset < 0) {
        H5Eclear2(H5E_DEFAULT);
        snprintf(ret_why, SINK_H5_WHY_BYTES, "/%s is missing", table->path);
        return CREMA_ENOENT;
    }
    crema_err_t err = CREMA_OK;
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t rows = 0;
    if (H5Tget_class(type) != H5T_COMPOUND || H5Sget_simple_extent_ndims(space) != 1) {
        snprintf(ret_why, SINK_H5_WHY_BYTES, "/%s is not a table", table->path);
        err = CREMA_EPROTO;
    } else {
        H5Sget_simple_extent_dims(space, &rows, NULL);
    }
    for (size_t i = 0; i < table->n_columns && err == CREMA_OK; i++) {
        if (table->columns[i].size == 0 || s_has_column(type, &table->columns[i]))
            continue;
        snprintf(ret_why, SINK_H5_WHY_BYTES, "/%s has no column %s of its type", table->path,
                 table->columns[i].name);
        err = CREMA_EPROTO;
    }
    H5Eclear2(H5E_DEFAULT);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    *ret_rows = rows;
    return err;
}

crema_err_t
sink_h5_read_rows(sink_h5_t *self, const crema_table_t *table, uint64_t first, uint64_t n,
                  uint8_t *rows)
{
    hsize_t start = first, count = n;
    hid_t dataset = s_open_dataset(self->file, table->path);
    hid_t stored = dataset < 0 ? -1 : H5Dget_type(dataset);
    hid_t type = stored < 0 ? -1 : sink_h5_row_type_of(table, stored);
    hid_t space = dataset < 0 ? -1 : H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(1, &count, NULL);
    bool good = dataset >= 0 && type >= 0 && space >= 0 &&
                H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0 &&
                H5Dread(dataset, type, memory, space, H5P_DEFAULT, rows) >= 0;
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "read rows of", table->path);
    H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(stored);
    H5Dclose(dataset);
    H5Eclear2(H5E_DEFAULT);
    return err;
}

/* ---- attributes of tables */

typedef struct {
    char *all[TEXTS_MAX];
    hssize_t n;
} texts_t;

static bool
s_read_texts(hid_t dataset, const char *name, texts_t *texts)
{
    *texts = (texts_t){.n = 0};
    if (H5Aexists(dataset, name) <= 0)
        return false;
    hid_t attribute = H5Aopen(dataset, name, H5P_DEFAULT);
    hid_t space = H5Aget_space(attribute), type = H5Aget_type(attribute);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    if (n > 0 && n <= TEXTS_MAX && H5Tis_variable_str(type) > 0 &&
        H5Aread(attribute, type, texts->all) >= 0)
        texts->n = n;
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(attribute);
    return texts->n > 0;
}

static void
s_free_texts(texts_t *texts)
{
    for (hssize_t i = 0; i < texts->n; i++)
        H5free_memory(texts->all[i]);
}

static bool
s_is(const texts_t *texts, hssize_t i, const char *text)
{
    return i < texts->n && texts->all[i] && strcmp(texts->all[i], text) == 0;
}

/* The attribute that does not describe the columns as they are, or NULL. */
static const char *
s_wrong_texts(hid_t dataset, const crema_table_t *table)
{
    texts_t names, units;
    hssize_t at = 0;
    const char *wrong = s_read_texts(dataset, "column_names", &names) ? NULL : "column_names";
    if (!s_read_texts(dataset, "column_units", &units) && !wrong)
        wrong = "column_units";
    for (size_t i = 0; i < table->n_columns && !wrong; i++) {
        if (table->columns[i].size == 0)
            continue;
        while (at < names.n && !s_is(&names, at, table->columns[i].name))
            at++; /* a newer file has more columns in between */
        if (at == names.n)
            wrong = "column_names";
        else if (!s_is(&units, at, table->columns[i].units))
            wrong = "column_units";
    }
    s_free_texts(&names);
    s_free_texts(&units);
    return wrong;
}

crema_err_t
sink_h5_table_attributes(sink_h5_t *self, const crema_table_t *table, char *ret_why)
{
    static const char *const texts[] = {"description", "sort_key", "time_basis"};
    hid_t dataset = s_open_dataset(self->file, table->path);
    const char *missing = NULL;
    if (dataset < 0)
        return CREMA_ENOENT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !missing; i++) {
        hid_t attribute = sink_h5_open_attribute(dataset, texts[i], H5T_STRING);
        if (attribute < 0)
            missing = texts[i];
        else
            H5Aclose(attribute);
    }
    if (!missing && H5Aexists(dataset, "column_desc") <= 0)
        missing = "column_desc";
    if (!missing)
        missing = s_wrong_texts(dataset, table);
    hid_t lost = sink_h5_open_attribute(dataset, "n_rows_lost", H5T_INTEGER);
    if (!missing && lost < 0)
        missing = "n_rows_lost";
    if (lost >= 0)
        H5Aclose(lost);
    H5Dclose(dataset);
    H5Eclear2(H5E_DEFAULT);
    if (!missing)
        return CREMA_OK;
    snprintf(ret_why, SINK_H5_WHY_BYTES, "/%s: attribute %s is missing or wrong", table->path,
             missing);
    return CREMA_EPROTO;
}
