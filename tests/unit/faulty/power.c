#include "power.h"

#include "must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512u
#define NODES_MAX 512
#define CHANGES_MAX 256
#define NAMES_MAX 64
#define FILE_MAX (1u << 20)
#define SECTORS_MAX (FILE_MAX / SECTOR)

typedef struct node node_t;

typedef struct {
    char name[64];
    node_t *node;
} name_t;

/* Within one directory and at once: `gone` (may be empty) vanishes, `come` (its node may be NULL)
 * appears. */
typedef struct {
    char gone[64];
    name_t come;
} change_t;

struct node {
    char path[PATH_MAX]; /* where it is now; empty: nowhere */
    bool is_dir;
    /* of a file: what is certain, and what is not */
    uint8_t *certain, *now; /* FILE_MAX each; `now` is as it was when it lost its name */
    size_t certain_n, now_n;
    uint8_t dirty[SECTORS_MAX];
    /* of a directory */
    name_t names[NAMES_MAX];
    size_t n_names;
    change_t changes[CHANGES_MAX];
    size_t n_changes;
};

static struct {
    char root[PATH_MAX];
    bool follows, busy;
    void (*fn)(void *context);
    void *context;
    node_t *nodes[NODES_MAX];
    size_t n_nodes;
    uint64_t syncs, fail_sync;
    uint64_t random;
} s_disk;

int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_ftruncate(int fd, off_t size);
int __real_rename(const char *from, const char *to);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);

int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rmdir(const char *path);

/* ---- nodes and paths */

static uint64_t
s_random(uint64_t n)
{
    uint64_t z = s_disk.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static node_t *
s_find(const char *path)
{
    for (size_t i = 0; i < s_disk.n_nodes; i++)
        if (strcmp(s_disk.nodes[i]->path, path) == 0)
            return s_disk.nodes[i];
    return NULL;
}

static node_t *
s_add(const char *path, bool is_dir)
{
    assert_true(s_disk.n_nodes < NODES_MAX);
    node_t *node = calloc(1, sizeof *node);
    assert_non_null(node);
    snprintf(node->path, sizeof node->path, "%s", path);
    node->is_dir = is_dir;
    s_disk.nodes[s_disk.n_nodes++] = node;
    return node;
}

static bool
s_is_below(const char *path)
{
    size_t n = strlen(s_disk.root);
    return strncmp(path, s_disk.root, n) == 0 && path[n] == '/';
}

static bool
s_path_of_fd(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return strcmp(path, s_disk.root) == 0 || s_is_below(path);
}

static bool
s_path_at(int dir, const char *name, char path[PATH_MAX])
{
    if (name[0] == '/' || dir == AT_FDCWD)
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && s_is_below(path);
    char parent[PATH_MAX];
    return s_path_of_fd(dir, parent) &&
           snprintf(path, PATH_MAX, "%s/%s", parent, name) < PATH_MAX && s_is_below(path);
}

/* A call that changes something is about to be made. */
static bool
s_begins(const char *path)
{
    if (!s_disk.follows || s_disk.busy || !(s_is_below(path) || strcmp(path, s_disk.root) == 0))
        return false;
    if (s_disk.fn) {
        s_disk.busy = true;
        s_disk.fn(s_disk.context);
        s_disk.busy = false;
    }
    return true;
}

static bool
s_begins_on_fd(int fd, char path[PATH_MAX])
{
    return s_disk.follows && !s_disk.busy && s_path_of_fd(fd, path) && s_begins(path);
}

/* ---- files */

static size_t
s_load(const char *path, uint8_t *bytes)
{
    int fd = __real_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, bytes, FILE_MAX);
    close(fd);
    assert_true(n >= 0 && n < FILE_MAX);
    return (size_t)n;
}

static void
s_refresh(node_t *node)
{
    if (!node->now)
        node->now = calloc(1, FILE_MAX);
    assert_non_null(node->now);
    if (node->path[0])
        node->now_n = s_load(node->path, node->now);
}

static void
s_dirty(node_t *node, size_t from, size_t to)
{
    for (size_t i = from / SECTOR; i * SECTOR < to; i++)
        node->dirty[i] = 1;
}

static void
s_on_written(const char *path, off_t from, ssize_t n)
{
    node_t *node = s_find(path);
    if (node && n > 0)
        s_dirty(node, (size_t)from, (size_t)(from + n));
}

static void
s_make_certain(node_t *node, bool fails)
{
    s_refresh(node);
    if (!node->certain)
        node->certain = calloc(1, FILE_MAX);
    assert_non_null(node->certain);
    for (size_t i = 0; i < SECTORS_MAX; i++) {
        if (node->dirty[i] && !fails)
            memcpy(node->certain + i * SECTOR, node->now + i * SECTOR, SECTOR);
        node->dirty[i] = 0;
    }
    if (node->now_n < node->certain_n)
        memset(node->certain + node->now_n, 0, node->certain_n - node->now_n);
    node->certain_n = node->now_n;
}

/* ---- directories */

static node_t *
s_parent(const char *path, const char **ret_name)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    *slash = '\0';
    *ret_name = path + (slash - parent) + 1;
    return s_find(parent);
}

static void
s_change(const char *path, const char *gone, node_t *come)
{
    const char *name;
    node_t *parent = s_parent(path, &name);
    assert_non_null(parent);
    assert_true(parent->n_changes < CHANGES_MAX);
    change_t *change = &parent->changes[parent->n_changes++];
    *change = (change_t){0};
    if (gone)
        snprintf(change->gone, sizeof change->gone, "%s", gone);
    change->come.node = come;
    if (come)
        snprintf(change->come.name, sizeof change->come.name, "%s", name);
}

static void
s_remove_name(name_t *names, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(names[i].name, name) == 0) {
            names[i] = names[--*n];
            return;
        }
}

/* The names of a directory after so many of its changes. */
static size_t
s_names_after(const node_t *dir, size_t changes, name_t names[NAMES_MAX])
{
    size_t n = dir->n_names;
    memcpy(names, dir->names, n * sizeof *names);
    for (size_t i = 0; i < changes; i++) {
        const change_t *change = &dir->changes[i];
        s_remove_name(names, &n, change->gone);
        if (change->come.node) {
            s_remove_name(names, &n, change->come.name);
            assert_true(n < NAMES_MAX);
            names[n++] = change->come;
        }
    }
    return n;
}

static void
s_lose_path(node_t *node)
{
    if (!node)
        return;
    if (!node->is_dir)
        s_refresh(node);
    node->path[0] = '\0';
}

static void
s_on_created(const char *path, bool is_dir)
{
    s_change(path, NULL, s_add(path, is_dir));
}

static void
s_on_removed(const char *path)
{
    const char *name;
    (void)s_parent(path, &name);
    s_change(path, name, NULL);
}

static void
s_on_renamed(const char *from, const char *to)
{
    const char *old_name;
    (void)s_parent(from, &old_name);
    node_t *node = s_find(from);
    assert_non_null(node);
    snprintf(node->path, sizeof node->path, "%s", to);
    s_change(to, old_name, node);
}

/* ---- what programs call */

static int
s_opened(const char *path, int flags, bool existed, int fd)
{
    if (fd < 0)
        return fd;
    if (!existed && (flags & O_CREAT))
        s_on_created(path, false);
    node_t *node = s_find(path);
    if (node && existed && (flags & O_TRUNC)) {
        s_dirty(node, 0, FILE_MAX);
    }
    return fd;
}

static int
s_open_at(int dir, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !s_disk.follows || s_disk.busy ||
        !s_path_at(dir, name, path) || !s_begins(path))
        return __real_openat(dir, name, flags, mode);
    bool existed = access(path, F_OK) == 0;
    return s_opened(path, flags, existed, __real_openat(dir, name, flags, mode));
}

int
__wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? (mode_t)va_arg(more, int) : 0;
    va_end(more);
    return s_open_at(AT_FDCWD, path, flags, mode);
}

int
__wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? (mode_t)va_arg(more, int) : 0;
    va_end(more);
    return s_open_at(dir, path, flags, mode);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t n)
{
    char path[PATH_MAX];
    if (!s_begins_on_fd(fd, path))
        return __real_write(fd, bytes, n);
    ssize_t done = __real_write(fd, bytes, n);
    s_on_written(path, lseek(fd, 0, SEEK_CUR) - (done > 0 ? done : 0), done);
    return done;
}

ssize_t
__wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    char path[PATH_MAX];
    if (!s_begins_on_fd(fd, path))
        return __real_pwrite(fd, bytes, n, at);
    ssize_t done = __real_pwrite(fd, bytes, n, at);
    s_on_written(path, at, done);
    return done;
}

int
__wrap_ftruncate(int fd, off_t size)
{
    char path[PATH_MAX];
    bool followed = s_begins_on_fd(fd, path);
    int rc = __real_ftruncate(fd, size);
    node_t *node = followed && rc == 0 ? s_find(path) : NULL;
    if (node)
        s_dirty(node, (size_t)size, FILE_MAX);
    return rc;
}

static int
s_sync(int fd, int (*sync)(int fd))
{
    char path[PATH_MAX];
    if (!s_begins_on_fd(fd, path))
        return sync(fd);
    bool fails = s_disk.fail_sync && ++s_disk.syncs == s_disk.fail_sync;
    node_t *node = s_find(path);
    if (node && node->is_dir && !fails) {
        node->n_names = s_names_after(node, node->n_changes, node->names);
        node->n_changes = 0;
    } else if (node && !node->is_dir) {
        s_make_certain(node, fails);
    }
    errno = fails ? EIO : errno;
    return fails ? -1 : 0; /* the disk is a model: nothing need wait for the real one */
}

int
__wrap_fsync(int fd)
{
    return s_sync(fd, __real_fsync);
}

int
__wrap_fdatasync(int fd)
{
    return s_sync(fd, __real_fdatasync);
}

int
__wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    char old_path[PATH_MAX], new_path[PATH_MAX];
    bool followed = s_disk.follows && !s_disk.busy && s_path_at(from_dir, from, old_path) &&
                    s_path_at(to_dir, to, new_path) && s_begins(new_path);
    if (followed)
        s_lose_path(s_find(new_path));
    int rc = __real_renameat(from_dir, from, to_dir, to);
    if (followed && rc == 0)
        s_on_renamed(old_path, new_path);
    return rc;
}

int
__wrap_rename(const char *from, const char *to)
{
    return __wrap_renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int
__wrap_unlinkat(int dir, const char *name, int flags)
{
    char path[PATH_MAX];
    bool followed = s_disk.follows && !s_disk.busy && s_path_at(dir, name, path) && s_begins(path);
    node_t *node = followed ? s_find(path) : NULL;
    if (node && !node->is_dir)
        s_refresh(node);
    int rc = __real_unlinkat(dir, name, flags);
    if (followed && rc == 0) {
        if (node)
            node->path[0] = '\0';
        s_on_removed(path);
    }
    return rc;
}

int
__wrap_unlink(const char *path)
{
    return __wrap_unlinkat(AT_FDCWD, path, 0);
}

int
__wrap_rmdir(const char *path)
{
    return __wrap_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    bool followed = s_begins(path);
    int rc = __real_mkdir(path, mode);
    if (followed && rc == 0)
        s_on_created(path, true);
    return rc;
}

/* ---- watching and cutting */

void
power_watch(const char *dir, void (*fn)(void *context), void *context)
{
    power_forget();
    snprintf(s_disk.root, sizeof s_disk.root, "%s", dir);
    s_add(dir, true);
    s_disk.fn = fn;
    s_disk.context = context;
    s_disk.follows = true;
}

void
power_ignore(void)
{
    s_disk.fn = NULL;
}

void
power_forget(void)
{
    for (size_t i = 0; i < s_disk.n_nodes; i++) {
        free(s_disk.nodes[i]->certain);
        free(s_disk.nodes[i]->now);
        free(s_disk.nodes[i]);
    }
    s_disk.n_nodes = 0;
    s_disk.follows = false;
    s_disk.fail_sync = 0;
}

void
power_fail_sync(uint64_t nth)
{
    s_disk.syncs = 0;
    s_disk.fail_sync = nth;
}

static void
s_cut_file(node_t *node, const char *target)
{
    static uint8_t bytes[FILE_MAX];
    s_refresh(node);
    size_t certain_n = node->certain ? node->certain_n : 0, n = node->now_n;
    bool is_dirty = memchr(node->dirty, 1, sizeof node->dirty) != NULL;
    memset(bytes, 0, sizeof bytes);
    if (node->certain)
        memcpy(bytes, node->certain, certain_n);
    unsigned kept_of_4 = (unsigned)s_random(5); /* some cuts take all, some nothing */
    for (size_t i = 0; is_dirty && i < SECTORS_MAX; i++)
        if (node->dirty[i] && s_random(4) < kept_of_4)
            memcpy(bytes + i * SECTOR, node->now + i * SECTOR, SECTOR);
    if (!is_dirty || s_random(3) == 0)
        n = is_dirty ? certain_n : n;
    else if (s_random(2) && n > certain_n)
        n = certain_n + (size_t)s_random(n - certain_n + 1);
    int fd = __real_open(target, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(__real_write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static void
s_cut_dir(const node_t *dir, const char *target)
{
    static name_t names[8][NAMES_MAX];
    static int depth;
    name_t *mine = names[depth++];
    assert_int_equal(__real_mkdir(target, 0700), 0);
    size_t n = s_names_after(dir, (size_t)s_random(dir->n_changes + 1), mine);
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", target, mine[i].name);
        if (mine[i].node->is_dir)
            s_cut_dir(mine[i].node, path);
        else
            s_cut_file(mine[i].node, path);
    }
    depth--;
}

void
power_cut(uint64_t seed, const char *target)
{
    bool was_busy = s_disk.busy;
    s_disk.busy = true;
    s_disk.random = seed;
    node_t *root = s_find(s_disk.root);
    assert_non_null(root);
    s_cut_dir(root, target);
    s_disk.busy = was_busy;
}
