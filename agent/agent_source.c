#include "agent_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_proc.h"
#include "crema_clock.h"

/* Limits hardly ever change, and to find one costs more than to read everything else. */
#define SAMPLES_PER_LIMIT 16
/* To look for the first child of a process takes 5 us for each of its threads. */
#define SAMPLES_PER_TREE 4
#define PSS_INTERVAL_NS 10000000000 /* to find it takes the kernel 11 ms per GiB */

/* The files of /proc/PID that each sample reads. */
enum { STAT, STATM, IO, FILES };

struct agent_source {
    char *proc;
    int dir;         /* /proc/PID */
    int kept[FILES]; /* -1: to be opened */
    int32_t pid;
    agent_sample_t grown; /* highest value of each cumulative field so far */
    int64_t memory_limit_b;
    unsigned samples;  /* taken so far */
    bool has_children; /* in the last sample */
    int64_t pss_at_ns; /* when the memory of its tree was last measured; 0: never */
    int64_t others_b;  /* the tree's proportional set size less its own RSS, then */
    bool others_known;
};

/* The contribution of one process. */
typedef struct {
    int64_t cpu_ticks, rss_b, read_b, write_b;
    bool is_ours; /* a program of crema */
} s_usage_t;

static void
s_close_kept(const int kept[FILES])
{
    for (int i = 0; i < FILES; i++)
        if (kept[i] >= 0)
            close(kept[i]);
}

crema_err_t
agent_source_new(const char *proc, int32_t pid, agent_source_t **ret_self)
{
    if (pid <= 0)
        return CREMA_EINVAL;
    agent_source_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->pid = pid;
    for (int i = 0; i < FILES; i++)
        self->kept[i] = -1;
    self->proc = strdup(proc);
    self->dir = self->proc ? agent_proc_open_process(proc, pid) : -1;
    if (self->dir < 0) {
        const int why = errno;
        agent_source_destroy(&self);
        errno = why;
        return agent_proc_is_short(why) ? CREMA_ENOMEM : CREMA_ENOENT;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_source_destroy(agent_source_t **self_p)
{
    agent_source_t *self = *self_p;
    if (!self)
        return;
    s_close_kept(self->kept);
    if (self->dir >= 0)
        close(self->dir);
    free(self->proc);
    free(self);
    *self_p = NULL;
}

int32_t
agent_source_pid(const agent_source_t *self)
{
    return self->pid;
}

/* ---- identifying the writer */

/* "NSpid:\t17\t1": its number here, ..., its number in its own namespace. */
static bool
s_has_own_pid(const agent_source_t *self, const char *text)
{
    const char *line = strstr(text, "\nNSpid:");
    if (!line)
        return true; /* a kernel without nested namespaces */
    line += sizeof "\nNSpid:" - 1;
    long last = 0;
    for (char *end; *line == '\t'; line = end) {
        last = strtol(line, &end, 10);
        if (end == line)
            return false;
    }
    return last == self->pid;
}

/* "Uid:\treal\teffective\t...". */
static bool
s_runs_as(const char *text, uint32_t *ret_user)
{
    const char *line = strstr(text, "\nUid:");
    unsigned user;
    if (!line || sscanf(line, "\nUid: %*u %u", &user) != 1)
        return false;
    *ret_user = user;
    return true;
}

/* Allows one clock tick before the kernel records the start. */
static bool
s_was_there(const agent_source_t *self, int64_t at_ns)
{
    char text[2048];
    unsigned long long ticks;
    const char *at;
    int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    return agent_proc_read(self->dir, "stat", text, sizeof text) >= 0 &&
           (at = strrchr(text, ')')) &&
           sscanf(at,
                  ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                  "%llu",
                  &ticks) == 1 &&
           ticks <= INT64_MAX && (int64_t)ticks <= at_ns / tick_ns + 1;
}

bool
agent_source_is_writer(const agent_source_t *self, const agent_writer_t *writer)
{
    const char *prefix = writer->prefix;
    char text[8192];
    uint32_t user;
    errno = 0;
    if (agent_proc_read(self->dir, "status", text, sizeof text) < 0 || !s_has_own_pid(self, text) ||
        !s_runs_as(text, &user) || user != writer->owner || !s_was_there(self, writer->began_ns))
        return false;
    int fd = openat(self->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        const int why = errno;
        if (fd >= 0)
            close(fd);
        errno = why;
        return !agent_proc_is_short(why); /* another user's: not visible */
    }
    bool found = false;
    const struct dirent *item;
    while (!found && (item = readdir(dir))) {
        char path[PATH_MAX];
        ssize_t n = readlinkat(fd, item->d_name, path, sizeof path - 1);
        if (n <= 0)
            continue;
        path[n] = '\0';
        const char *name = strrchr(path, '/');
        found = name && strncmp(name + 1, prefix, strlen(prefix)) == 0;
    }
    closedir(dir);
    errno = 0;
    return found;
}

bool
agent_source_is_hidden(const agent_source_t *self)
{
    char path[PATH_MAX];
    return readlinkat(self->dir, "exe", path, sizeof path) < 0 &&
           (errno == EACCES || errno == EPERM);
}

/* ---- one process */

/* Adds two non-negative numbers, limited to the maximum. */
static int64_t
s_sum(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t
s_times(int64_t a, int64_t b)
{
    return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

static int64_t
s_in_range(unsigned long long value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* "17 (any ) name) S ppid ...": fields 14 to 17 are user and system time, its own and that of
 * children it waited for. */
static bool
s_parse_stat(const char *text, int64_t *ret_ticks)
{
    const char *at = strrchr(text, ')');
    char state;
    unsigned long long own[2], children[2];
    if (!at || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                      &state, &own[0], &own[1], &children[0], &children[1]) != 5)
        return false;
    if (state == 'Z' || state == 'X')
        return false;
    *ret_ticks = s_sum(s_sum(s_in_range(own[0]), s_in_range(own[1])),
                       s_sum(s_in_range(children[0]), s_in_range(children[1])));
    return true;
}

static int64_t
s_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static bool
s_measure(int dir, int kept[FILES], s_usage_t *ret)
{
    char text[2048];
    *ret = (s_usage_t){.rss_b = -1, .read_b = -1, .write_b = -1};
    if (agent_proc_read_again(&kept[STAT], dir, "stat", text, sizeof text) < 0 ||
        !s_parse_stat(text, &ret->cpu_ticks))
        return false;
    ret->is_ours = strstr(text, "(crema-") != NULL;
    unsigned long long pages;
    if (agent_proc_read_again(&kept[STATM], dir, "statm", text, sizeof text) > 0 &&
        sscanf(text, "%*u %llu", &pages) == 1)
        ret->rss_b = s_times(s_in_range(pages), sysconf(_SC_PAGESIZE));
    if (agent_proc_read_again(&kept[IO], dir, "io", text, sizeof text) > 0) {
        ret->read_b = s_field(text, "\nread_bytes: ");
        ret->write_b = s_field(text, "\nwrite_bytes: ");
    }
    return true;
}

bool
agent_source_is_alive(const agent_source_t *self)
{
    char text[2048];
    int64_t ticks;
    return agent_proc_read(self->dir, "stat", text, sizeof text) >= 0 && s_parse_stat(text, &ticks);
}

/* ---- its descendants */

typedef struct {
    agent_source_skip_fn skip;
    void *context;
    size_t n;
    bool cut; /* more processes than are followed */
    int32_t pids[AGENT_TREE_MAX];
} s_tree_t;

static void
s_find_children_of_thread(s_tree_t *tree, int tasks, const char *thread)
{
    char name[300], text[8192];
    snprintf(name, sizeof name, "%s/children", thread);
    if (agent_proc_read(tasks, name, text, sizeof text) <= 0)
        return;
    char *at = text, *end;
    for (long pid; (pid = strtol(at, &end, 10)) > 0 && end != at; at = end) {
        if (tree->skip && tree->skip(tree->context, (int32_t)pid))
            continue;
        if (tree->n == AGENT_TREE_MAX)
            tree->cut = true;
        else
            tree->pids[tree->n++] = (int32_t)pid;
    }
}

static void
s_find_children(s_tree_t *tree, int dir)
{
    int tasks = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = tasks < 0 ? NULL : fdopendir(tasks);
    if (!list) {
        if (tasks >= 0)
            close(tasks);
        return;
    }
    const struct dirent *item;
    while ((item = readdir(list)))
        if (item->d_name[0] != '.')
            s_find_children_of_thread(tree, tasks, item->d_name);
    closedir(list);
}

static void
s_add(int64_t *sum, int64_t value)
{
    if (value >= 0)
        *sum = *sum < 0 ? value : s_sum(*sum, value);
}

/* Adds the living descendants, without those that record themselves and crema's own programs. */
static void
s_add_descendants(agent_source_t *self, s_tree_t *tree, s_usage_t *sum)
{
    size_t kept_n = 0;
    s_find_children(tree, self->dir);
    for (size_t done = 0; done < tree->n; done++) {
        int dir = agent_proc_open_process(self->proc, tree->pids[done]);
        if (dir < 0)
            continue;
        s_usage_t usage;
        int kept[FILES] = {-1, -1, -1};
        if (s_measure(dir, kept, &usage) && !usage.is_ours) {
            s_add(&sum->cpu_ticks, usage.cpu_ticks);
            s_add(&sum->rss_b, usage.rss_b);
            s_add(&sum->read_b, usage.read_b);
            s_add(&sum->write_b, usage.write_b);
            s_find_children(tree, dir);
            tree->pids[kept_n++] = tree->pids[done];
        }
        s_close_kept(kept);
        close(dir);
    }
    tree->n = kept_n;
}

/* ---- its memory */

/* Proportional set size: a page that k processes map counts 1/k in each. -1 if the kernel does not
 * show it. */
static int64_t
s_pss_b(int dir)
{
    char text[4096];
    if (agent_proc_read(dir, "smaps_rollup", text, sizeof text) <= 0)
        return -1;
    int64_t kib = s_field(text, "\nPss:");
    return kib < 0 ? -1 : s_times(kib, 1024);
}

/* Of the process and its descendants; -1 unless each one's is known. */
static int64_t
s_tree_pss_b(const agent_source_t *self, const s_tree_t *tree)
{
    int64_t sum_b = s_pss_b(self->dir);
    for (size_t i = 0; sum_b >= 0 && i < tree->n; i++) {
        int dir = agent_proc_open_process(self->proc, tree->pids[i]);
        if (dir < 0)
            continue; /* it has just ended */
        int64_t pss_b = s_pss_b(dir);
        sum_b = pss_b < 0 ? -1 : s_sum(sum_b, pss_b);
        close(dir);
    }
    return sum_b;
}

/* Forked processes share most of their pages, so the sum of their RSS may be several times what
 * they occupy. Between two measurements of the whole tree only the process's own RSS changes. */
static void
s_measure_memory(agent_source_t *self, const s_tree_t *tree, int64_t own_rss_b,
                 agent_sample_t *sample)
{
    if (tree->n == 0 || own_rss_b < 0)
        return;
    int64_t now_ns = crema_clock_mono_ns();
    if (self->pss_at_ns == 0 || now_ns - self->pss_at_ns >= PSS_INTERVAL_NS) {
        int64_t pss_b = s_tree_pss_b(self, tree);
        self->pss_at_ns = now_ns;
        self->others_known = pss_b >= 0;
        self->others_b = pss_b - own_rss_b;
    }
    if (!self->others_known)
        return;
    sample->memory = CREMA_MEMORY_PSS;
    sample->rss_b = self->others_b > -own_rss_b ? s_sum(own_rss_b, self->others_b) : 0;
}

/* ---- limits */

/* Bytes, or -1 for "max", for the value that means "no limit" in version 1, and for anything
 * else. */
static int64_t
s_read_limit(int dir, const char *name)
{
    char text[64];
    if (agent_proc_read(dir, name, text, sizeof text) <= 0)
        return -1;
    char *end;
    long long bytes = strtoll(text, &end, 10);
    return end != text && bytes > 0 && bytes < (1LL << 62) ? bytes : -1;
}

/* Read in the process's own mount namespace; its path in /proc/PID/cgroup may be the host's and
 * does not apply there. */
static int64_t
s_limit_by_its_mounts(int dir)
{
    int64_t limit_b = s_read_limit(dir, "root/sys/fs/cgroup/memory.max");
    if (limit_b < 0)
        limit_b = s_read_limit(dir, "root/sys/fs/cgroup/memory/memory.limit_in_bytes");
    return limit_b;
}

/* Reads "0::/path" in the agent's own mounts, version 2 only. A path outside of them begins with
 * "/..". */
static int64_t
s_limit_by_our_mounts(const agent_source_t *self)
{
    char text[PATH_MAX], path[2 * PATH_MAX];
    if (agent_proc_read(self->dir, "cgroup", text, sizeof text) <= 0)
        return -1;
    const char *at = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!at || strstr(at, "/.."))
        return -1;
    at = strchr(at, '/');
    if (!at)
        return -1;
    snprintf(path, sizeof path, "%s/self/root/sys/fs/cgroup%.*s/memory.max", self->proc,
             (int)strcspn(at, "\n"), at);
    return s_read_limit(AT_FDCWD, path);
}

/* A privileged agent does not traverse what another user may have mounted. */
static int64_t
s_memory_limit(const agent_source_t *self)
{
    struct stat st;
    bool is_ours = fstat(self->dir, &st) == 0 && st.st_uid == geteuid();
    return is_ours ? s_limit_by_its_mounts(self->dir) : s_limit_by_our_mounts(self);
}

static int64_t
s_grow(int64_t *highest, int64_t value)
{
    if (value > *highest)
        *highest = value;
    return value < 0 ? -1 : *highest;
}

crema_err_t
agent_source_sample(agent_source_t *self, agent_source_skip_fn skip, void *context,
                    agent_sample_t *ret_sample)
{
    s_usage_t usage;
    if (!s_measure(self->dir, self->kept, &usage))
        return CREMA_ENOENT;
    int64_t own_rss_b = usage.rss_b;
    s_tree_t tree = {.skip = skip, .context = context};
    if (self->has_children || self->samples % SAMPLES_PER_TREE == 0)
        s_add_descendants(self, &tree, &usage);
    self->has_children = tree.n > 0;
    if (self->samples++ % SAMPLES_PER_LIMIT == 0)
        self->memory_limit_b = s_memory_limit(self);
    int64_t cpu_ns = s_times(usage.cpu_ticks, 1000000000 / sysconf(_SC_CLK_TCK));
    *ret_sample = (agent_sample_t){
        .cpu_ns = s_grow(&self->grown.cpu_ns, cpu_ns),
        .rss_b = usage.rss_b,
        .disk_read_b = s_grow(&self->grown.disk_read_b, usage.read_b),
        .disk_write_b = s_grow(&self->grown.disk_write_b, usage.write_b),
        .memory_limit_b = self->memory_limit_b,
        .processes = (uint32_t)tree.n + 1,
        .memory = CREMA_MEMORY_RSS,
        .cut = tree.cut,
    };
    s_measure_memory(self, &tree, own_rss_b, ret_sample);
    return CREMA_OK;
}
