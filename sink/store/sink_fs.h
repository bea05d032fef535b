/* sink_fs - the few file operations that durability depends on. */
#ifndef SINK_FS_H
#define SINK_FS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* Room that the names of this program need below a directory: a run's journal in a store, a live
 * file in an output directory. */
#define SINK_FS_BELOW_BYTES 128

/* True if a name of `below` bytes fits below the directory; else errno is ENAMETOOLONG. File
 * systems differ in what they say of a path that is too long, so none is asked: everything that
 * takes a directory from outside of this program, or makes a name, calls this first. */
bool sink_fs_fits(const char *dir, size_t below);

/* Returns `out`, which becomes `<dir>/<name>`; it must fit. */
char *sink_fs_path(const char *dir, const char *name, char out[PATH_MAX]);

/* Makes one directory (mode 0700); an existing one is not an error. */
CREMA_MUST_CHECK crema_err_t sink_fs_make_name(const char *path);
/* Makes its name durable, or that of a file; skipped below a directory that we may not read. */
CREMA_MUST_CHECK crema_err_t sink_fs_sync_name(const char *path);
/* Both. */
CREMA_MUST_CHECK crema_err_t sink_fs_make_dir(const char *path);

/* fsync of a directory: names created or removed in it become durable. */
CREMA_MUST_CHECK crema_err_t sink_fs_sync_dir(const char *path);

/* Reads a whole regular file of at most `max` bytes; the caller frees it. CREMA_ENOENT,
 * CREMA_ELIMIT. */
CREMA_MUST_CHECK crema_err_t sink_fs_read(const char *path, size_t max, uint8_t **ret_bytes,
                                          size_t *ret_size);

/* Reads `size` bytes from `offset`. CREMA_ENOENT: the file is shorter or missing. */
CREMA_MUST_CHECK crema_err_t sink_fs_read_at(const char *path, uint64_t offset, uint8_t *bytes,
                                             size_t size);

/* Replaces a file atomically by these bytes: temporary name, fsync, rename, fsync of the
 * directory. */
CREMA_MUST_CHECK crema_err_t sink_fs_replace(const char *dir, const char *name,
                                             const uint8_t *bytes, size_t size);

/* Writes all bytes or returns an error; the caller undoes a partial write. CREMA_ENOSPC: disk or
 * quota is full. */
CREMA_MUST_CHECK crema_err_t sink_fs_write(int fd, const uint8_t *bytes, size_t size);

/* Creates an empty file open for reading and writing. Whatever had the name is removed, never
 * followed or written to. CREMA_EBUSY: another process keeps putting something there. */
CREMA_MUST_CHECK crema_err_t sink_fs_create_fresh(const char *path, int *ret_fd);

/* An unguessable name in the directory of `path`. Files that killed processes left under such
 * names for the same `path` are removed. */
CREMA_MUST_CHECK crema_err_t sink_fs_hidden_name(const char *path, char ret_hidden[PATH_MAX]);

/* Translates errno: ENOSPC and EDQUOT are CREMA_ENOSPC, ENOENT is CREMA_ENOENT, EMFILE and ENFILE
 * are CREMA_ENOMEM (nothing was touched, it may be tried again), the rest
 * CREMA_EIO. */
crema_err_t sink_fs_error(int why);

/* Text of `err` for a message: strerror() where errno still holds the cause. */
const char *sink_fs_why(crema_err_t err);

#endif
