#include "sink_unread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define TRIES 5          /* of one page: a disk may give it the next time */
#define FAILED_PAGES 256 /* then what is left of a reading is taken for unreadable, too */
#define FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) /* does not wait for a pipe */

const char *
sink_unread_text(const sink_unread_t *self, char text[SINK_UNREAD_TEXT_BYTES])
{
    const char *slash = strrchr(self->path, '/');
    text[0] = '\0';
    if (self->why != 0)
        snprintf(text, SINK_UNREAD_TEXT_BYTES, "%.255s: %s", slash ? slash + 1 : self->path,
                 strerror(self->why));
    return text;
}

static void
s_note(sink_unread_t *self, const char *path, uint64_t bytes, int why)
{
    self->bytes += bytes;
    if (self->why != 0)
        return;
    self->why = why;
    snprintf(self->path, sizeof self->path, "%s", path);
}

/* True for what says nothing of the file. */
static bool
s_is_passing(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM;
}

static int
s_open(const char *path)
{
    int fd = open(path, FLAGS);
    for (int i = 1; i < TRIES && fd < 0 && !s_is_passing(errno); i++)
        fd = open(path, FLAGS);
    return fd;
}

/* Reads up to `size` bytes, and if that fails up to the end of the page. */
static ssize_t
s_read_some(int fd, uint64_t offset, uint8_t *bytes, size_t size)
{
    const size_t page = PAGE_BYTES - (size_t)(offset % PAGE_BYTES);
    ssize_t got = pread(fd, bytes, size, (off_t)offset);
    for (int i = 0; i < TRIES && got < 0 && !s_is_passing(errno); i++)
        got = pread(fd, bytes, size < page ? size : page, (off_t)offset);
    return got;
}

/* *ret_size is less than `size` if the file ends before. */
static crema_err_t
s_read(int fd, const char *path, uint64_t offset, uint8_t *bytes, size_t size, size_t *ret_size,
       sink_unread_t *unread)
{
    size_t used = 0;
    while (used < size) {
        const uint64_t at = offset + used;
        const size_t page = PAGE_BYTES - (size_t)(at % PAGE_BYTES), left = size - used;
        ssize_t got = s_read_some(fd, at, bytes + used, left);
        if (got == 0)
            break;
        if (got < 0 && s_is_passing(errno))
            return CREMA_ENOMEM;
        size_t n = (size_t)got;
        if (got < 0) {
            n = ++unread->failed < FAILED_PAGES && page < left ? page : left;
            s_note(unread, path, n, errno);
            memset(bytes + used, 0, n);
        }
        used += n;
    }
    *ret_size = used;
    return CREMA_OK;
}

crema_err_t
sink_unread_read_at(const char *path, uint64_t offset, uint8_t *bytes, size_t size,
                    sink_unread_t *unread)
{
    int fd = s_open(path);
    if (fd < 0 && errno == ENOENT)
        return CREMA_ENOENT;
    if (fd < 0 && s_is_passing(errno))
        return CREMA_ENOMEM;
    if (fd < 0) {
        s_note(unread, path, size, errno);
        memset(bytes, 0, size);
        return CREMA_OK;
    }
    size_t got = 0;
    crema_err_t err = s_read(fd, path, offset, bytes, size, &got, unread);
    close(fd);
    return err == CREMA_OK && got < size ? CREMA_ENOENT : err;
}

/* Why the file is read as a whole not at all; 0: it can be. */
static int
s_refusal(int fd, size_t max, struct stat *ret_st)
{
    if (fstat(fd, ret_st) != 0)
        return errno;
    if (S_ISDIR(ret_st->st_mode))
        return EISDIR;
    if (!S_ISREG(ret_st->st_mode))
        return EINVAL;
    return (uint64_t)ret_st->st_size > max ? EFBIG : 0;
}

crema_err_t
sink_unread_read(const char *path, size_t max, uint8_t **ret_bytes, size_t *ret_size,
                 sink_unread_t *unread)
{
    struct stat st = {0};
    crema_err_t err = CREMA_OK;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int fd = s_open(path), why = fd < 0 ? errno : s_refusal(fd, max, &st);
    if (why == ENOENT) {
        err = CREMA_ENOENT;
    } else if (s_is_passing(why)) {
        err = CREMA_ENOMEM;
    } else if (why != 0) {
        if (fd < 0 && lstat(path, &st) != 0)
            st.st_size = 0;
        s_note(unread, path, st.st_size > 0 ? (uint64_t)st.st_size : 1, why);
    } else {
        bytes = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
        err = bytes ? s_read(fd, path, 0, bytes, (size_t)st.st_size, &size, unread) : CREMA_ENOMEM;
    }
    if (fd >= 0)
        close(fd);
    if (err != CREMA_OK) {
        free(bytes);
        return err;
    }
    *ret_bytes = bytes;
    *ret_size = size;
    return CREMA_OK;
}
