#include "agent_spool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_id.h"
#include "crema_text.h"

/* Meanwhile another worker of the host may check whether the route over Dask is free, which creates
 * its lock again; each does so once a second. */
#define REMOVAL_TRIES 3
#define MARKER_AGE_S (24 * 3600) /* any process that needed the marker has seen it by then */
#define LOG_BYTES_MAX (4 << 20)  /* a longer log is truncated at the start */

/* Creates each missing part of the path; whatever the umask is. */
static crema_err_t
s_make_all(char *path, bool shared)
{
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char end = *at;
        *at = '\0';
        int rc = mkdir(path, 0700);
        bool is_there = rc != 0 && errno == EEXIST;
        if (rc == 0 && shared)
            rc = chmod(path, end == '\0' ? 01777 : 0755);
        *at = end;
        if (rc != 0 && !is_there)
            return CREMA_EIO;
        if (end == '\0')
            return CREMA_OK;
    }
}

/* In a shared directory another user may have created it. */
static crema_err_t
s_check_owner(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return CREMA_EIO;
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        errno = EPERM;
        return CREMA_ECONFIG;
    }
    return CREMA_OK;
}

crema_err_t
agent_spool_dir_make(const char *dir, bool shared, char path[PATH_MAX])
{
    char wanted[PATH_MAX];
    const char *base = getenv("TMPDIR");
    int n = dir ? snprintf(wanted, sizeof wanted, "%s", dir)
                : snprintf(wanted, sizeof wanted, "%s/crema-%lu/spool",
                           base && *base ? base : "/tmp", (unsigned long)geteuid());
    if (n <= 0 || (size_t)n >= sizeof wanted) {
        errno = n == 0 ? EINVAL : ENAMETOOLONG;
        return CREMA_EIO;
    }
    crema_err_t err = s_make_all(wanted, shared);
    if (err == CREMA_OK && !dir) {
        char *last = strrchr(wanted, '/');
        *last = '\0';
        err = s_check_owner(wanted);
        *last = '/';
    }
    if (err == CREMA_OK && !realpath(wanted, path))
        err = CREMA_EIO;
    if (err == CREMA_OK && access(path, R_OK | W_OK | X_OK) != 0)
        err = CREMA_EIO;
    return err;
}

/* ---- removing */

static bool
s_starts_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

/* PREFIX and the id of a run. */
static bool
s_is_of_run(const char *name, const char *prefix)
{
    crema_id_t run_id;
    size_t n = strlen(prefix);
    return s_starts_with(name, prefix) && strlen(name + n) == CREMA_ID_HEX_CHARS &&
           crema_id_parse(name + n, &run_id);
}

/* PREFIX and so many lower-case hexadecimal digits. */
static bool
s_is_numbered(const char *name, const char *prefix, size_t digits)
{
    size_t n = strlen(prefix);
    return s_starts_with(name, prefix) && strlen(name + n) == digits &&
           strspn(name + n, "0123456789abcdef") == digits;
}

/* A segment that was being made: ".new-" and its name. */
static bool
s_is_new_segment(const char *name)
{
    static const char c_prefix[] = ".new-sp-";
    const size_t n = sizeof c_prefix - 1;
    char id[sizeof c_prefix + CREMA_ID_HEX_CHARS];
    if (!s_starts_with(name, c_prefix) || strlen(name) < n + CREMA_ID_HEX_CHARS + 1)
        return false;
    snprintf(id, sizeof id, "%.*s", (int)sizeof id - 1, name);
    return s_is_numbered(id, c_prefix, CREMA_ID_HEX_CHARS) &&
           s_is_numbered(name + n + CREMA_ID_HEX_CHARS, "-", 16);
}

/* Users may keep files of their own beside these. */
static bool
s_is_spool_file(const char *name)
{
    static const char *const names[] = {"agent.lock", "starter.lock", "agent_id", "agent.log",
                                        "way",        "way.lock",     NULL};
    return crema_text_is_in(name, names) || s_is_new_segment(name) ||
           s_is_numbered(name, ".agent_id-", CREMA_ID_HEX_CHARS) || s_is_of_run(name, "ended-") ||
           s_is_of_run(name, "writers-");
}

static bool
s_is_segment(const char *name)
{
    return s_starts_with(name, "sp-");
}

static bool
s_is_key_file(const char *name)
{
    static const char *const names[] = {
        "server.key", "server.key_secret", "client.key", "client.key_secret",
        "agent.key",  "agent.key_secret",  NULL};
    char whole[NAME_MAX + 1];
    if (crema_text_is_in(name, names))
        return true;
    if (*name != '.')
        return false;
    /* One that was being written: ".new-" and a number, or "." NAME "." PID. */
    snprintf(whole, sizeof whole, "%.*s", (int)sizeof whole - 1, name + 1);
    char *pid = strrchr(whole, '.');
    if (!pid || pid[1] == '\0' || strspn(pid + 1, "0123456789") != strlen(pid + 1))
        return s_is_numbered(name, ".new-", 16);
    *pid = '\0';
    return crema_text_is_in(whole, names);
}

static void
s_remove_files(const char *path, bool (*is_ours)(const char *name))
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    const struct dirent *item;
    while ((item = readdir(dir)))
        if (is_ours(item->d_name))
            (void)unlinkat(dirfd(dir), item->d_name, 0);
    closedir(dir);
}

/* Also true if the directory cannot be read, since there may be segments. */
static bool
s_has_segment(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno != ENOENT;
    bool found = false;
    const struct dirent *item;
    while (errno = 0, !found && (item = readdir(dir)))
        found = s_is_segment(item->d_name);
    found = found || errno != 0;
    closedir(dir);
    return found;
}

bool
agent_spool_dir_keys(const char *dir, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/keys", dir);
    return n > 0 && n < PATH_MAX;
}

static void
s_remove_keys(const char *dir)
{
    char keys[PATH_MAX];
    if (!agent_spool_dir_keys(dir, keys))
        return;
    crema_failpoint("agent.before_keys_unlink");
    s_remove_files(keys, s_is_key_file);
    crema_failpoint("agent.after_keys_unlink");
    (void)rmdir(keys);
}

void
agent_spool_dir_take_keys(const char *dir, const char *keys_dir)
{
    char own[PATH_MAX], given[PATH_MAX], brought[PATH_MAX];
    if (keys_dir && agent_spool_dir_keys(dir, brought) && realpath(brought, own) &&
        realpath(keys_dir, given) && strcmp(own, given) == 0)
        s_remove_keys(dir);
}

void
agent_spool_dir_sweep(const char *dir, int64_t now_s)
{
    DIR *all = opendir(dir);
    const struct dirent *item;
    struct stat st;
    while (all && (item = readdir(all)))
        if (s_is_of_run(item->d_name, "ended-") &&
            fstatat(dirfd(all), item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            now_s - (int64_t)st.st_mtim.tv_sec > MARKER_AGE_S)
            (void)unlinkat(dirfd(all), item->d_name, 0);
    if (all)
        closedir(all);
}

bool
agent_spool_dir_remove(const char *dir)
{
    if (s_has_segment(dir))
        return false;
    s_remove_keys(dir);
    crema_failpoint("agent.before_spool_unlink");
    for (int tries = 0; tries < REMOVAL_TRIES; tries++) {
        s_remove_files(dir, s_is_spool_file);
        crema_failpoint("agent.before_spool_rmdir");
        if (rmdir(dir) == 0 || errno != ENOTEMPTY)
            break;
    }
    crema_failpoint("agent.after_spool_rmdir");
    return true;
}

/* ---- daemon */

static crema_err_t
s_redirect(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/agent.log", dir);
    if (n <= 0 || (size_t)n >= sizeof path)
        return CREMA_EIO;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;
    bool done = null >= 0 && log >= 0 && fstat(log, &st) == 0 &&
                (st.st_size <= LOG_BYTES_MAX || ftruncate(log, 0) == 0) &&
                dup2(null, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
                dup2(log, STDERR_FILENO) >= 0;
    if (null > STDERR_FILENO)
        close(null);
    if (log > STDERR_FILENO)
        close(log);
    return done ? CREMA_OK : CREMA_EIO;
}

static void
s_leave_with_status_from(int ready)
{
    uint8_t status;
    ssize_t got;
    do
        got = read(ready, &status, 1);
    while (got < 0 && errno == EINTR);
    _exit(got == 1 ? status : 1);
}

crema_err_t
agent_daemon_start(const char *dir, int *ret_ready)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        return CREMA_EIO;
    pid_t pid = fork();
    if (pid < 0)
        return CREMA_EIO;
    if (pid > 0) {
        close(ready[1]);
        s_leave_with_status_from(ready[0]);
    }
    close(ready[0]);
    (void)setsid();
    pid = fork(); /* not a session leader: it can never get a controlling terminal again */
    if (pid != 0)
        _exit(pid < 0 ? 1 : 0);
    crema_err_t err = chdir("/") == 0 ? s_redirect(dir) : CREMA_EIO;
    if (err != CREMA_OK)
        return err;
    *ret_ready = ready[1];
    return CREMA_OK;
}

void
agent_daemon_ready(int ready, int status)
{
    if (ready < 0)
        return;
    uint8_t byte = (uint8_t)status;
    (void)!write(ready, &byte, 1);
    close(ready);
}
