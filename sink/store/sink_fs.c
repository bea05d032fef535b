#include "sink_fs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_random.h"

#define FRESH_TRIES 8

crema_err_t
sink_fs_error(int why)
{
    switch (why) {
    case ENOSPC:
    case EDQUOT:
        return CREMA_ENOSPC;
    case ENOENT:
        return CREMA_ENOENT;
    case EMFILE:
    case ENFILE: /* nothing was touched */
        return CREMA_ENOMEM;
    default:
        return CREMA_EIO;
    }
}

const char *
sink_fs_why(crema_err_t err)
{
    bool is_system = ((err == CREMA_EIO || err == CREMA_ENOSPC) && errno != 0) ||
                     (err == CREMA_ENOMEM && (errno == EMFILE || errno == ENFILE));
    return is_system ? strerror(errno) : crema_err_text(err);
}

bool
sink_fs_fits(const char *dir, size_t below)
{
    bool fits = strnlen(dir, PATH_MAX) + 1 + below < PATH_MAX;
    if (!fits)
        errno = ENAMETOOLONG;
    return fits;
}

char *
sink_fs_path(const char *dir, const char *name, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    assert(n > 0 && n < PATH_MAX);
    if (n <= 0 || n >= PATH_MAX) /* never another file */
        memset(out, 'x', PATH_MAX - 1);
    return out;
}

crema_err_t
sink_fs_sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sink_fs_error(errno);
    int rc = fsync(fd);
    int why = errno;
    close(fd);
    return rc == 0 ? CREMA_OK : sink_fs_error(why);
}

/* The directory of a path, for which final slashes do not count. */
static crema_err_t
s_parent(const char *path, char ret_parent[PATH_MAX])
{
    size_t n = strnlen(path, PATH_MAX);
    if (n == 0 || n == PATH_MAX)
        return CREMA_EINVAL;
    memcpy(ret_parent, path, n + 1);
    while (n > 1 && ret_parent[n - 1] == '/')
        ret_parent[--n] = '\0';
    char *slash = strrchr(ret_parent, '/');
    if (slash)
        slash[slash == ret_parent ? 1 : 0] = '\0';
    else
        strcpy(ret_parent, ".");
    return CREMA_OK;
}

crema_err_t
sink_fs_sync_name(const char *path)
{
    char parent[PATH_MAX];
    crema_err_t err = s_parent(path, parent);
    if (err == CREMA_OK)
        err = sink_fs_sync_dir(parent);
    return err != CREMA_OK && errno == EACCES ? CREMA_OK : err;
}

crema_err_t
sink_fs_make_name(const char *path)
{
    if (mkdir(path, 0700) == 0)
        return CREMA_OK;
    int why = errno;
    struct stat st;
    if (why == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return CREMA_OK;
    errno = why;
    return sink_fs_error(why);
}

crema_err_t
sink_fs_make_dir(const char *path)
{
    crema_err_t err = sink_fs_make_name(path);
    return err == CREMA_OK ? sink_fs_sync_name(path) : err;
}

static crema_err_t
s_read_all(int fd, size_t max, uint8_t **ret_bytes, size_t *ret_size)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return sink_fs_error(errno);
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return CREMA_EIO;
    }
    if ((uint64_t)st.st_size > max)
        return CREMA_ELIMIT;
    size_t size = (size_t)st.st_size, used = 0;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return CREMA_ENOMEM;
    while (used < size) {
        ssize_t got = read(fd, bytes + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            crema_err_t err = sink_fs_error(errno);
            free(bytes);
            return err;
        }
        if (got == 0) /* the file was truncated meanwhile */
            break;
        used += (size_t)got;
    }
    *ret_bytes = bytes;
    *ret_size = used;
    return CREMA_OK;
}

crema_err_t
sink_fs_read(const char *path, size_t max, uint8_t **ret_bytes, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_err_t err = s_read_all(fd, max, ret_bytes, ret_size);
    close(fd);
    return err;
}

crema_err_t
sink_fs_read_at(const char *path, uint64_t offset, uint8_t *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sink_fs_error(errno);
    size_t used = 0;
    crema_err_t err = CREMA_OK;
    while (used < size && err == CREMA_OK) {
        ssize_t got = pread(fd, bytes + used, size - used, (off_t)(offset + used));
        if (got > 0)
            used += (size_t)got;
        else if (got == 0)
            err = CREMA_ENOENT;
        else if (errno != EINTR)
            err = sink_fs_error(errno);
    }
    close(fd);
    return err;
}

crema_err_t
sink_fs_write(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sink_fs_error(errno);
        bytes += done;
        size -= (size_t)done;
    }
    return CREMA_OK;
}

crema_err_t
sink_fs_replace(const char *dir, const char *name, const uint8_t *bytes, size_t size)
{
    char fresh_name[NAME_MAX + 1], path[PATH_MAX], fresh[PATH_MAX];
    if (!sink_fs_fits(dir, strlen(name) + sizeof ".tmp"))
        return sink_fs_error(errno);
    snprintf(fresh_name, sizeof fresh_name, "%s.tmp", name);
    sink_fs_path(dir, fresh_name, fresh);
    if (unlink(fresh) != 0 && errno != ENOENT)
        return sink_fs_error(errno);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_failpoint("sink.before_replace_write");
    crema_err_t err = sink_fs_write(fd, bytes, size);
    crema_failpoint("sink.before_replace_fsync");
    if (err == CREMA_OK && fsync(fd) != 0)
        err = sink_fs_error(errno);
    if (close(fd) != 0 && err == CREMA_OK)
        err = sink_fs_error(errno);
    crema_failpoint("sink.before_replace_rename");
    if (err == CREMA_OK && rename(fresh, sink_fs_path(dir, name, path)) != 0)
        err = sink_fs_error(errno);
    if (err != CREMA_OK) {
        unlink(fresh);
        return err;
    }
    crema_failpoint("sink.after_replace_rename");
    err = sink_fs_sync_dir(dir);
    crema_failpoint("sink.after_replace_dir_fsync");
    return err;
}

/* ---- output directories, in which other users may create names */

crema_err_t
sink_fs_create_fresh(const char *path, int *ret_fd)
{
    int fd = -1;
    if (strnlen(path, PATH_MAX) == PATH_MAX)
        return CREMA_EINVAL;
    for (int tries = 0; fd < 0 && tries < FRESH_TRIES; tries++) {
        if (unlink(path) != 0 && errno != ENOENT)
            break;
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return errno == EEXIST ? CREMA_EBUSY : sink_fs_error(errno);
    *ret_fd = fd;
    return CREMA_OK;
}

/* ".NAME.", then 16 digits, then ".tmp". */
static bool
s_is_hidden_name(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return entry[0] == '.' && strncmp(entry + 1, name, length) == 0 && entry[1 + length] == '.' &&
           strlen(entry) == length + 2 + 16 + 4 && strcmp(entry + length + 2 + 16, ".tmp") == 0;
}

static void
s_remove_left(const char *parent, const char *name)
{
    DIR *stream = opendir(parent);
    if (!stream)
        return;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (s_is_hidden_name(entry->d_name, name))
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
}

crema_err_t
sink_fs_hidden_name(const char *path, char ret_hidden[PATH_MAX])
{
    char parent[PATH_MAX], hidden[NAME_MAX + 1];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    crema_err_t err = s_parent(path, parent);
    if (err != CREMA_OK)
        return err;
    int n = snprintf(hidden, sizeof hidden, ".%s.%016llx.tmp", name,
                     (unsigned long long)crema_random_u64());
    if (n <= 0 || n >= (int)sizeof hidden || !sink_fs_fits(parent, (size_t)n))
        return CREMA_EINVAL;
    s_remove_left(parent, name);
    sink_fs_path(parent, hidden, ret_hidden);
    return CREMA_OK;
}
