/* The library's own state: prepares it, and keeps the reason of a failure. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink_fs.h"
#include "sink_h5_impl.h"

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
    static reason_t reason;
    if (done)
        return;
    done = true;
    setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
    /* HDF5 crashes at exit on a file it could not close; all others are closed by then */
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, s_on_failure, &reason);
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
