/* See faulty.h. In the environment of a program that it is preloaded into:
 *
 *   FAULTY_CALLS     as in faulty_arm(); memory means allocations that the program itself
 *                    makes, not those of its libraries
 *   FAULTY_DIR       only files below it
 *   FAULTY_NTH       that call fails, or
 *   FAULTY_PERCENT   so many of a hundred fail, or
 *   FAULTY_SECTOR    each read that touches the 4 KiB from this offset on fails, with
 *                    FAULTY_CALLS=read, or
 *   FAULTY_WHILE     all of them fail as long as this file exists
 *   FAULTY_ERROR     EIO (the default), ENOSPC, EACCES, ENOLCK, EMFILE or ENOMEM; a write that
 *                    finds no space may first write a half
 *   FAULTY_LOG       gets one line per failure; with FAULTY_NTH a log that is not empty means
 *                    that it has happened: nothing fails any more, in whatever process
 *   FAULTY_SLEEP     what would fail takes so many milliseconds instead, or until the file of
 *                    FAULTY_WHILE is gone
 *   FAULTY_SYNCS     gets "pid thread path" for each fsync() and fdatasync()
 *   FAULTY_WALL      a file with a number of seconds: how far the wall clock is off, read at
 *                    each look at it */
#include "faulty.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* DEFINE(int, close, int fd): the function that programs get; REAL(close): the one behind it. */
#ifdef FAULTY_WRAPPED
#define DEFINE(result, name, ...) result __wrap_##name(__VA_ARGS__)
#define REAL(name) __real_##name
#define BEHIND(result, name, ...)                                                                  \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)
#else
#define DEFINE(result, name, ...) result name(__VA_ARGS__)
#define REAL(name) s_real_##name()
#define BEHIND(result, name, ...)                                                                  \
    typedef result (*name##_fn)(__VA_ARGS__);                                                      \
    static name##_fn s_real_##name(void)                                                           \
    {                                                                                              \
        static name##_fn found;                                                                    \
        if (!found)                                                                                \
            found = (name##_fn)dlsym(RTLD_NEXT, #name);                                            \
        return found;                                                                              \
    }                                                                                              \
    result name(__VA_ARGS__)
#endif

enum {
    OPEN = 1,
    WRITE = 2,
    SYNC = 4,
    TRUNCATE = 8,
    RENAME = 16,
    UNLINK = 32,
    MKDIR = 64,
    READ = 128,
    MEMORY = 256,
    LIST = 512,
    LOCK = 1024,
    DISK = 255 | LIST
};

static struct {
    unsigned calls; /* bits of the above; 0: nothing ever fails */
    char dir[PATH_MAX];
    size_t dir_n;
    uint64_t nth;
    unsigned percent;
    bool sector; /* only reads of the 4 KiB from sector_at on fail */
    uint64_t sector_at;
    int error;
    unsigned sleep_ms;
    char on_file[PATH_MAX], log[PATH_MAX], wall[PATH_MAX], syncs[PATH_MAX];
    atomic_uint_fast64_t count;
    atomic_bool failed, paused;
    uintptr_t code_from, code_to; /* of the program itself */
} s_plan;

static const struct {
    const char *name;
    unsigned bit;
} c_calls[] = {{"open", OPEN},     {"write", WRITE},   {"sync", SYNC},   {"truncate", TRUNCATE},
               {"rename", RENAME}, {"unlink", UNLINK}, {"mkdir", MKDIR}, {"read", READ},
               {"memory", MEMORY}, {"list", LIST},     {"lock", LOCK},   {"disk", DISK}};

/* ---- the plan */

static unsigned
s_parse(const char *calls)
{
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof c_calls / sizeof *c_calls; i++) {
        const char *at = strstr(calls, c_calls[i].name);
        size_t n = strlen(c_calls[i].name);
        if (at && (at == calls || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            bits |= c_calls[i].bit;
    }
    return bits;
}

static const char *
s_name(unsigned call)
{
    for (size_t i = 0; i < sizeof c_calls / sizeof *c_calls; i++)
        if (c_calls[i].bit == call)
            return c_calls[i].name;
    return "?";
}

void
faulty_arm(const char *calls, const char *dir, uint64_t nth, int error)
{
    s_plan.calls = 0;
    snprintf(s_plan.dir, sizeof s_plan.dir, "%s", dir);
    s_plan.dir_n = strlen(s_plan.dir);
    s_plan.nth = nth;
    s_plan.error = error;
    s_plan.failed = false;
    s_plan.count = 0;
    s_plan.calls = s_parse(calls);
}

void
faulty_sector(const char *path, uint64_t at)
{
    faulty_arm(path ? "read" : "", path ? path : "", 0, EIO);
    s_plan.sector = path != NULL;
    s_plan.sector_at = at;
}

uint64_t
faulty_disarm(void)
{
    s_plan.calls = 0;
    s_plan.sector = false;
    return s_plan.count;
}

void
faulty_pause(int paused)
{
    s_plan.paused = paused;
}

int
faulty_has_failed(void)
{
    return s_plan.failed;
}

/* ---- whether this one fails */

static bool
s_exists(const char *path)
{
    return syscall(SYS_access, path, F_OK) == 0;
}

static bool
s_has_happened(void)
{
    struct stat st;
    return s_plan.failed ||
           (s_plan.log[0] && syscall(SYS_newfstatat, AT_FDCWD, s_plan.log, &st, 0) == 0 &&
            st.st_size > 0);
}

static bool
s_is_due(uint64_t number)
{
    if (s_plan.sector)
        return true;
    if (s_plan.on_file[0])
        return s_exists(s_plan.on_file);
    if (s_plan.percent) {
        uint64_t z = (number + (uint64_t)getpid() * 7919) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        return (z >> 33) % 100 < s_plan.percent;
    }
    return number == s_plan.nth && !s_has_happened();
}

static void
s_append(const char *log, const char *line)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        (void)!syscall(SYS_write, fd, line, strlen(line));
        syscall(SYS_close, fd);
    }
}

static void
s_tell(unsigned call, uint64_t number, const char *path)
{
    char line[PATH_MAX + 64];
    snprintf(line, sizeof line, "%s %llu %s\n", s_name(call), (unsigned long long)number, path);
    s_append(s_plan.log, line);
}

static void
s_sleep(void)
{
    const struct timespec ten_ms = {0, 10000000L};
    for (unsigned ms = 0; ms < s_plan.sleep_ms; ms += 10) {
        if (s_plan.on_file[0] && !s_exists(s_plan.on_file))
            return;
        nanosleep(&ten_ms, NULL);
    }
}

static bool
s_fails(unsigned call, const char *path)
{
    uint64_t number = ++s_plan.count;
    if (!s_is_due(number))
        return false;
    s_plan.failed = true;
    if (s_plan.log[0])
        s_tell(call, number, path);
    if (s_plan.sleep_ms) {
        s_sleep();
        return false;
    }
    errno = s_plan.error;
    return true;
}

static bool
s_is_below(const char *path)
{
    return strncmp(path, s_plan.dir, s_plan.dir_n) == 0;
}

/* -1: it has none. */
static ssize_t
s_path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return syscall(SYS_readlink, link, path, PATH_MAX - 1);
}

/* `name` is in the directory behind fd; NULL: fd is the file itself. */
static bool
s_fails_below_fd(unsigned call, int fd, const char *name)
{
    if (s_plan.paused || !(s_plan.calls & call))
        return false;
    char path[2 * PATH_MAX];
    ssize_t n = s_path_of(fd, path);
    if (n < 0)
        return false;
    snprintf(path + n, sizeof path - (size_t)n, "%s%s", name ? "/" : "", name ? name : "");
    return s_is_below(path) && s_fails(call, path);
}

static bool
s_fails_on_fd(unsigned call, int fd)
{
    return s_fails_below_fd(call, fd, NULL);
}

static bool
s_fails_on_path(unsigned call, int dir, const char *path)
{
    if (s_plan.paused || !(s_plan.calls & call))
        return false;
    if (path[0] == '/' || dir == AT_FDCWD)
        return s_is_below(path) && s_fails(call, path);
    return s_fails_below_fd(call, dir, path);
}

static bool
s_fails_of_memory(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (s_plan.paused || !(s_plan.calls & MEMORY) ||
        (s_plan.code_to && (at < s_plan.code_from || at >= s_plan.code_to)))
        return false;
    uint64_t number = ++s_plan.count;
    if (!s_is_due(number))
        return false;
    s_plan.failed = true;
    if (s_plan.log[0])
        s_tell(MEMORY, number, "");
    errno = ENOMEM;
    return true;
}

/* ---- files */

/* A disk that fills up takes the first half of a record and then nothing. */
static ssize_t
s_half(ssize_t (*write_n)(int, const void *, size_t), int fd, const void *bytes, size_t n)
{
    if (s_plan.error != ENOSPC || n < 2 || s_plan.count % 2 == 0)
        return -1;
    ssize_t done = write_n(fd, bytes, n / 2);
    if (done < 0)
        errno = s_plan.error;
    return done;
}

BEHIND(ssize_t, write, int fd, const void *bytes, size_t n)
{
    return s_fails_on_fd(WRITE, fd) ? s_half(REAL(write), fd, bytes, n) : REAL(write)(fd, bytes, n);
}

BEHIND(ssize_t, pwrite, int fd, const void *bytes, size_t n, off_t at)
{
    return s_fails_on_fd(WRITE, fd) ? -1 : REAL(pwrite)(fd, bytes, n, at);
}

BEHIND(ssize_t, pwrite64, int fd, const void *bytes, size_t n, off_t at)
{
    return s_fails_on_fd(WRITE, fd) ? -1 : REAL(pwrite64)(fd, bytes, n, at);
}

static bool
s_spares(uint64_t at, size_t n)
{
    return s_plan.sector && (at + n <= s_plan.sector_at || at >= s_plan.sector_at + 4096);
}

BEHIND(ssize_t, read, int fd, void *bytes, size_t n)
{
    if (s_plan.sector && s_spares((uint64_t)lseek(fd, 0, SEEK_CUR), n))
        return REAL(read)(fd, bytes, n);
    return s_fails_on_fd(READ, fd) ? -1 : REAL(read)(fd, bytes, n);
}

BEHIND(ssize_t, pread, int fd, void *bytes, size_t n, off_t at)
{
    if (s_spares((uint64_t)at, n))
        return REAL(pread)(fd, bytes, n, at);
    return s_fails_on_fd(READ, fd) ? -1 : REAL(pread)(fd, bytes, n, at);
}

BEHIND(struct dirent *, readdir, DIR *dir)
{
    /* Its end and its failure differ by errno alone, which the looks of this shim change. */
    int before = errno;
    if (s_fails_on_fd(LIST, dirfd(dir)))
        return NULL;
    (void)REAL(readdir);
    errno = before;
    return REAL(readdir)(dir);
}

static void
s_count_sync(int fd)
{
    char path[PATH_MAX], line[PATH_MAX + 64];
    const int before = errno;
    ssize_t n = s_plan.syncs[0] ? s_path_of(fd, path) : -1;
    if (n >= 0) {
        snprintf(line, sizeof line, "%d %d %.*s\n", (int)getpid(), (int)syscall(SYS_gettid), (int)n,
                 path);
        s_append(s_plan.syncs, line);
    }
    errno = before;
}

BEHIND(int, fsync, int fd)
{
    s_count_sync(fd);
    return s_fails_on_fd(SYNC, fd) ? -1 : REAL(fsync)(fd);
}

BEHIND(int, fdatasync, int fd)
{
    s_count_sync(fd);
    return s_fails_on_fd(SYNC, fd) ? -1 : REAL(fdatasync)(fd);
}

#ifndef FAULTY_WRAPPED
BEHIND(int, flock, int fd, int operation)
{
    return s_fails_on_fd(LOCK, fd) ? -1 : REAL(flock)(fd, operation);
}
#endif

BEHIND(int, ftruncate, int fd, off_t size)
{
    return s_fails_on_fd(TRUNCATE, fd) ? -1 : REAL(ftruncate)(fd, size);
}

BEHIND(int, ftruncate64, int fd, off_t size)
{
    return s_fails_on_fd(TRUNCATE, fd) ? -1 : REAL(ftruncate64)(fd, size);
}

BEHIND(int, rename, const char *from, const char *to)
{
    return s_fails_on_path(RENAME, AT_FDCWD, to) ? -1 : REAL(rename)(from, to);
}

BEHIND(int, renameat, int from_dir, const char *from, int to_dir, const char *to)
{
    return s_fails_on_path(RENAME, to_dir, to) ? -1 : REAL(renameat)(from_dir, from, to_dir, to);
}

BEHIND(int, unlink, const char *path)
{
    return s_fails_on_path(UNLINK, AT_FDCWD, path) ? -1 : REAL(unlink)(path);
}

BEHIND(int, unlinkat, int dir, const char *path, int flags)
{
    return s_fails_on_path(UNLINK, dir, path) ? -1 : REAL(unlinkat)(dir, path, flags);
}

BEHIND(int, mkdir, const char *path, mode_t mode)
{
    return s_fails_on_path(MKDIR, AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode);
}

static mode_t
s_mode(int flags, va_list more)
{
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(more, int) : 0;
}

#define OPENING(name)                                                                              \
    BEHIND(int, name, const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = s_mode(flags, more);                                                         \
        va_end(more);                                                                              \
        return s_fails_on_path(OPEN, AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);         \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                                           \
    BEHIND(int, name, int dir, const char *path, int flags, ...)                                   \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = s_mode(flags, more);                                                         \
        va_end(more);                                                                              \
        return s_fails_on_path(OPEN, dir, path) ? -1 : REAL(name)(dir, path, flags, mode);         \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

/* ---- memory: the C library has other names for these, so nothing need be looked up before there
 * is memory */

#ifdef FAULTY_WRAPPED
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);
#define __real_malloc __libc_malloc
#define __real_calloc __libc_calloc
#define __real_realloc __libc_realloc
#endif

DEFINE(void *, malloc, size_t n)
{
    return s_fails_of_memory(__builtin_return_address(0)) ? NULL : __real_malloc(n);
}

DEFINE(void *, calloc, size_t n, size_t size)
{
    return s_fails_of_memory(__builtin_return_address(0)) ? NULL : __real_calloc(n, size);
}

DEFINE(void *, realloc, void *old, size_t n)
{
    return s_fails_of_memory(__builtin_return_address(0)) ? NULL : __real_realloc(old, n);
}

DEFINE(char *, strdup, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = s_fails_of_memory(__builtin_return_address(0)) ? NULL : __real_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

#ifndef FAULTY_WRAPPED

/* ---- the wall clock */

static long
s_wall_off_s(void)
{
    char text[32] = "";
    int fd = s_plan.wall[0] ? (int)syscall(SYS_openat, AT_FDCWD, s_plan.wall, O_RDONLY) : -1;
    if (fd < 0)
        return 0;
    (void)!syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return strtol(text, NULL, 10);
}

BEHIND(int, clock_gettime, clockid_t clock, struct timespec *now)
{
    int rc = REAL(clock_gettime)(clock, now);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += s_wall_off_s();
    return rc;
}

BEHIND(int, gettimeofday, struct timeval *now, void *zone)
{
    int rc = REAL(gettimeofday)(now, zone);
    if (rc == 0)
        now->tv_sec += s_wall_off_s();
    return rc;
}

DEFINE(time_t, time, time_t *ret_now)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_now)
        *ret_now = now.tv_sec;
    return now.tv_sec;
}

/* ---- steered by the environment */

static int
s_on_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        s_plan.code_from = info->dlpi_addr + part->p_vaddr;
        s_plan.code_to = s_plan.code_from + part->p_memsz;
    }
    return 1; /* the first object is the program */
}

static void
s_take(const char *name, char *out)
{
    const char *value = getenv(name);
    if (value)
        snprintf(out, PATH_MAX, "%s", value);
}

static int
s_error(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EACCES", EACCES},
                  {"ENOLCK", ENOLCK}, {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}};
    for (size_t i = 0; name && i < sizeof errors / sizeof *errors; i++)
        if (strcmp(errors[i].name, name) == 0)
            return errors[i].error;
    return EIO;
}

__attribute__((constructor)) static void
s_start(void)
{
    const char *calls = getenv("FAULTY_CALLS"), *dir = getenv("FAULTY_DIR");
    const char *nth = getenv("FAULTY_NTH"), *percent = getenv("FAULTY_PERCENT");
    const char *error = getenv("FAULTY_ERROR"), *sector = getenv("FAULTY_SECTOR");
    const char *sleep_ms = getenv("FAULTY_SLEEP");
    dl_iterate_phdr(s_on_object, NULL);
    s_take("FAULTY_WHILE", s_plan.on_file);
    s_take("FAULTY_LOG", s_plan.log);
    s_take("FAULTY_WALL", s_plan.wall);
    s_take("FAULTY_SYNCS", s_plan.syncs);
    s_plan.sleep_ms = sleep_ms ? (unsigned)strtoul(sleep_ms, NULL, 10) : 0;
    s_plan.percent = percent ? (unsigned)strtoul(percent, NULL, 10) : 0;
    s_plan.sector = sector != NULL;
    s_plan.sector_at = sector ? strtoull(sector, NULL, 10) : 0;
    if (calls)
        faulty_arm(calls, dir ? dir : "/", nth ? strtoull(nth, NULL, 10) : 0, s_error(error));
}

#endif
