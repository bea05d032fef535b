/* What an earlier process wrote last is made durable again: in any thread, as a group is. */
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "sink_fs.h"
#include "sink_journal_impl.h"
#include "sink_segments.h"

#define PIECE_BYTES ((size_t)1 << 20)

/* Rewrites the first bytes of a file in place. Many journals are renewed together at a start, so
 * they are read again, a piece at a time, instead of being kept: they must be the same as those
 * from which the state was read. */
static crema_err_t
s_rewrite(int fd, const char *path, const sink_renewal_t *renewal)
{
    crema_err_t err = CREMA_OK;
    uint32_t crc = 0;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        return CREMA_ENOMEM;
    for (size_t at = 0, n; err == CREMA_OK && at < renewal->sound; at += n) {
        n = renewal->sound - at < PIECE_BYTES ? renewal->sound - at : PIECE_BYTES;
        err = sink_fs_read_at(path, at, piece, n);
        if (err == CREMA_OK) {
            crc = libdeflate_crc32(crc, piece, n);
            err = sink_fs_write(fd, piece, n);
        }
    }
    free(piece);
    if (err != CREMA_OK || crc == renewal->crc)
        return err;
    errno = EIO;
    return CREMA_EIO;
}

/* Cuts the file to its sound bytes and rewrites them: after a failed sync the kernel may hold pages
 * that it considers clean and that never reached the disk. */
static crema_err_t
s_renew(const char *path, const sink_renewal_t *renewal)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_failpoint("sink.before_renew_truncate");
    crema_err_t err = ftruncate(fd, (off_t)renewal->sound) == 0 ? CREMA_OK : sink_fs_error(errno);
    crema_failpoint("sink.before_renew_write");
    if (err == CREMA_OK)
        err = s_rewrite(fd, path, renewal);
    crema_failpoint("sink.before_renew_fsync");
    if (err == CREMA_OK && fsync(fd) != 0)
        err = CREMA_EIO;
    crema_failpoint("sink.after_renew_fsync");
    const int why = errno;
    close(fd);
    errno = why;
    return err;
}

crema_err_t
sink_journal_keep_torn(const sink_journal_t *self, uint32_t number, const uint8_t *bytes,
                       size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "%06u" SINK_SEGMENT_TORN, number);
    return sink_fs_replace(self->dir, name, bytes, size);
}

static crema_err_t
s_keep_cut_tail(const sink_journal_t *self, const char *path)
{
    const sink_renewal_t *renewal = &self->work.renewal;
    const size_t size = renewal->size - renewal->sound;
    uint8_t *tail = malloc(size);
    crema_err_t err = tail ? sink_fs_read_at(path, renewal->sound, tail, size) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = sink_journal_keep_torn(self, renewal->segment, tail, size);
    free(tail);
    return err;
}

crema_err_t
sink_journal_renew(const sink_journal_t *self)
{
    const sink_renewal_t *renewal = &self->work.renewal;
    char path[PATH_MAX];
    crema_err_t err = CREMA_OK;
    sink_segments_path(self->dir, renewal->segment, path);
    if (renewal->size > renewal->sound)
        err = s_keep_cut_tail(self, path);
    if (err == CREMA_OK && renewal->segment > 0)
        err = s_renew(path, renewal);
    return err == CREMA_OK ? sink_fs_sync_dir(self->dir) : err;
}
