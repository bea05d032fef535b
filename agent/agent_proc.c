#include "agent_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_MAX 512 /* descriptors from this one on are not kept: spools need some, too */

bool
agent_proc_is_short(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM;
}

/* Anything but a regular file is ignored: a user's mounts may put anything there, and opening a
 * FIFO would block. */
static int
s_open(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

ssize_t
agent_proc_read(int dir, const char *name, char *text, size_t size)
{
    int fd = s_open(dir, name);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got = 0;
    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return got < 0 ? -1 : (ssize_t)used;
}

ssize_t
agent_proc_read_again(int *kept, int dir, const char *name, char *text, size_t size)
{
    int fd = *kept >= 0 ? *kept : s_open(dir, name);
    if (fd < 0)
        return -1;
    ssize_t got = pread(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    if (fd >= KEPT_MAX)
        close(fd);
    else
        *kept = fd;
    return got;
}

int
agent_proc_open_process(const char *proc, int32_t pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d", proc, (int)pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
