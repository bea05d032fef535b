/* Files: making, flushing, closing, and what went wrong. */
#include "sink_h5.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_h5_impl.h"

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "a handle fits");

#define PAGE_BYTES 4096
#define CACHE_SLOTS 1009
#define CACHE_BYTES ((size_t)32 << 20)

void
sink_h5_prepare(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
    H5open();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

const char *
sink_h5_version(void)
{
    static char text[32];
    unsigned major, minor, release;
    sink_h5_prepare();
    if (H5get_libversion(&major, &minor, &release) < 0)
        return "";
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}

crema_err_t
sink_h5_new(sink_h5_t **ret_self)
{
    sink_h5_prepare();
    sink_h5_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->file = -1;
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        self->tables[i] = -1;
    for (int i = 0; i < SINK_H5_GRID_MAX; i++)
        self->grid[i] = -1;
    *ret_self = self;
    return CREMA_OK;
}

/* ---- failures */

typedef struct {
    char text[256];
    bool full; /* the disk is */
} reason_t;

/* The innermost entry comes last on the way down; the system's error, if any, is in its text. */
static herr_t
s_collect_reason(unsigned n, const H5E_error2_t *error, void *context)
{
    reason_t *reason = context;
    (void)n;
    if (error->desc && error->desc[0])
        snprintf(reason->text, sizeof reason->text, "%s", error->desc);
    if (error->desc && strstr(error->desc, strerror(ENOSPC)))
        reason->full = true;
    return 0;
}

crema_err_t
sink_h5_fail(sink_h5_t *self, const char *what, const char *which)
{
    reason_t reason = {"the library gave no reason", false};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, s_collect_reason, &reason);
    H5Eclear2(H5E_DEFAULT);
    snprintf(self->why, sizeof self->why, "could not %s %s: %s", what, which, reason.text);
    return reason.full ? CREMA_ENOSPC : CREMA_EH5;
}

const char *
sink_h5_why(const sink_h5_t *self)
{
    return self->why;
}

/* ---- making */

static crema_err_t
s_give_up(sink_h5_t **self_p, crema_err_t err, char *ret_why)
{
    snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", (*self_p)->why);
    crema_err_t ignored = sink_h5_close(self_p, NULL);
    (void)ignored;
    return err;
}

/* Bounds, cache and, for a live file, pages: without them a killed writer leaves torn indexes now and then. */
static hid_t
s_create_file(const char *path, bool live)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
    hid_t file = -1;
    bool good = access >= 0 && create >= 0;
    good = good && H5Pset_cache(access, 0, CACHE_SLOTS, CACHE_BYTES, 0.75) >= 0;
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
        file = H5Fcreate(path, H5F_ACC_TRUNC, create, access);
    H5Pclose(access);
    H5Pclose(create);
    return file;
}

crema_err_t
sink_h5_create_final(const char *path, sink_h5_t **ret_self, char *ret_why)
{
    sink_h5_t *self = NULL;
    crema_err_t err = sink_h5_new(&self);
    if (err != CREMA_OK)
        return err;
    self->file = s_create_file(path, false);
    if (self->file < 0)
        return s_give_up(&self, sink_h5_fail(self, "make", path), ret_why);
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_h5_create_live(const char *path, const sink_attributes_t *attributes, sink_h5_t **ret_self,
                    char *ret_why)
{
    sink_h5_t *self = NULL;
    crema_err_t err = sink_h5_new(&self);
    if (err != CREMA_OK)
        return err;
    self->live = true;
    self->file = s_create_file(path, true);
    if (self->file < 0)
        return s_give_up(&self, sink_h5_fail(self, "make", path), ret_why);
    err = sink_h5_write_attributes(self, attributes);
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        if (table->kind != CREMA_KIND_SUMMARY)
            err = sink_h5_make_table(self, table, 0, 0, "source", &self->tables[t]);
    }
    if (err == CREMA_OK && H5Fstart_swmr_write(self->file) < 0)
        err = sink_h5_fail(self, "let readers into", path);
    if (err != CREMA_OK)
        return s_give_up(&self, err, ret_why);
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
sink_h5_flush(sink_h5_t *self)
{
    if (H5Fflush(self->file, H5F_SCOPE_GLOBAL) < 0)
        return sink_h5_fail(self, "flush", "the file");
    return CREMA_OK;
}

crema_err_t
sink_h5_close(sink_h5_t **self_p, char *ret_why)
{
    sink_h5_t *self = *self_p;
    if (!self)
        return CREMA_OK;
    bool good = true;
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        if (self->tables[i] >= 0)
            good = H5Dclose(self->tables[i]) >= 0 && good;
    for (int i = 0; i < SINK_H5_GRID_MAX; i++)
        if (self->grid[i] >= 0)
            good = H5Dclose(self->grid[i]) >= 0 && good;
    if (self->file >= 0)
        good = H5Fclose(self->file) >= 0 && good;
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "close", "the file");
    if (ret_why)
        snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", self->why);
    free(self);
    *self_p = NULL;
    return err;
}
