/* chain_limit - what the chain is held against: the same samples appended to four HDF5 columns, or
 * to a plain file, by one process and nothing else.
 *
 *   chain_limit columns|compound|write FILE ROWS BATCH
 *
 * A sample is 24 bytes: time, value, two dictionary rows. Columns and compound table are written
 * as a live file's would be: latest format, paged, uncompressed, chunks of 4,096 rows, one flush
 * at the end. Prints `rows R wall_s W cpu_s C`. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hdf5.h>

#include "crema_clock.h"

#define CHUNK_ROWS 4096
#define COLUMNS 4

typedef struct {
    int64_t t_ns;
    double value;
    uint32_t metric_id, worker_id;
} sample_t;

static hid_t
s_create_file(const char *path)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5Pset_file_space_strategy(fcpl, H5F_FSPACE_STRATEGY_PAGE, 0, 1);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return file;
}

static hid_t
s_create_table(hid_t file, const char *name, hid_t type)
{
    const hsize_t none = 0, chunk = CHUNK_ROWS, unlimited = H5S_UNLIMITED;
    hid_t space = H5Screate_simple(1, &none, &unlimited), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, &chunk);
    hid_t table = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Pclose(dcpl);
    H5Sclose(space);
    return table;
}

static herr_t
s_append(hid_t table, hid_t type, hsize_t at, hsize_t rows, const void *data)
{
    const hsize_t end = at + rows;
    H5Dset_extent(table, &end);
    hid_t space = H5Dget_space(table), memory = H5Screate_simple(1, &rows, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &rows, NULL);
    herr_t rc = H5Dwrite(table, type, memory, space, H5P_DEFAULT, data);
    H5Sclose(memory);
    H5Sclose(space);
    return rc;
}

static hid_t
s_sample_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(sample_t));
    H5Tinsert(type, "t_ns", HOFFSET(sample_t, t_ns), H5T_NATIVE_INT64);
    H5Tinsert(type, "value", HOFFSET(sample_t, value), H5T_NATIVE_DOUBLE);
    H5Tinsert(type, "metric_id", HOFFSET(sample_t, metric_id), H5T_NATIVE_UINT32);
    H5Tinsert(type, "worker_id", HOFFSET(sample_t, worker_id), H5T_NATIVE_UINT32);
    return type;
}

static bool
s_write_compound(const char *path, hsize_t rows, hsize_t batch, const sample_t *samples)
{
    hid_t file = s_create_file(path), type = s_sample_type();
    hid_t table = s_create_table(file, "samples", type);
    herr_t rc = 0;
    for (hsize_t at = 0; at < rows && rc >= 0; at += batch)
        rc = s_append(table, type, at, rows - at < batch ? rows - at : batch, samples);
    H5Dclose(table);
    H5Tclose(type);
    return rc >= 0 && H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && H5Fclose(file) >= 0;
}

static bool
s_write_columns(const char *path, hsize_t rows, hsize_t batch, const sample_t *samples)
{
    static const char *const c_names[COLUMNS] = {"t_ns", "value", "metric_id", "worker_id"};
    const hid_t types[COLUMNS] = {H5T_NATIVE_INT64, H5T_NATIVE_DOUBLE, H5T_NATIVE_UINT32,
                                  H5T_NATIVE_UINT32};
    hid_t file = s_create_file(path), columns[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        columns[i] = s_create_table(file, c_names[i], types[i]);
    herr_t rc = 0;
    /* The bytes of the samples serve as any column's: what is in them costs nothing without a
     * filter. */
    for (hsize_t at = 0; at < rows && rc >= 0; at += batch)
        for (int i = 0; i < COLUMNS && rc >= 0; i++)
            rc = s_append(columns[i], types[i], at, rows - at < batch ? rows - at : batch, samples);
    for (int i = 0; i < COLUMNS; i++)
        H5Dclose(columns[i]);
    return rc >= 0 && H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && H5Fclose(file) >= 0;
}

static bool
s_write_plain(const char *path, hsize_t rows, hsize_t batch, const sample_t *samples)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (hsize_t at = 0; at < rows && good; at += batch) {
        size_t bytes = (size_t)(rows - at < batch ? rows - at : batch) * sizeof *samples;
        good = write(fd, samples, bytes) == (ssize_t)bytes;
    }
    return fd >= 0 && close(fd) == 0 && good;
}

static double
s_cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *word;
        bool (*write)(const char *path, hsize_t rows, hsize_t batch, const sample_t *samples);
    } c_ways[] = {
        {"columns", s_write_columns}, {"compound", s_write_compound}, {"write", s_write_plain}};
    const long rows = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
    const long batch = argc == 5 ? strtol(argv[4], NULL, 10) : 0;
    for (size_t i = 0; rows > 0 && batch > 0 && i < sizeof c_ways / sizeof *c_ways; i++) {
        if (strcmp(argv[1], c_ways[i].word) != 0)
            continue;
        sample_t *samples = calloc((size_t)batch, sizeof *samples);
        const double cpu_s = s_cpu_s();
        const int64_t began_ns = crema_clock_mono_ns();
        bool good = samples && c_ways[i].write(argv[2], (hsize_t)rows, (hsize_t)batch, samples);
        printf("rows %ld wall_s %.6f cpu_s %.6f\n", rows,
               (double)(crema_clock_mono_ns() - began_ns) * 1e-9, s_cpu_s() - cpu_s);
        free(samples);
        return good ? 0 : 1;
    }
    fprintf(stderr, "usage: chain_limit columns|compound|write FILE ROWS BATCH\n");
    return 2;
}
