/* Creates, flushes and closes files, and keeps the reason of a failure. */
#include "sink_h5.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink_fs.h"
#include "sink_h5_impl.h"

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "a handle fits");

#define PAGE_BYTES 4096
#define CACHE_SLOTS 1009
#define CACHE_BYTES ((size_t)32 << 20)

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

/* ---- failures */

#ifdef H5E_ATOM
#define MAJOR_HANDLES H5E_ATOM
#else
#define MAJOR_HANDLES H5E_ID /* its name from 1.14 on */
#endif

/* The reason of the library's last failure. HDF5 forgets it with the next call, even one that
 * closes something, so it is saved at once. */
typedef struct {
    char text[256]; /* empty: nothing failed since the last request */
    int error;      /* errno; 0 if the system did not cause it */
} reason_t;

static const char c_errno[] = "errno = ";

/* Walking down, the innermost entry comes last; a system error is part of its text. */
static herr_t
s_collect_reason(unsigned n, const H5E_error2_t *error, void *context)
{
    reason_t *reason = context;
    const char *at = error->desc ? strstr(error->desc, c_errno) : NULL;
    (void)n;
    if (error->desc && error->desc[0])
        snprintf(reason->text, sizeof reason->text, "%s", error->desc);
    if (at)
        reason->error = (int)strtol(at + sizeof c_errno - 1, NULL, 10);
    return 0;
}

static herr_t
s_is_about_handles(unsigned n, const H5E_error2_t *error, void *context)
{
    (void)n;
    if (error->maj_num == H5E_ARGS || error->maj_num == MAJOR_HANDLES)
        *(bool *)context = true;
    return 0;
}

/* HDF5 calls this for each of its functions that fails. Follow-ups of a system error, and
 * closing a handle that was never opened, are ignored. */
static herr_t
s_on_failure(hid_t stack, void *context)
{
    reason_t *reason = context, found = {"", 0};
    bool about_handles = false;
    H5Ewalk2(stack, H5E_WALK_DOWNWARD, s_collect_reason, &found);
    H5Ewalk2(stack, H5E_WALK_DOWNWARD, s_is_about_handles, &about_handles);
    if (found.error || (!reason->error && (!about_handles || !reason->text[0])))
        *reason = found;
    return 0;
}

void
sink_h5_prepare(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
    H5dont_atexit(); /* HDF5 crashes at exit on a file it could not close; all others are closed by then */
    H5open();
    H5Eset_auto2(H5E_DEFAULT, s_on_failure, calloc(1, sizeof(reason_t)));
}

/* Returns the saved reason and clears it. */
static reason_t
s_take_reason(void)
{
    H5E_auto2_t function;
    void *kept = NULL;
    reason_t reason = {"", 0};
    if (H5Eget_auto2(H5E_DEFAULT, &function, &kept) >= 0 && kept) {
        reason = *(reason_t *)kept;
        *(reason_t *)kept = (reason_t){"", 0};
    }
    if (reason.error)
        snprintf(reason.text, sizeof reason.text, "%s", strerror(reason.error));
    else if (!reason.text[0])
        snprintf(reason.text, sizeof reason.text, "an error in HDF5 %s", sink_h5_version());
    return reason;
}

crema_err_t
sink_h5_fail(sink_h5_t *self, const char *what, const char *which)
{
    reason_t reason = s_take_reason();
    bool is_file = strcmp(which, self->path) == 0;
    snprintf(self->why, sizeof self->why, "could not %s %s%s%s: %s", what, which,
             is_file ? "" : " in ", is_file ? "" : self->path, reason.text);
    return reason.error ? sink_fs_error(reason.error) : CREMA_EH5;
}

crema_err_t
sink_h5_new(const char *path, sink_h5_t **ret_self)
{
    sink_h5_prepare();
    sink_h5_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    snprintf(self->path, sizeof self->path, "%s", path);
    self->file = -1;
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        self->tables[i] = -1;
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

static crema_err_t
s_give_up(sink_h5_t **self_p, crema_err_t err, char *ret_why)
{
    snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", (*self_p)->why);
    crema_err_t ignored = sink_h5_close(self_p, NULL);
    (void)ignored;
    return err;
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
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, create, access);
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
        return s_give_up(&self, err, ret_why);
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
        return s_give_up(&self, err, ret_why);
    err = sink_h5_write_attributes(self, attributes);
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        if (table->kind != CREMA_KIND_SUMMARY)
            err = sink_h5_make_table(self, table, 0, 0, "source", &self->tables[t]);
    }
    if (err == CREMA_OK && H5Fstart_swmr_write(self->file) < 0)
        err = sink_h5_fail(self, "enable SWMR for", path);
    if (err != CREMA_OK)
        return s_give_up(&self, err, ret_why);
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
    for (int i = 0; i < CREMA_TABLE_COUNT; i++)
        if (self->tables[i] >= 0)
            good = H5Dclose(self->tables[i]) >= 0 && good;
    for (int i = 0; i < SINK_H5_GRID_MAX; i++)
        if (self->grid[i] >= 0)
            good = H5Dclose(self->grid[i]) >= 0 && good;
    if (self->file >= 0)
        good = H5Fclose(self->file) >= 0 && good;
    crema_err_t err = good ? CREMA_OK : sink_h5_fail(self, "close", self->path);
    if (ret_why)
        snprintf(ret_why, SINK_H5_WHY_BYTES, "%s", self->why);
    free(self);
    *self_p = NULL;
    return err;
}
