/* The runs that the store knows, and their directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "sink_fs.h"
#include "sink_segments.h"
#include "sink_store_private.h"

/* ---- runs */

sink_store_run_t *
sink_store_run(const sink_store_t *self, const crema_id_t *run_id)
{
    return crema_map_find(self->runs, run_id);
}

crema_err_t
sink_store_add_run(sink_store_t *self, const crema_id_t *run_id, sink_store_run_t **ret_run)
{
    crema_err_t err;
    sink_store_run_t *run = crema_map_make(self->runs, run_id, sizeof *run, &err);
    if (!run)
        return err;
    run->shown.run_id = *run_id;
    crema_list_append(&self->unread, &run->unread);
    *ret_run = run;
    return CREMA_OK;
}

bool
sink_store_is_freed(const sink_store_t *self, const crema_id_t *run_id)
{
    return sink_ids_has(&self->freed, run_id);
}

bool
sink_store_is_over(const sink_run_t *run)
{
    crema_life_t closed;
    return run->state.revision > 0 && !run->state.late &&
           crema_life_step(run->state.life, CREMA_LIFE_AGE, &closed) == CREMA_OK;
}

bool
sink_store_is_unsynced(const sink_store_run_t *run)
{
    return run->job.busy || crema_list_is_linked(&run->dirty);
}

/* ---- their directories */

char *
sink_store_run_dir(const sink_store_t *self, const crema_id_t *run_id, char ret_path[PATH_MAX])
{
    char name[37];
    return sink_fs_path(self->dir, crema_id_uuid(run_id, name), ret_path);
}

/* True for what could not be read, and may be some day. */
static bool
s_stays(int dir, const char *name)
{
    const char *suffix = strchr(name, '.');
    if (!suffix)
        return false;
    if (strcmp(suffix, SINK_SEGMENT_DAMAGED) == 0 || strcmp(suffix, SINK_SEGMENT_UNREAD) == 0)
        return true;
    if (strcmp(suffix, SINK_SEGMENT) != 0)
        return false;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == EACCES;
}

void
sink_store_remove_dir(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream)
        return;
    struct dirent *entry;
    while ((entry = readdir(stream))) {
        if (s_stays(dirfd(stream), entry->d_name))
            continue;
        crema_failpoint("sink.before_journal_unlink");
        (void)unlinkat(dirfd(stream), entry->d_name, 0); /* does not remove directories */
        crema_failpoint("sink.after_journal_unlink");
    }
    closedir(stream);
    crema_failpoint("sink.before_journal_rmdir");
    (void)rmdir(path);
}

void
sink_store_begin_job(sink_store_t *self, sink_store_job_t *job, void (*work)(void *context),
                     void *context, sink_store_end_fn *end)
{
    *job = (sink_store_job_t){.sync = {.fn = work, .context = context}, .busy = true, .end = end};
    sink_syncs_begin(self->syncs, &job->sync);
}

void
sink_store_tell(sink_store_t *self, int type, const crema_id_t *run_id, const char *format, ...)
{
    char text[PATH_MAX + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const sink_store_event_t event = {.type = type, .run_id = *run_id, .text = text};
    if (self->config.on_event)
        self->config.on_event(self->config.context, &event);
}
