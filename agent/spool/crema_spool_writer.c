/* The writer: one stream of this process. A segment is created under a temporary name, locked,
 * and renamed, so a reader never sees an unlocked segment of a living writer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_failpoint.h"
#include "crema_spool_private.h"

struct crema_spool_writer {
    crema_id_t stream_id;
    int dir;
    int fd;           /* newest segment, locked; -1 after one that could not be repaired */
    uint64_t size;    /* size of that segment */
    uint64_t next;    /* number of the next record */
    uint64_t dropped; /* records that could not be kept */
    uint64_t dropped_disk_full; /* of them */
    uint32_t owner; /* user id to own its files; CREMA_SPOOL_SELF: that of this process */
    pid_t pid;      /* process that opened it */
    uint8_t frame[CREMA_WALK_RECORD_MAX];
};

static crema_err_t
s_error(int why)
{
    return why == ENOSPC || why == EDQUOT || why == EFBIG ? CREMA_ENOSPC : CREMA_EIO;
}

/* Creates the segment of the next record. The previous one stays locked until this one is in
 * place. */
static crema_err_t
s_start_segment(crema_spool_writer_t *self)
{
    char name[CREMA_SPOOL_NAME_CHARS + 1], hidden[sizeof name + 5];
    crema_spool_name(&self->stream_id, self->next, name);
    snprintf(hidden, sizeof hidden, ".new-%s", name);
    int fd = openat(self->dir, hidden,
                    O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return s_error(errno);
    if (self->owner != CREMA_SPOOL_SELF)
        (void)!fchown(fd, self->owner,
                      (gid_t)-1); /* without the privilege it stays this process's */
    crema_failpoint("spool.before_segment_rename");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || renameat(self->dir, hidden, self->dir, name) != 0) {
        crema_err_t err = s_error(errno);
        (void)unlinkat(self->dir, hidden, 0);
        close(fd);
        return err;
    }
    crema_failpoint("spool.after_segment_rename");
    if (self->fd >= 0)
        close(self->fd);
    self->fd = fd;
    self->size = 0;
    return CREMA_OK;
}

/* Writes all or nothing: the rest of a failed write is cut, or the next record begins a new
 * segment. */
static crema_err_t
s_write(crema_spool_writer_t *self, size_t n)
{
    ssize_t done;
    crema_failpoint("spool.before_record_write");
    do
        done = write(self->fd, self->frame, n);
    while (done < 0 && errno == EINTR);
    crema_failpoint("spool.after_record_write");
    if (done == (ssize_t)n) {
        self->size += n;
        self->next++;
        return CREMA_OK;
    }
    if (done >= 0)
        errno = ENOSPC;
    crema_err_t err = s_error(errno);
    if (done > 0 && ftruncate(self->fd, (off_t)self->size) != 0)
        self->size = CREMA_SPOOL_SEGMENT_BYTES;
    return err;
}

static crema_err_t
s_append(crema_spool_writer_t *self, const crema_record_t *record, int64_t t_mono_ns)
{
    size_t n;
    crema_err_t err =
        crema_record_encode(record, self->next, t_mono_ns, self->frame, sizeof self->frame, &n);
    if (err == CREMA_OK && (self->fd < 0 || self->size + n > CREMA_SPOOL_SEGMENT_BYTES))
        err = s_start_segment(self);
    return err == CREMA_OK ? s_write(self, n) : err;
}

static void
s_free(crema_spool_writer_t **self_p)
{
    crema_spool_writer_t *self = *self_p;
    if (self->fd >= 0)
        close(self->fd);
    if (self->dir >= 0)
        close(self->dir);
    free(self);
    *self_p = NULL;
}

crema_err_t
crema_spool_writer_open(const char *dir, const crema_id_t *stream_id, const Crema__StreamInfo *info,
                        uint32_t owner, crema_spool_writer_t **ret_self)
{
    crema_spool_writer_t *self = malloc(sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->stream_id = *stream_id;
    self->fd = -1;
    self->owner = owner == geteuid() ? CREMA_SPOOL_SELF : owner;
    self->size = self->dropped = self->dropped_disk_full = 0;
    self->next = 1;
    self->pid = getpid();
    self->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    crema_err_t err = self->dir >= 0 ? CREMA_OK : s_error(errno);
    crema_record_t record = {.type = CREMA_RECORD_STREAM, .stream = *info};
    if (err == CREMA_OK)
        err = s_append(self, &record, info->t_mono_ns);
    if (err != CREMA_OK) {
        const int why = errno;
        if (self->fd >= 0) {
            char name[CREMA_SPOOL_NAME_CHARS + 1];
            (void)unlinkat(self->dir, crema_spool_name(stream_id, 1, name), 0);
        }
        s_free(&self);
        errno = why;
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

crema_err_t
crema_spool_writer_append(crema_spool_writer_t *self, const crema_record_t *record,
                          int64_t t_mono_ns)
{
    if (self->pid != getpid())
        return CREMA_EINVAL;
    crema_err_t err = s_append(self, record, t_mono_ns);
    if (err != CREMA_OK)
        self->dropped++;
    if (err == CREMA_ENOSPC)
        self->dropped_disk_full++;
    return err;
}

void
crema_spool_writer_close(crema_spool_writer_t **self_p)
{
    crema_spool_writer_t *self = *self_p;
    if (!self)
        return;
    if (self->pid == getpid()) {
        crema_record_t record = {
            .type = CREMA_RECORD_END,
            .end = {.reason = CREMA_END_FINISHED,
                    .dropped = self->dropped,
                    .dropped_disk_full = self->dropped_disk_full},
        };
        /* Without END the reader closes the stream as it would that of a killed writer. */
        (void)!s_append(self, &record, crema_clock_mono_ns());
    }
    s_free(self_p);
}
