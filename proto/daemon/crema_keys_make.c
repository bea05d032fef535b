#include "crema_keys_make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>
#include <zmq.h>

#include "crema_random.h"

#define KEY_CHARS 41 /* Z85, with its NUL */

static const crema_as_t c_peers[] = {CREMA_AS_AGGREGATOR, CREMA_AS_AGENT, CREMA_AS_CLIENT,
                                     CREMA_AS_MONITOR};
#define PEERS (sizeof c_peers / sizeof *c_peers)

typedef struct {
    char public_key[KEY_CHARS], secret_key[KEY_CHARS];
} pair_t;

static crema_err_t
s_err_of(int number)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
        return CREMA_ENOENT;
    case EEXIST:
        return CREMA_EBUSY;
    case ENOSPC:
    case EDQUOT:
        return CREMA_ENOSPC;
    case ENOMEM:
        return CREMA_ENOMEM;
    default:
        return CREMA_EIO;
    }
}

/* ---- files */

/* Whether the keys must outlast a power cut, or are those of one run. */
typedef enum { TO_STAY, FOR_A_RUN } stay_t;

static crema_err_t
s_write_all(int fd, const char *text, stay_t stay)
{
    size_t size = strlen(text);
    if (write(fd, text, size) != (ssize_t)size || (stay == TO_STAY && fsync(fd) != 0))
        return s_err_of(errno ? errno : EIO);
    return CREMA_OK;
}

/* Writes under an unguessable name, then renames. */
static crema_err_t
s_write_file(int dir, const char *name, const char *text, mode_t mode, stay_t stay)
{
    char hidden[80];
    snprintf(hidden, sizeof hidden, ".new-%016llx", (unsigned long long)crema_random_u64());
    int fd = openat(dir, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return s_err_of(errno);
    crema_err_t err = fchmod(fd, mode) == 0 ? s_write_all(fd, text, stay) : s_err_of(errno);
    close(fd);
    if (err == CREMA_OK && renameat(dir, hidden, dir, name) != 0)
        err = s_err_of(errno);
    if (err != CREMA_OK)
        unlinkat(dir, hidden, 0);
    return err;
}

/* A CZMQ certificate. `secret_key` NULL: the public half; `uid` below 0: it is bound to no user. */
static crema_err_t
s_write_key(int dir, const char *name, const char *public_key, const char *secret_key, int64_t uid,
            stay_t stay)
{
    char text[512], user[64] = "";
    if (uid >= 0)
        snprintf(user, sizeof user, "    uid = \"%lld\"\n", (long long)uid);
    int n = snprintf(text, sizeof text, "metadata\n%scurve\n    public-key = \"%s\"\n", user,
                     public_key);
    if (secret_key)
        snprintf(text + n, sizeof text - (size_t)n, "    secret-key = \"%s\"\n", secret_key);
    crema_err_t err = s_write_file(dir, name, text, secret_key ? 0600 : 0644, stay);
    sodium_memzero(text, sizeof text);
    return err;
}

/* ROLE.key and ROLE.key_secret. */
static crema_err_t
s_write_pair(int dir, crema_as_t as, const pair_t *pair, stay_t stay)
{
    char name[64];
    snprintf(name, sizeof name, "%s.key_secret", crema_as_name(as));
    crema_err_t err = s_write_key(dir, name, pair->public_key, pair->secret_key, -1, stay);
    snprintf(name, sizeof name, "%s.key", crema_as_name(as));
    return err == CREMA_OK ? s_write_key(dir, name, pair->public_key, NULL, -1, stay) : err;
}

static void
s_name_admitted(crema_as_t as, const char *name, char ret_file[NAME_MAX + 1])
{
    snprintf(ret_file, NAME_MAX + 1, "%s.%s.key", crema_as_name(as), name);
}

/* ---- directories */

/* Creates and opens a directory below `parent`. */
static crema_err_t
s_make_dir(int parent, const char *name, int *ret_fd)
{
    if (mkdirat(parent, name, 0700) != 0)
        return s_err_of(errno);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return s_err_of(errno);
    *ret_fd = fd;
    return CREMA_OK;
}

/* Removes only files that this program creates. */
static void
s_remove_dir(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    char file[NAME_MAX + 1];
    for (size_t i = 0; i < PEERS; i++) {
        s_name_admitted(c_peers[i], CREMA_KEYS_DEFAULT, file);
        unlinkat(fd, file, 0);
    }
    for (int as = 0; as < CREMA_AS_COUNT; as++) {
        snprintf(file, sizeof file, "%s.key_secret", crema_as_name((crema_as_t)as));
        unlinkat(fd, file, 0);
        *strrchr(file, '_') = '\0';
        unlinkat(fd, file, 0);
    }
    close(fd);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* Creates directory `name` for that role, and last its public key in the server's directory. */
static crema_err_t
s_make_peer(int parent, int server, const char *server_key, crema_as_t as, const char *dir_name,
            const char *key_name, int64_t uid, stay_t stay)
{
    pair_t pair;
    char file[NAME_MAX + 1];
    int fd = -1;
    if (zmq_curve_keypair(pair.public_key, pair.secret_key) != 0)
        return CREMA_ECONFIG;
    crema_err_t err = s_make_dir(parent, dir_name, &fd);
    if (err != CREMA_OK)
        return err;
    err = s_write_pair(fd, as, &pair, stay);
    sodium_memzero(&pair.secret_key, sizeof pair.secret_key);
    if (err == CREMA_OK)
        err = s_write_key(fd, "server.key", server_key, NULL, -1, stay);
    close(fd);
    s_name_admitted(as, key_name, file);
    if (err == CREMA_OK)
        err = s_write_key(server, file, pair.public_key, NULL, uid, stay);
    if (err != CREMA_OK)
        s_remove_dir(parent, dir_name);
    return err;
}

/* True if there are keys of any role, including those of an interrupted run or of version 0.1. */
static bool
s_holds_keys(int dir)
{
    static const char *const c_flat[] = {"server.key", "server.key_secret", "client.key",
                                         "client.key_secret"};
    bool holds = faccessat(dir, "server", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    for (size_t i = 0; i < PEERS; i++)
        holds |= faccessat(dir, crema_as_name(c_peers[i]), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    for (size_t i = 0; i < sizeof c_flat / sizeof *c_flat; i++)
        holds |= faccessat(dir, c_flat[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return holds;
}

/* The agents of a run make their own keys, and nobody listens to its tap. */
static bool
s_has_part(crema_as_t as, stay_t stay)
{
    return stay == TO_STAY || as == CREMA_AS_AGGREGATOR || as == CREMA_AS_CLIENT;
}

static crema_err_t
s_make_all(int dir, stay_t stay)
{
    pair_t pair;
    int server;
    if (zmq_curve_keypair(pair.public_key, pair.secret_key) != 0)
        return CREMA_ECONFIG;
    crema_err_t err = s_make_dir(dir, "server", &server);
    if (err != CREMA_OK)
        return err;
    err = s_write_pair(server, CREMA_AS_SERVER, &pair, stay);
    sodium_memzero(&pair.secret_key, sizeof pair.secret_key);
    for (size_t i = 0; err == CREMA_OK && i < PEERS; i++)
        if (s_has_part(c_peers[i], stay))
            err = s_make_peer(dir, server, pair.public_key, c_peers[i], crema_as_name(c_peers[i]),
                              CREMA_KEYS_DEFAULT, -1, stay);
    close(server);
    return err;
}

/* `dir` is locked: of two processes that create keys at once, the second finds those of the
 * first. It checks before it changes anything. */
static crema_err_t
s_make_in(int dir, stay_t stay)
{
    if (flock(dir, LOCK_EX) < 0)
        return s_err_of(errno);
    if (s_holds_keys(dir))
        return CREMA_EBUSY;
    crema_err_t err = s_make_all(dir, stay);
    if (err != CREMA_OK) {
        int why = errno;
        s_remove_dir(dir, "server");
        for (size_t i = 0; i < PEERS; i++)
            s_remove_dir(dir, crema_as_name(c_peers[i]));
        errno = why;
    }
    return err;
}

static crema_err_t
s_make(const char *dir, stay_t stay)
{
    if (!zmq_has("curve"))
        return CREMA_ECONFIG;
    bool made = mkdir(dir, 0700) == 0;
    if (!made && errno != EEXIST)
        return s_err_of(errno);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return s_err_of(errno);
    crema_err_t err = s_make_in(fd, stay);
    close(fd);
    if (made && err != CREMA_OK)
        (void)rmdir(dir);
    return err;
}

crema_err_t
crema_keys_make(const char *dir)
{
    return s_make(dir, TO_STAY);
}

crema_err_t
crema_keys_make_for_run(const char *dir)
{
    return s_make(dir, FOR_A_RUN);
}

/* ---- an agent's own */

/* The public key is written last, so that a reader that sees it finds both. `dir` is locked. */
static crema_err_t
s_make_own_in(int dir, const char *server_key)
{
    pair_t pair;
    if (flock(dir, LOCK_EX) < 0)
        return s_err_of(errno);
    if (faccessat(dir, "agent.key", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return CREMA_OK;
    crema_err_t err = s_write_key(dir, "server.key", server_key, NULL, -1, TO_STAY);
    if (err != CREMA_OK)
        return err;
    if (zmq_curve_keypair(pair.public_key, pair.secret_key) != 0)
        return CREMA_ECONFIG;
    err = s_write_pair(dir, CREMA_AS_AGENT, &pair, TO_STAY);
    sodium_memzero(&pair.secret_key, sizeof pair.secret_key);
    return err;
}

crema_err_t
crema_keys_make_own(const char *dir, const char *server_key)
{
    uint8_t key[32];
    if (!zmq_has("curve"))
        return CREMA_ECONFIG;
    if (strlen(server_key) != KEY_CHARS - 1 || !zmq_z85_decode(key, server_key))
        return CREMA_EINVAL;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return s_err_of(errno);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return s_err_of(errno);
    crema_err_t err = s_make_own_in(fd, server_key);
    close(fd);
    return err;
}

/* ---- names */

/* The public key in DIR/server/server.key, Z85. */
static bool
s_read_server_key(int server, char ret_key[KEY_CHARS])
{
    static const char c_before[] = "public-key = \"";
    char text[1024];
    int fd = openat(server, "server.key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    const char *key = strstr(text, c_before);
    if (!key || strlen(key) < sizeof c_before - 1 + KEY_CHARS)
        return false;
    memcpy(ret_key, key + sizeof c_before - 1, KEY_CHARS - 1);
    ret_key[KEY_CHARS - 1] = '\0';
    return true;
}

static bool
s_may_be_named(crema_as_t as, const char *name)
{
    bool connects = false;
    for (size_t i = 0; i < PEERS; i++)
        connects |= as == c_peers[i];
    return connects && crema_principal_is_name(name);
}

/* Opens both directories and locks the first one. */
static crema_err_t
s_open_both(const char *dir, int *ret_dir, int *ret_server)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return s_err_of(errno);
    int server = openat(fd, "server", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (server < 0 || flock(fd, LOCK_EX) < 0) {
        crema_err_t err = s_err_of(errno);
        if (server >= 0)
            close(server);
        close(fd);
        return err;
    }
    *ret_dir = fd;
    *ret_server = server;
    return CREMA_OK;
}

crema_err_t
crema_keys_add(const char *dir, crema_as_t as, const char *name, int64_t uid)
{
    char server_key[KEY_CHARS], file[NAME_MAX + 1], dir_name[NAME_MAX + 1];
    int fd, server;
    if (!s_may_be_named(as, name) || uid > CREMA_KEYS_UID_MAX ||
        (uid >= 0 && as != CREMA_AS_CLIENT))
        return CREMA_EINVAL;
    crema_err_t err = s_open_both(dir, &fd, &server);
    if (err != CREMA_OK)
        return err;
    s_name_admitted(as, name, file);
    snprintf(dir_name, sizeof dir_name, "%s-%s", crema_as_name(as), name);
    if (!s_read_server_key(server, server_key))
        err = CREMA_ENOENT;
    else if (faccessat(server, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
             faccessat(fd, dir_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        err = CREMA_EBUSY;
    else
        err = s_make_peer(fd, server, server_key, as, dir_name, name, uid, TO_STAY);
    close(server);
    close(fd);
    return err;
}

crema_err_t
crema_keys_revoke(const char *dir, crema_as_t as, const char *name)
{
    char file[NAME_MAX + 1];
    int fd, server;
    if (!s_may_be_named(as, name))
        return CREMA_EINVAL;
    crema_err_t err = s_open_both(dir, &fd, &server);
    if (err != CREMA_OK)
        return err;
    s_name_admitted(as, name, file);
    if (unlinkat(server, file, 0) != 0 || fsync(server) != 0)
        err = s_err_of(errno);
    close(server);
    close(fd);
    return err;
}
