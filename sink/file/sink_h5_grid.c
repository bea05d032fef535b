/* /grid: variables over time and worker with dimension scales, which netCDF readers and xarray
 * load as one dataset. */
#include <hdf5.h>
#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sink_h5_impl.h"

#define GRID "grid"
#define CHUNK_WORKERS 64
#define CHUNK_TIMES 512
#define DEFLATE_LEVEL 4

static bool
s_tracked(hid_t create)
{
    unsigned flags = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    return create >= 0 && H5Pset_attr_creation_order(create, flags) >= 0;
}

static hid_t
s_make_group(hid_t file)
{
    unsigned flags = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    hid_t create = H5Pcreate(H5P_GROUP_CREATE), group = -1;
    if (s_tracked(create) && H5Pset_link_creation_order(create, flags) >= 0)
        group = H5Gcreate2(file, GRID, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Pclose(create);
    return group;
}

/* Creates a dataset of `rank` dimensions; with more than one value per row it is chunked and
 * compressed. */
static hid_t
s_make(hid_t group, const char *name, hid_t type, int rank, const hsize_t *size, bool fill)
{
    double nothing = NAN;
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, size, NULL);
    hid_t dataset = -1;
    bool good = s_tracked(create) && space >= 0 && H5Pset_obj_track_times(create, false) >= 0;
    if (fill) {
        hsize_t chunk[2] = {size[0], size[rank - 1]};
        hsize_t most[2] = {rank == 2 ? CHUNK_WORKERS : CHUNK_TIMES, CHUNK_TIMES};
        for (int i = 0; i < rank; i++)
            if (chunk[i] > most[i])
                chunk[i] = most[i];
        good = good && H5Pset_fill_value(create, H5T_NATIVE_DOUBLE, &nothing) >= 0;
        if (size[0] > 0 && size[rank - 1] > 0)
            good = good && H5Pset_chunk(create, rank, chunk) >= 0 && H5Pset_shuffle(create) >= 0 &&
                   H5Pset_deflate(create, DEFLATE_LEVEL) >= 0;
    }
    if (good)
        dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(create);
    return dataset;
}

static hid_t
s_make_time(hid_t group, const int64_t *times, uint64_t n)
{
    hsize_t size = n;
    hid_t dataset = s_make(group, "time", H5T_STD_I64LE, 1, &size, false);
    bool good = dataset >= 0 &&
                H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, times) >= 0;
    good = good && sink_h5_put_text(dataset, "units", "nanoseconds since 1970-01-01");
    good = good && sink_h5_put_text(dataset, "calendar", "proleptic_gregorian");
    good = good && sink_h5_put_text(dataset, "long_name", "start of the interval, UTC");
    good = good && H5DSset_scale(dataset, "time") >= 0;
    if (!good) {
        H5Dclose(dataset);
        return -1;
    }
    return dataset;
}

/* Labels are variable-length: netCDF-C crashes on fixed-length ones. */
static hid_t
s_make_worker(hid_t group, const char *const *workers, uint64_t n)
{
    hsize_t size = n;
    hid_t type = sink_h5_text_type();
    hid_t dataset = s_make(group, "worker", type, 1, &size, false);
    bool good = dataset >= 0 &&
                (n == 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, workers) >= 0);
    good = good && sink_h5_put_text(dataset, "long_name", "worker");
    good = good && H5DSset_scale(dataset, "worker") >= 0;
    H5Tclose(type);
    if (!good) {
        H5Dclose(dataset);
        return -1;
    }
    return dataset;
}

static bool
s_put_fill(hid_t dataset)
{
    double nothing = NAN;
    hsize_t one = 1;
    hid_t space = H5Screate_simple(1, &one, NULL);
    hid_t attribute =
        H5Acreate2(dataset, "_FillValue", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_DOUBLE, &nothing) >= 0;
    H5Aclose(attribute);
    H5Sclose(space);
    return good;
}

static hid_t
s_make_variable(hid_t group, const crema_grid_variable_t *variable, hid_t time, hid_t worker,
                uint64_t n_times, uint64_t n_workers)
{
    hsize_t both[2] = {n_workers, n_times}, line[1] = {n_times};
    int rank = variable->per_worker ? 2 : 1;
    hid_t dataset = s_make(group, variable->name, H5T_IEEE_F64LE, rank,
                           variable->per_worker ? both : line, true);
    bool good = dataset >= 0 && s_put_fill(dataset) &&
                sink_h5_put_text(dataset, "units", variable->units) &&
                sink_h5_put_text(dataset, "long_name", variable->long_name);
    if (variable->per_worker)
        good = good && H5DSattach_scale(dataset, worker, 0) >= 0 &&
               H5DSattach_scale(dataset, time, 1) >= 0;
    else
        good = good && H5DSattach_scale(dataset, time, 0) >= 0;
    if (!good) {
        H5Dclose(dataset);
        return -1;
    }
    return dataset;
}

crema_err_t
sink_h5_grid_begin(sink_h5_t *self, const int64_t *times, uint64_t n_times,
                   const char *const *workers, uint64_t n_workers,
                   const crema_grid_variable_t *variables, size_t n_variables)
{
    static const char *const axes[] = {"worker", "time"};
    if (n_variables > SINK_H5_GRID_MAX)
        return CREMA_ELIMIT;
    self->grid_times = n_times;
    hid_t group = s_make_group(self->file);
    hid_t time = group < 0 ? -1 : s_make_time(group, times, n_times);
    hid_t worker = group < 0 ? -1 : s_make_worker(group, workers, n_workers);
    bool good = group >= 0 && time >= 0 && worker >= 0;
    good = good && sink_h5_put_text(group, "NX_class", "NXdata");
    good = good && sink_h5_put_text(group, "signal", variables[0].name);
    good = good && sink_h5_put_texts(group, "axes", axes, 2);
    for (size_t i = 0; i < n_variables && good; i++) {
        self->grid[i] = s_make_variable(group, &variables[i], time, worker, n_times, n_workers);
        good = self->grid[i] >= 0;
    }
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "make", "/" GRID);
    H5Dclose(worker);
    H5Dclose(time);
    H5Gclose(group);
    return err;
}

crema_err_t
sink_h5_grid_put(sink_h5_t *self, size_t variable, uint64_t first, uint64_t n, const double *values)
{
    hid_t dataset = self->grid[variable];
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_ndims(space);
    hsize_t start[2] = {first, 0}, count[2] = {n, self->grid_times};
    if (rank == 1) {
        start[0] = 0;
        count[0] = self->grid_times;
    }
    hid_t memory = H5Screate_simple(rank, count, NULL);
    bool good = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) >= 0;
    H5Sclose(memory);
    H5Sclose(space);
    return good ? CREMA_OK : sink_h5_fail(self, "write", "/" GRID);
}
