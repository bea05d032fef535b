#define _GNU_SOURCE /* mkostemp */
#include "sink_scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sink_fs.h"

/* In front of an array; as long as a cache line, so that the array is aligned. */
typedef union {
    size_t mapped; /* bytes, with this header; 0: on the heap */
    uint8_t bytes[64];
} header_t;

crema_err_t
sink_scratch_open(const char *dir, int *ret_fd)
{
    static const char c_name[] = ".crema-rows-XXXXXX";
    char path[PATH_MAX];
    if (!sink_fs_fits(dir, sizeof c_name))
        return sink_fs_error(errno);
    int fd = mkostemp(sink_fs_path(dir, c_name, path), O_CLOEXEC);
    if (fd < 0)
        return sink_fs_error(errno);
    unlink(path);
    *ret_fd = fd;
    return CREMA_OK;
}

crema_err_t
sink_scratch_map(int fd, size_t bytes, void **ret_bytes)
{
    int why = posix_fallocate(fd, 0, (off_t)bytes);
    if (why != 0)
        return sink_fs_error(why);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return CREMA_ENOMEM;
    *ret_bytes = mapped;
    return CREMA_OK;
}

static crema_err_t
s_in_file(const char *dir, size_t bytes, header_t **ret_header)
{
    int fd = -1;
    void *mapped = NULL;
    crema_err_t err = sink_scratch_open(dir, &fd);
    if (err != CREMA_OK)
        return err;
    err = sink_scratch_map(fd, bytes, &mapped);
    close(fd); /* the mapping keeps the file */
    if (err != CREMA_OK || !mapped)
        return err;
    *ret_header = mapped;
    (*ret_header)->mapped = bytes;
    return CREMA_OK;
}

bool
sink_scratch_works(const char *dir)
{
    header_t *header = NULL;
    if (s_in_file(dir, sizeof *header, &header) != CREMA_OK)
        return false;
    munmap(header, sizeof *header);
    return true;
}

void *
sink_scratch(const char *dir, size_t n, size_t size, crema_err_t *err)
{
    size_t bytes;
    header_t *header = NULL;
    if (*err != CREMA_OK)
        return NULL;
    if (__builtin_mul_overflow(n, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof *header, &bytes))
        *err = CREMA_ENOMEM;
    else if (dir && bytes > SINK_SCRATCH_MEMORY)
        *err = s_in_file(dir, bytes, &header);
    else if (!(header = calloc(1, bytes)))
        *err = CREMA_ENOMEM;
    return *err == CREMA_OK ? header + 1 : NULL;
}

void
sink_scratch_trim(void *array, size_t n, size_t size)
{
    header_t *header = (header_t *)array - 1;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (sizeof *header + n * size + page - 1) / page * page;
    uint8_t *rest = (uint8_t *)header + used;
    if (used >= header->mapped || madvise(rest, header->mapped - used, MADV_REMOVE) != 0)
        return;
    munmap(rest, header->mapped - used);
    header->mapped = used;
}

void
sink_scratch_free(void *array)
{
    if (!array)
        return;
    header_t *header = (header_t *)array - 1;
    if (header->mapped > 0)
        munmap(header, header->mapped);
    else
        free(header);
}
