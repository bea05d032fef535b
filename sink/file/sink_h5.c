/* Creates, flushes and closes files. */
#include "sink_h5.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sink_fs.h"
#include "sink_h5_impl.h"

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "a handle fits");

#define PAGE_BYTES 4096
#define CACHE_SLOTS 1009
#define CACHE_BYTES ((size_t)32 << 20)

crema_err_t
sink_h5_new(const char *path, sink_h5_t **ret_self)
{
    sink_h5_prepare();
    sink_h5_t *self = calloc(1, sizeof *self);
    char *copy = strdup(path);
    if (!self || !copy) {
        free(self);
        free(copy);
        return CREMA_ENOMEM;
    }
    self->path = copy;
    self->file = -1;
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        self->tables[i] = self->types[i] = -1;
    for (int i = 0; i < SINK_H5_GRID_MAX; i++)
        self->grid[i] = -1;
    *ret_self = self;
    return CREMA_OK;
}

const char *
sink_h5_why(const sink_h5_t *self)
{
    return self->why;
}

/* ---- creating */

crema_err_t
sink_h5_give_up(sink_h5_t **self_p, crema_err_t err, char *ret_why)
{
    snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", (*self_p)->why);
    crema_err_t ignored = sink_h5_close(self_p, NULL);
    (void)ignored;
    return err;
}

bool
sink_h5_set_locks(hid_t access, int fd)
{
    const bool has_locks = flock(fd, LOCK_SH | LOCK_NB) == 0 || errno == EWOULDBLOCK;
    (void)flock(fd, LOCK_UN);
    return has_locks || H5Pset_file_locking(access, false, true) >= 0;
}

/* Creates the file before HDF5 sees it and passes it by descriptor: HDF5 itself would follow
 * links and write to an existing file. */
static hid_t
s_create_fresh(sink_h5_t *self, hid_t create, hid_t access, crema_err_t *ret_err)
{
    char name[32];
    int fd;
    *ret_err = sink_fs_create_fresh(self->path, &fd);
    if (*ret_err != CREMA_OK) {
        snprintf(self->why, sizeof self->why, "could not make %s: %s", self->path,
                 *ret_err == CREMA_EBUSY ? "another process keeps creating a file of that name"
                                         : strerror(errno));
        return -1;
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    hid_t file =
        sink_h5_set_locks(access, fd) ? H5Fcreate(name, H5F_ACC_TRUNC, create, access) : -1;
    if (file < 0)
        *ret_err = sink_h5_fail(self, "make", self->path);
    close(fd);
    return file;
}

/* Sets format bounds, cache and, for a live file, paging: without these the index may be torn
 * when the writer is killed. */
static crema_err_t
s_create_file(sink_h5_t *self, bool live)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
    crema_err_t err = CREMA_EH5;
    bool good = access >= 0 && create >= 0;
    /* rows of a live file go straight to it: in the cache, a flush would write their whole chunk */
    good = good && H5Pset_cache(access, 0, CACHE_SLOTS, live ? 0 : CACHE_BYTES, 0.75) >= 0;
    good = good && H5Pset_libver_bounds(access, live ? H5F_LIBVER_V110 : H5F_LIBVER_EARLIEST,
                                        H5F_LIBVER_V110) >= 0;
    if (live) {
        good = good &&
               H5Pset_file_space_strategy(create, H5F_FSPACE_STRATEGY_PAGE, 0, (hsize_t)1) >= 0;
        good = good && H5Pset_file_space_page_size(create, PAGE_BYTES) >= 0;
    } else {
        good = good && H5Pset_link_creation_order(create, H5P_CRT_ORDER_TRACKED |
                                                              H5P_CRT_ORDER_INDEXED) >= 0;
        good = good && H5Pset_attr_creation_order(create, H5P_CRT_ORDER_TRACKED |
                                                              H5P_CRT_ORDER_INDEXED) >= 0;
        good = good && H5Pset_fclose_degree(access, H5F_CLOSE_SEMI) >= 0;
    }
    if (good)
        self->file = s_create_fresh(self, create, access, &err);
    else
        err = sink_h5_fail(self, "make", self->path);
    H5Pclose(access);
    H5Pclose(create);
    return err;
}

crema_err_t
sink_h5_create_final(const char *path, sink_h5_t **ret_self, char *ret_why)
{
    sink_h5_t *self = NULL;
    crema_err_t err = sink_h5_new(path, &self);
    if (err != CREMA_OK)
        return err;
    err = s_create_file(self, false);
    if (err != CREMA_OK)
        return sink_h5_give_up(&self, err, ret_why);
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_h5_create_live(const char *path, const sink_attributes_t *attributes, sink_h5_t **ret_self,
                    char *ret_why)
{
    sink_h5_t *self = NULL;
    crema_err_t err = sink_h5_new(path, &self);
    if (err != CREMA_OK)
        return err;
    self->live = true;
    err = s_create_file(self, true);
    if (err != CREMA_OK)
        return sink_h5_give_up(&self, err, ret_why);
    err = sink_h5_write_attributes(self, attributes);
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        if (table->kind != CREMA_KIND_SUMMARY)
            err = sink_h5_make_table(self, table, 0, "source", &self->tables[t]);
    }
    if (err == CREMA_OK && H5Fstart_swmr_write(self->file) < 0)
        err = sink_h5_fail(self, "enable SWMR for", path);
    if (err != CREMA_OK)
        return sink_h5_give_up(&self, err, ret_why);
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_h5_flush(sink_h5_t *self)
{
    if (H5Fflush(self->file, H5F_SCOPE_GLOBAL) < 0)
        return sink_h5_fail(self, "flush", self->path);
    return CREMA_OK;
}

crema_err_t
sink_h5_close(sink_h5_t **self_p, char *ret_why)
{
    sink_h5_t *self = *self_p;
    if (!self)
        return CREMA_OK;
    bool good = true;
    for (int i = 0; i < CREMA_TABLE_COUNT; i++) {
        if (self->tables[i] >= 0)
            good = H5Dclose(self->tables[i]) >= 0 && good;
        if (self->types[i] >= 0)
            good = H5Tclose(self->types[i]) >= 0 && good;
    }
    for (int i = 0; i < SINK_H5_GRID_MAX; i++)
        if (self->grid[i] >= 0)
            good = H5Dclose(self->grid[i]) >= 0 && good;
    if (self->file >= 0)
        good = H5Fclose(self->file) >= 0 && good;
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "close", self->path);
    if (ret_why)
        snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", self->why);
    free(self->path);
    free(self);
    *self_p = NULL;
    return err;
}
