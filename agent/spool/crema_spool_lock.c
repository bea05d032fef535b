/* The lock and the identity of a spool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_random.h"
#include "crema_spool_private.h"

#define LOCK_NAME "agent.lock"
#define ID_NAME "agent_id"

/* True if the file behind the descriptor still has the name: one that ends removes it with its
 * lock. */
static bool
s_has_name(const crema_spool_t *self, int fd)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 &&
           fstatat(self->dir, LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

crema_err_t
crema_spool_lock(crema_spool_t *self)
{
    if (self->lock >= 0)
        return CREMA_OK;
    int fd = openat(self->dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return CREMA_EIO;
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked || !s_has_name(self, fd)) {
        crema_err_t err = locked || errno == EWOULDBLOCK ? CREMA_EBUSY : CREMA_EIO;
        close(fd);
        return err;
    }
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* The text is informative; only the lock counts. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        self->stats.io_errors++;
    self->lock = fd;
    return CREMA_OK;
}

static crema_err_t
s_read_id(const crema_spool_t *self, crema_id_t *ret_id)
{
    int fd = openat(self->dir, ID_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? CREMA_ENOENT : CREMA_EIO;
    uint8_t bytes[CREMA_ID_BYTES + 1];
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    if (got < 0)
        return CREMA_EIO;
    crema_id_t id;
    memcpy(id.bytes, bytes, sizeof id.bytes);
    if (got != CREMA_ID_BYTES || crema_id_is_zero(&id))
        return CREMA_EMAGIC;
    *ret_id = id;
    return CREMA_OK;
}

/* Creates a complete, synced file under a temporary name. */
static crema_err_t
s_write_id(const crema_spool_t *self, const char *name)
{
    crema_id_t id = crema_random_id();
    int fd = openat(self->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return CREMA_EIO;
    crema_failpoint("spool.before_id_write");
    bool done = write(fd, id.bytes, sizeof id.bytes) == (ssize_t)sizeof id.bytes;
    crema_failpoint("spool.before_id_fsync");
    done = done && fsync(fd) == 0;
    close(fd);
    return done ? CREMA_OK : CREMA_EIO;
}

/* If several processes create one at once, the first wins. A damaged one is only replaced under
 * the lock. */
static crema_err_t
s_make_id(const crema_spool_t *self, bool replace)
{
    char hex[CREMA_ID_HEX_CHARS + 1];
    char name[sizeof hex + 16];
    crema_id_t unique = crema_random_id();
    snprintf(name, sizeof name, ".agent_id-%s", crema_id_hex(&unique, hex));
    crema_err_t err = s_write_id(self, name);
    if (err == CREMA_OK) {
        crema_failpoint("spool.before_id_rename");
        int rc = replace ? renameat(self->dir, name, self->dir, ID_NAME)
                         : linkat(self->dir, name, self->dir, ID_NAME, 0);
        bool done = rc == 0 || (!replace && errno == EEXIST);
        crema_failpoint("spool.after_id_rename");
        if (!done || fsync(self->dir) != 0)
            err = CREMA_EIO;
        crema_failpoint("spool.after_id_dir_fsync");
    }
    (void)unlinkat(self->dir, name, 0);
    return err;
}

crema_err_t
crema_spool_agent_id(crema_spool_t *self, crema_id_t *ret_id)
{
    crema_err_t err = s_read_id(self, ret_id);
    bool damaged = err == CREMA_EMAGIC;
    if (err != CREMA_ENOENT && !damaged)
        return err;
    if (damaged && self->lock < 0)
        return CREMA_EIO;
    err = s_make_id(self, damaged);
    return err == CREMA_OK ? s_read_id(self, ret_id) : err;
}
