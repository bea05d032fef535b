/* Closes the stream of a writer that is gone.
 *
 * Each step leaves a file that, if this process is killed, the next one reads as the same
 * stream: END is written over the torn tail with one write (nothing after END is ever read),
 * then the rest of the tail is cut. */
#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_spool_private.h"

#define END_BYTES_MAX 128

static bool
s_try_lock(crema_spool_t *self, int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK && errno != EINTR)
        self->stats.io_errors++;
    return false;
}

static void
s_write_end(crema_spool_t *self, crema_spool_entry_t *entry)
{
    crema_spool_segment_t *segment = &entry->segments[entry->n_segments - 1];
    uint64_t torn_b = segment->size - segment->offset;
    uint64_t seq = entry->public.hi + 1;
    crema_record_t record = {.type = CREMA_RECORD_END,
                             .end = {.reason = CREMA_END_WRITER_GONE, .torn_bytes = torn_b}};
    uint8_t frame[END_BYTES_MAX];
    size_t n;
    crema_failpoint("spool.before_end_write");
    bool done =
        crema_record_encode(&record, seq, entry->last_t_ns, frame, sizeof frame, &n) == CREMA_OK &&
        pwrite(entry->fd, frame, n, (off_t)segment->offset) == (ssize_t)n;
    crema_failpoint("spool.after_end_write");
    if (!done || (torn_b > n && ftruncate(entry->fd, (off_t)(segment->offset + n)) != 0)) {
        self->stats.io_errors++;
        crema_spool_blame(self, &entry->scan_fault, segment->first_seq, errno);
        return;
    }
    crema_failpoint("spool.after_end_truncate");
    self->stats.torn_bytes += torn_b;
    entry->end_segment = segment->first_seq;
    entry->end_at = segment->offset;
    entry->end_bytes = n;
    entry->public.bytes += segment->offset + n - segment->size;
    segment->size = segment->walked = segment->offset += n;
    segment->last_seq = entry->public.hi = seq;
    entry->public.closed = true;
}

/* The lock is ours, so the newest known segment cannot grow. Checks again what is there. */
static void
s_close_locked(crema_spool_t *self, crema_spool_entry_t *entry)
{
    const crema_spool_segment_t *newest = &entry->segments[entry->n_segments - 1];
    if (entry->fd_segment != newest->first_seq || crema_spool_has_newer(self, entry)) {
        self->list_again = true;
        return;
    }
    crema_spool_scan_entry(self, entry);
    if (!entry->public.closed && entry->scan_fault.why == 0)
        s_write_end(self, entry);
}

void
crema_spool_close_abandoned(crema_spool_t *self, crema_spool_entry_t *entry)
{
    if (entry->head_bytes == 0 || entry->fd < 0)
        return;
    /* A segment without a record may be so new that its writer has not locked it yet; it then
     * still holds the previous one. */
    int before = -1;
    size_t n = entry->n_segments;
    if (n > 1 && entry->segments[n - 1].offset == 0) {
        before = crema_spool_open_segment(self, entry, entry->segments[n - 2].first_seq);
        if (before < 0 || !s_try_lock(self, before)) {
            if (before >= 0)
                close(before);
            return;
        }
    }
    if (s_try_lock(self, entry->fd)) {
        s_close_locked(self, entry);
        (void)flock(entry->fd, LOCK_UN);
    }
    if (before >= 0)
        close(before);
}
