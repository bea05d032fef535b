/* Frees what is committed, or must be given up.
 *
 * The file with the StreamInfo is kept longest, since only it names the run. It shrinks to the
 * StreamInfo while the stream is open, then to StreamInfo and END; after a kill between two
 * steps the same stream with the same last number is found. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_spool_private.h"

#define END_BYTES_MAX 4096

static bool
s_has_head(const crema_spool_entry_t *entry)
{
    return entry->head_bytes > 0 && entry->segments[0].first_seq == 1;
}

static void
s_drop_segment(crema_spool_entry_t *entry, size_t i)
{
    entry->public.bytes -= entry->segments[i].size;
    entry->n_segments--;
    for (; i < entry->n_segments; i++)
        entry->segments[i] = entry->segments[i + 1];
    entry->read_seq = 0;
}

static crema_err_t
s_unlink_segment(crema_spool_t *self, crema_spool_entry_t *entry, size_t i)
{
    char name[CREMA_SPOOL_NAME_CHARS + 1];
    crema_spool_name(&entry->public.stream_id, entry->segments[i].first_seq, name);
    crema_failpoint("spool.before_unlink");
    if (unlinkat(self->dir, name, 0) != 0 && errno != ENOENT) {
        self->stats.io_errors++;
        return CREMA_EIO;
    }
    crema_failpoint("spool.after_unlink");
    s_drop_segment(entry, i);
    return CREMA_OK;
}

static crema_err_t
s_resize_head(crema_spool_t *self, crema_spool_entry_t *entry, const uint8_t *end, size_t end_n)
{
    crema_spool_segment_t *head = &entry->segments[0];
    uint64_t size = entry->head_bytes + end_n;
    int fd = crema_spool_open_segment(self, entry, head->first_seq);
    if (fd < 0)
        return CREMA_EIO;
    crema_failpoint("spool.before_head_write");
    bool done = end_n == 0 || pwrite(fd, end, end_n, (off_t)entry->head_bytes) == (ssize_t)end_n;
    crema_failpoint("spool.after_head_write");
    done = done && ftruncate(fd, (off_t)size) == 0;
    crema_failpoint("spool.after_head_truncate");
    close(fd);
    if (!done) {
        self->stats.io_errors++;
        return CREMA_EIO;
    }
    entry->public.bytes += size - head->size;
    head->size = head->walked = head->offset = size;
    head->last_seq = end_n ? entry->public.hi : 1;
    head->final = true;
    entry->read_seq = 0;
    return CREMA_OK;
}

/* Drops segment i, which is not the newest; the first one keeps its StreamInfo. */
static crema_err_t
s_release(crema_spool_t *self, crema_spool_entry_t *entry, size_t i)
{
    bool head = i == 0 && s_has_head(entry);
    crema_err_t err = head ? s_resize_head(self, entry, NULL, 0) : s_unlink_segment(self, entry, i);
    if (err != CREMA_OK)
        return err;
    uint64_t held = entry->segments[head ? 1 : i].first_seq;
    if (entry->public.first_avail < held)
        entry->public.first_avail = held;
    return CREMA_OK;
}

/* The segment to drop next: after the first one, oldest first. *ret_i is its index; false if
 * only the newest is left. */
static bool
s_oldest(const crema_spool_entry_t *entry, size_t *ret_i)
{
    bool head = s_has_head(entry);
    bool cut = head && entry->segments[0].size <= entry->head_bytes;
    size_t i = cut ? 1 : 0;
    *ret_i = i;
    return i + 1 < entry->n_segments;
}

/* Reduces a closed stream to its StreamInfo and its END in one file. */
static crema_err_t
s_collapse(crema_spool_t *self, crema_spool_entry_t *entry)
{
    uint8_t end[END_BYTES_MAX];
    if (!s_has_head(entry) || entry->end_bytes == 0 || entry->end_bytes > sizeof end)
        return CREMA_EINVAL;
    if (entry->end_segment == 1 && entry->end_at == entry->head_bytes)
        return CREMA_OK;
    int fd = crema_spool_open_segment(self, entry, entry->end_segment);
    if (fd < 0)
        return CREMA_EIO;
    ssize_t got = pread(fd, end, entry->end_bytes, (off_t)entry->end_at);
    close(fd);
    crema_frame_t frame;
    if (got != (ssize_t)entry->end_bytes ||
        crema_frame_decode(end, (size_t)got, &frame) != CREMA_OK ||
        frame.type != CREMA_RECORD_END) {
        self->stats.io_errors++;
        return CREMA_EIO;
    }
    crema_err_t err = s_resize_head(self, entry, end, (size_t)got);
    if (err != CREMA_OK)
        return err;
    entry->end_segment = 1;
    entry->end_at = entry->head_bytes;
    entry->public.first_avail = entry->public.hi;
    return CREMA_OK;
}

void
crema_spool_drop_behind_end(crema_spool_t *self, crema_spool_entry_t *entry)
{
    while (entry->n_segments > 1 &&
           entry->segments[entry->n_segments - 1].first_seq > entry->end_segment &&
           s_unlink_segment(self, entry, entry->n_segments - 1) == CREMA_OK)
        ;
}

static crema_err_t
s_remove(crema_spool_t *self, crema_spool_entry_t *entry)
{
    crema_err_t err = CREMA_OK;
    /* If this fails and the process is killed, the reader finds the rest of the stream closed:
     * it is already committed. */
    if (entry->n_segments > 1 && s_has_head(entry))
        (void)s_collapse(self, entry);
    while (err == CREMA_OK && entry->n_segments > 0)
        err = s_unlink_segment(self, entry, entry->n_segments - 1);
    if (err == CREMA_OK)
        crema_spool_forget(self, entry);
    return err;
}

crema_err_t
crema_spool_trim(crema_spool_t *self, const crema_id_t *stream_id, uint64_t committed)
{
    crema_spool_entry_t *entry = crema_spool_entry(self, stream_id);
    if (!entry)
        return CREMA_ENOENT;
    if (committed > entry->public.hi)
        committed = entry->public.hi;
    if (committed > entry->public.committed)
        entry->public.committed = committed;
    if (entry->public.closed && entry->public.committed >= entry->public.hi)
        return s_remove(self, entry);
    size_t i;
    while (s_oldest(entry, &i) && entry->segments[i + 1].first_seq - 1 <= entry->public.committed) {
        crema_err_t err = s_release(self, entry, i);
        if (err != CREMA_OK)
            return err;
    }
    return CREMA_OK;
}

/* ---- making room */

/* Number of records given up when everything up to `last` except the StreamInfo is dropped. */
static uint64_t
s_count_given_up(const crema_spool_entry_t *entry, uint64_t last)
{
    uint64_t kept = entry->public.committed;
    if (s_has_head(entry) && kept < 1)
        kept = 1;
    if (kept + 1 < entry->public.first_avail)
        kept = entry->public.first_avail - 1;
    return last > kept ? last - kept : 0;
}

/* Drops segments of one stream until `excess` bytes are freed; returns the records given up. */
static uint64_t
s_evict_entry(crema_spool_t *self, crema_spool_entry_t *entry, uint64_t excess)
{
    uint64_t before_b = entry->public.bytes, given_up = 0, n;
    size_t i;
    while (before_b - entry->public.bytes < excess && s_oldest(entry, &i)) {
        n = s_count_given_up(entry, entry->segments[i + 1].first_seq - 1);
        if (s_release(self, entry, i) != CREMA_OK)
            break;
        given_up += n;
    }
    if (before_b - entry->public.bytes < excess && entry->public.closed) {
        n = s_count_given_up(entry, entry->public.hi - 1);
        if (s_collapse(self, entry) == CREMA_OK) {
            given_up += n;
            crema_spool_drop_behind_end(self, entry);
        }
    }
    entry->public.lost += given_up;
    return given_up;
}

/* Closed before open, then by age. */
static int
s_compare_age(const void *a, const void *b)
{
    const crema_spool_stream_t *x = &(*(crema_spool_entry_t *const *)a)->public;
    const crema_spool_stream_t *y = &(*(crema_spool_entry_t *const *)b)->public;
    if (x->closed != y->closed)
        return x->closed ? -1 : 1;
    if (x->info.t_real_ns != y->info.t_real_ns)
        return x->info.t_real_ns < y->info.t_real_ns ? -1 : 1;
    return crema_id_compare(&x->stream_id, &y->stream_id);
}

/* The user to whom a stream's bytes are charged; NULL: it has no StreamInfo, or out of memory. */
static crema_spool_user_t *
s_holder(crema_spool_t *self, const crema_spool_entry_t *entry)
{
    return entry->head_bytes > 0 ? crema_spool_user(self, entry->segments[0].owner) : NULL;
}

/* Sums up what each user holds; *ret_users: those who hold anything. */
static uint64_t
s_sum_bytes(crema_spool_t *self, size_t *ret_users)
{
    uint64_t held = 0;
    *ret_users = 0;
    for (size_t i = 0; i < self->n_users; i++)
        self->users[i].bytes = 0;
    for (size_t i = 0; i < self->n_entries; i++) {
        const crema_spool_entry_t *entry = self->entries[i];
        crema_spool_user_t *user = s_holder(self, entry);
        if (!user)
            continue;
        *ret_users += user->bytes == 0 && entry->public.bytes > 0;
        user->bytes += entry->public.bytes;
        held += entry->public.bytes;
    }
    return held;
}

uint64_t
crema_spool_evict(crema_spool_t *self, uint64_t max_bytes)
{
    size_t n_users;
    uint64_t held = s_sum_bytes(self, &n_users), given_up = 0;
    if (held <= max_bytes || n_users == 0)
        return 0;
    crema_spool_entry_t **byage = calloc(self->n_entries, sizeof *byage);
    if (!byage)
        return 0;
    for (size_t i = 0; i < self->n_entries; i++)
        byage[i] = self->entries[i];
    qsort(byage, self->n_entries, sizeof *byage, s_compare_age);
    const uint64_t share = max_bytes / n_users;
    for (size_t i = 0; i < self->n_entries && held > max_bytes; i++) {
        crema_spool_user_t *user = s_holder(self, byage[i]);
        if (!user || user->bytes <= share)
            continue;
        const uint64_t above = user->bytes - share, excess = held - max_bytes;
        uint64_t before_b = byage[i]->public.bytes;
        given_up += s_evict_entry(self, byage[i], above < excess ? above : excess);
        held -= before_b - byage[i]->public.bytes;
        user->bytes -= before_b - byage[i]->public.bytes;
    }
    free(byage);
    self->stats.evicted += given_up;
    return given_up;
}
