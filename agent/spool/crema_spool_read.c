/* Reads records for delivery. A LOSS frame depends only on the spool around the missing numbers,
 * so a record that is sent again has the same bytes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "crema_spool_private.h"
#include "crema_time.h"

#define LOSS_BYTES_MAX 160

/* State of one call of crema_spool_read(). */
typedef struct {
    crema_spool_t *spool;
    crema_spool_entry_t *entry;
    uint8_t *buf;
    size_t size, used;
    uint64_t next;      /* expected number */
    uint64_t damaged_b; /* skipped since the previous record */
    uint32_t n;
    bool full; /* the next frame did not fit */
} s_read_t;

static crema_loss_reason_t
s_reason(const crema_spool_stream_t *stream, uint64_t first, uint64_t last)
{
    if (last >= stream->first_avail)
        return CREMA_LOSS_CORRUPT;
    return first <= stream->committed ? CREMA_LOSS_STORE_REGRESSED : CREMA_LOSS_EVICTED;
}

/* The time of detection would differ between reads, so the time of the following record is used. */
static crema_err_t
s_put_loss(s_read_t *read, uint64_t last, int64_t t_ns)
{
    const crema_spool_stream_t *stream = &read->entry->public;
    crema_record_t record = {
        .type = CREMA_RECORD_LOSS,
        .loss = {.first = read->next,
                 .last = last,
                 .reason = s_reason(stream, read->next, last),
                 .bytes = read->damaged_b,
                 .t_real_ns =
                     t_ns ? crema_time_shift(t_ns, stream->info.t_mono_ns, stream->info.t_real_ns)
                          : 0},
    };
    uint8_t frame[LOSS_BYTES_MAX];
    size_t n;
    crema_err_t err = crema_record_encode(&record, last, t_ns, frame, sizeof frame, &n);
    if (err != CREMA_OK)
        return err;
    if (n > read->size - read->used) {
        read->full = true;
        return CREMA_OK;
    }
    memcpy(read->buf + read->used, frame, n);
    read->used += n;
    read->n++;
    read->next = last + 1;
    return CREMA_OK;
}

static crema_err_t
s_put_record(s_read_t *read, const crema_walk_item_t *item)
{
    const crema_frame_t *frame = &item->frame;
    if (frame->seq < read->next) {
        read->damaged_b = 0;
        return CREMA_OK;
    }
    if (frame->seq > read->next) {
        crema_err_t err = s_put_loss(read, frame->seq - 1, frame->t_ns);
        if (err != CREMA_OK || read->full)
            return err;
    }
    read->damaged_b = 0;
    size_t n = crema_frame_bytes(frame);
    if (n > read->size - read->used) {
        read->full = true;
        return CREMA_OK;
    }
    memcpy(read->buf + read->used, item->bytes, n);
    read->used += n;
    read->n++;
    read->next = frame->seq + 1;
    return CREMA_OK;
}

static crema_err_t
s_walk_open_segment(s_read_t *read, size_t i, int fd)
{
    crema_spool_entry_t *entry = read->entry;
    crema_walk_t *walk = read->spool->walk;
    const crema_spool_segment_t *segment = &entry->segments[i];
    uint64_t due = segment->first_seq, offset = 0;
    if (i > 0 && entry->segments[i - 1].last_seq >= due)
        due = entry->segments[i - 1].last_seq + 1;
    if (entry->read_seq == read->next && entry->read_segment == segment->first_seq) {
        due = read->next;
        offset = entry->read_offset;
    }
    crema_walk_start(walk, fd, offset, segment->size, due);
    crema_walk_expect(walk, read->size - read->used + CREMA_FRAME_HEADER_BYTES);
    while (!read->full && read->next <= entry->public.hi) {
        /* What does not fit is neither read nor checked yet: the next read begins with it. */
        if (read->n > 0 && crema_walk_peek(walk) > read->size - read->used) {
            read->full = true;
            break;
        }
        crema_walk_item_t item;
        crema_err_t err = crema_walk_step(walk, &item);
        if (err != CREMA_OK) {
            crema_spool_blame(read->spool, &entry->read_fault, segment->first_seq, errno);
            return err;
        }
        if (item.kind == CREMA_WALK_CLEAN)
            break;
        if (item.kind == CREMA_WALK_RECORD) {
            err = s_put_record(read, &item);
            if (err != CREMA_OK)
                return err;
            if (item.frame.seq + 1 == read->next) {
                entry->read_seq = read->next;
                entry->read_segment = segment->first_seq;
                entry->read_offset = crema_walk_offset(walk);
            }
        } else {
            read->damaged_b += item.damaged_b;
            if (item.kind == CREMA_WALK_TAIL)
                break;
        }
    }
    return CREMA_OK;
}

static crema_err_t
s_walk_segment(s_read_t *read, size_t i)
{
    crema_spool_entry_t *entry = read->entry;
    uint64_t first_seq = entry->segments[i].first_seq;
    if (entry->fd >= 0 && entry->fd_segment == first_seq)
        return s_walk_open_segment(read, i, entry->fd);
    int fd = crema_spool_open_segment(read->spool, entry, first_seq);
    if (fd < 0) {
        crema_spool_blame(read->spool, &entry->read_fault, first_seq, errno);
        read->spool->list_again = true;
        return CREMA_EIO;
    }
    crema_err_t err = s_walk_open_segment(read, i, fd);
    close(fd);
    return err;
}

crema_err_t
crema_spool_read(crema_spool_t *self, const crema_id_t *stream_id, uint64_t first_seq, uint8_t *buf,
                 size_t size, size_t *ret_bytes, uint32_t *ret_n, uint64_t *ret_last)
{
    crema_spool_entry_t *entry = crema_spool_entry(self, stream_id);
    if (!entry)
        return CREMA_ENOENT;
    if (first_seq == 0)
        return CREMA_EINVAL;
    s_read_t read = {.spool = self, .entry = entry, .size = size, .next = first_seq};
    read.buf = buf;
    entry->read_fault.why = 0;
    size_t i = entry->n_segments - 1;
    while (i > 0 && entry->segments[i].first_seq > first_seq)
        i--;
    crema_err_t err = CREMA_OK;
    for (; err == CREMA_OK && i < entry->n_segments && !read.full && read.next <= entry->public.hi;
         i++)
        err = s_walk_segment(&read, i);
    /* Numbers that existed once and are gone. */
    if (err == CREMA_OK && !read.full && read.next <= entry->public.hi)
        err = s_put_loss(&read, entry->public.hi, 0);
    if (err == CREMA_OK && read.full && read.n == 0)
        err = CREMA_ELIMIT;
    if (err != CREMA_OK) {
        entry->read_seq = 0;
        self->stats.io_errors += err == CREMA_EIO;
        return err;
    }
    *ret_bytes = read.used;
    *ret_n = read.n;
    *ret_last = read.next - 1;
    return CREMA_OK;
}
