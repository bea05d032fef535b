/* sink_fs - the few file operations that durability rests on. Paths are made in PATH_MAX buffers; a longer one is CREMA_EINVAL. */
#ifndef SINK_FS_H
#define SINK_FS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* `<dir>/<name>` into out[PATH_MAX]. */
CREMA_MUST_CHECK crema_err_t sink_fs_join(const char *dir, const char *name, char *out);

/* Makes one directory (mode 0700) and makes its name durable; one that is there already is fine. */
CREMA_MUST_CHECK crema_err_t sink_fs_make_dir(const char *path);

/* fsync of a directory: names made or removed in it are durable. */
CREMA_MUST_CHECK crema_err_t sink_fs_sync_dir(const char *path);

/* The whole of a regular file of at most `max` bytes, in memory that the caller frees. CREMA_ENOENT, CREMA_ELIMIT. */
CREMA_MUST_CHECK crema_err_t sink_fs_read(const char *path, size_t max, uint8_t **ret_bytes,
                                          size_t *ret_size);

/* Its first `size` bytes. CREMA_ENOENT: it is shorter, or not there. */
CREMA_MUST_CHECK crema_err_t sink_fs_read_head(const char *path, uint8_t *bytes, size_t size);

/* `size` bytes from `offset` on, likewise. */
CREMA_MUST_CHECK crema_err_t sink_fs_read_at(const char *path, uint64_t offset, uint8_t *bytes,
                                             size_t size);

/* Replaces a file by one of these bytes: temporary name, fsync, rename, fsync of the directory. */
CREMA_MUST_CHECK crema_err_t sink_fs_replace(const char *dir, const char *name,
                                             const uint8_t *bytes, size_t size);

/* All bytes or an error; what a failed write left is the caller's to undo. CREMA_ENOSPC: disk or quota is full. */
CREMA_MUST_CHECK crema_err_t sink_fs_write(int fd, const uint8_t *bytes, size_t size);

/* A fresh, empty file of that name, open for reading and writing: what had the name is removed, not followed and not written to. CREMA_EBUSY:
 * somebody puts something in its place again and again. */
CREMA_MUST_CHECK crema_err_t sink_fs_create_fresh(const char *path, int *ret_fd);

/* A name beside `path` that nobody can guess; what a killed process left under such names of `path` is removed. */
CREMA_MUST_CHECK crema_err_t sink_fs_hidden_name(const char *path, char ret_hidden[PATH_MAX]);

/* errno as an error: ENOSPC and EDQUOT are CREMA_ENOSPC, ENOENT is CREMA_ENOENT, the rest CREMA_EIO. */
crema_err_t sink_fs_error(int why);

/* What `err` was, for a message: the system's own words where errno still holds its cause. */
const char *sink_fs_why(crema_err_t err);

#endif
