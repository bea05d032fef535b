#include "sink_export.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink_fs.h"
#include "sink_segments.h"
#include "sink_store_private.h"

/* ---- the target directory */

static bool
s_is_empty(const char *dir)
{
    DIR *stream = opendir(dir);
    struct dirent *entry;
    bool empty = stream != NULL;
    while (empty && (entry = readdir(stream)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (stream)
        closedir(stream);
    return empty;
}

/* Makes the directory a store with this identity, unless it already is. CREMA_EINVAL: it holds
 * something else. */
static crema_err_t
s_prepare(const char *to, const crema_id_t *store_id, char *ret_why, size_t why_size)
{
    crema_id_t theirs;
    crema_err_t err = sink_fs_make_dir(to);
    if (err == CREMA_OK)
        err = sink_store_identity(to, &theirs);
    if (err == CREMA_ENOENT && s_is_empty(to))
        return sink_store_make(to, store_id);
    if (err == CREMA_OK && crema_id_equal(&theirs, store_id))
        return CREMA_OK;
    if (err == CREMA_OK)
        snprintf(ret_why, why_size,
                 "%s is another store, in which a journal of this one counts as foreign: give a "
                 "directory that is empty or holds what was exported before",
                 to);
    else if (err == CREMA_ENOENT || err == CREMA_EMAGIC)
        snprintf(ret_why, why_size, "%s holds something else: give a directory of its own", to);
    else
        return err;
    return CREMA_EINVAL;
}

/* ---- copying */

static crema_err_t
s_copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    if (!sink_fs_fits(from_dir, strlen(name)))
        return sink_fs_error(errno);
    crema_err_t err =
        sink_fs_read(sink_fs_path(from_dir, name, path), SINK_SEGMENT_BYTES_MAX, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    err = sink_fs_replace(to_dir, name, bytes, size);
    free(bytes);
    return err;
}

/* In ascending order: if a sink is appending to the last segment, the copy is the journal as it
 * was at one moment. */
static crema_err_t
s_copy_segments(const char *from_dir, const char *to_dir)
{
    sink_segments_t found;
    char path[PATH_MAX];
    crema_err_t err = sink_segments_find(from_dir, &found);
    if (err != CREMA_OK)
        return err;
    for (size_t i = 0; i < found.n && err == CREMA_OK; i++)
        err = s_copy_file(from_dir, to_dir,
                          sink_segments_path("", found.numbers[i], path) + strlen("/"));
    free(found.numbers);
    return err == CREMA_OK && found.n == 0 ? CREMA_ENOENT : err;
}

static bool
s_ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Copies the answer to RUN_SEAL and the segments set aside, which rebuilding counts. */
static crema_err_t
s_copy_others(const char *from_dir, const char *to_dir)
{
    DIR *stream = opendir(from_dir);
    if (!stream)
        return sink_fs_error(errno);
    crema_err_t err = CREMA_OK;
    struct dirent *entry;
    while (err == CREMA_OK && (errno = 0, entry = readdir(stream)))
        if (strcmp(entry->d_name, SINK_STORE_ANSWER) == 0 ||
            s_ends_with(entry->d_name, SINK_SEGMENT_TORN) ||
            s_ends_with(entry->d_name, SINK_SEGMENT_DAMAGED))
            err = s_copy_file(from_dir, to_dir, entry->d_name);
    if (err == CREMA_OK && errno != 0)
        err = sink_fs_error(errno);
    closedir(stream);
    return err;
}

/* Copies under a temporary name and renames at the end; what a killed process left is
 * overwritten. */
static crema_err_t
s_copy(const char *from_dir, const char *to, const char *name, const char *to_dir)
{
    char hidden_name[64], hidden[PATH_MAX];
    snprintf(hidden_name, sizeof hidden_name, ".%s.part", name);
    crema_err_t err = sink_fs_make_dir(sink_fs_path(to, hidden_name, hidden));
    if (err == CREMA_OK)
        err = s_copy_segments(from_dir, hidden);
    if (err == CREMA_OK)
        err = s_copy_others(from_dir, hidden);
    if (err == CREMA_OK && rename(hidden, to_dir) != 0)
        err = sink_fs_error(errno);
    if (err == CREMA_OK)
        return sink_fs_sync_dir(to);
    int why = errno;
    sink_store_remove_dir(hidden);
    errno = why;
    return err;
}

static crema_err_t
s_export(const char *from_dir, const char *to, const crema_id_t *store_id, const char *name,
         const char *to_dir, char *ret_why, size_t why_size)
{
    int lock = -1;
    struct stat st;
    crema_err_t err = s_prepare(to, store_id, ret_why, why_size);
    if (err == CREMA_OK)
        err = sink_store_lock(to, &lock);
    if (err == CREMA_EBUSY)
        snprintf(ret_why, why_size,
                 "the store %s is in use by a crema-sink: give another directory", to);
    if (err == CREMA_OK && stat(to_dir, &st) == 0) {
        snprintf(ret_why, why_size, "%s already exists: remove it, or give another directory",
                 to_dir);
        err = CREMA_EINVAL;
    }
    if (err == CREMA_OK)
        err = s_copy(from_dir, to, name, to_dir);
    if (lock >= 0) {
        int why = errno;
        close(lock);
        errno = why;
    }
    return err;
}

crema_err_t
sink_export(const char *store, const crema_id_t *run_id, const char *to, char ret_path[PATH_MAX],
            char *ret_why, size_t why_size)
{
    crema_id_t store_id;
    char from_dir[PATH_MAX], name[37];
    struct stat st;
    crema_err_t err = sink_store_identify(store, &store_id, ret_why, why_size);
    if (err != CREMA_OK)
        return err;
    crema_id_uuid(run_id, name);
    if (!sink_fs_fits(to, SINK_FS_BELOW_BYTES)) {
        err = sink_fs_error(errno);
        snprintf(ret_why, why_size, "run %s cannot be copied to %.256s...: %s", name, to,
                 sink_fs_why(err));
        return err;
    }
    sink_fs_path(to, name, ret_path);
    if (stat(sink_fs_path(store, name, from_dir), &st) != 0)
        err = sink_fs_error(errno);
    if (err == CREMA_ENOENT) {
        snprintf(ret_why, why_size,
                 "the store %s has no journal of run %s: crema-sink store %s lists what it has",
                 store, name, store);
        return err;
    }
    ret_why[0] = '\0';
    errno = 0;
    if (err == CREMA_OK)
        err = s_export(from_dir, to, &store_id, name, ret_path, ret_why, why_size);
    if (err != CREMA_OK && !ret_why[0])
        snprintf(ret_why, why_size, "run %s could not be copied from %s to %s: %s", name, store, to,
                 sink_fs_why(err));
    return err;
}
