/* Reads on in a stream: its last number, whether it is closed, what is damaged. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_clock.h"
#include "crema_spool_private.h"

/* Replaces texts of the info by copies; NULL where copying failed. */
static bool
s_keep_texts(Crema__StreamInfo *info)
{
    char **texts[] = {&info->host, &info->worker_uuid, &info->worker_name, &info->boot_id};
    bool kept = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = strdup(*texts[i]);
        kept = kept && *texts[i];
    }
    return kept;
}

/* A StreamInfo that cannot be decoded leaves the stream without a run: foreign. CREMA_ENOMEM:
 * read it again later. */
static crema_err_t
s_identify(crema_spool_t *self, crema_spool_entry_t *entry, const crema_frame_t *frame)
{
    crema_record_t record;
    if (entry->head_bytes || frame->type != CREMA_RECORD_STREAM)
        return CREMA_OK;
    crema_err_t err = crema_record_decode(frame, self->arena, &record);
    if (err == CREMA_ENOMEM)
        return err;
    if (err != CREMA_OK)
        return CREMA_OK;
    Crema__StreamInfo info = record.stream;
    info.run_id = info.agent_id = (ProtobufCBinaryData){0};
    info.n_attribute_keys = info.n_attribute_values = 0;
    info.attribute_keys = info.attribute_values = NULL;
    if (!s_keep_texts(&info)) {
        crema_spool_free_texts(&info);
        return CREMA_ENOMEM;
    }
    entry->public.info = info;
    entry->public.run_id = *crema_id_of(record.stream.run_id);
    entry->head_bytes = crema_frame_bytes(frame);
    return CREMA_OK;
}

/* Numbers first..last are missing. Directly after record 1 and without damage they were trimmed
 * or evicted. */
static void
s_on_missing(crema_spool_t *self, crema_spool_entry_t *entry, uint64_t first, uint64_t last,
             uint64_t damaged_b)
{
    if (last <= entry->public.hi)
        return; /* already walked */
    if (first == 2 && damaged_b == 0) {
        entry->public.first_avail = last + 1;
        return;
    }
    uint64_t from = first > entry->public.hi ? first : entry->public.hi + 1;
    entry->public.lost += last - from + 1;
    self->stats.corrupt += last - from + 1;
}

static crema_err_t
s_on_record(crema_spool_t *self, crema_spool_entry_t *entry, crema_spool_segment_t *segment,
            const crema_frame_t *frame, uint64_t end)
{
    crema_err_t err = frame->seq == 1 ? s_identify(self, entry, frame) : CREMA_OK;
    if (err != CREMA_OK)
        return err;
    segment->last_seq = frame->seq;
    segment->offset = end;
    entry->last_t_ns = frame->t_ns;
    if (frame->seq > entry->public.hi)
        entry->public.hi = frame->seq;
    if (frame->type == CREMA_RECORD_END) {
        entry->public.closed = true;
        entry->end_segment = segment->first_seq;
        entry->end_bytes = crema_frame_bytes(frame);
        entry->end_at = end - entry->end_bytes;
    }
    return CREMA_OK;
}

/* Walks segment i from its last position. */
static crema_err_t
s_walk_segment(crema_spool_t *self, crema_spool_entry_t *entry, size_t i, int fd)
{
    crema_spool_segment_t *segment = &entry->segments[i];
    uint64_t due = segment->last_seq + 1;
    if (i > 0 && entry->segments[i - 1].last_seq >= due)
        due = entry->segments[i - 1].last_seq + 1;
    crema_walk_start(self->walk, fd, segment->offset, segment->size, due);
    crema_walk_search(self->walk, &self->search_left);
    for (;;) {
        crema_walk_item_t item;
        crema_err_t err = crema_walk_step(self->walk, &item);
        if (err != CREMA_OK)
            return err;
        if (item.kind == CREMA_WALK_LOST)
            s_on_missing(self, entry, item.first, item.last, item.damaged_b);
        else if (item.kind == CREMA_WALK_RECORD)
            err = s_on_record(self, entry, segment, &item.frame, crema_walk_offset(self->walk));
        else
            return CREMA_OK;
        if (err != CREMA_OK || entry->public.closed)
            return err;
    }
}

/* A segment that became shorter is walked again from its start; numbers in the missing part are
 * lost. */
static void
s_resize(crema_spool_entry_t *entry, crema_spool_segment_t *segment, uint64_t size)
{
    if (size < segment->offset) {
        segment->offset = 0;
        segment->last_seq = segment->first_seq - 1;
        entry->read_seq = 0;
    }
    entry->public.bytes += size - segment->size;
    segment->size = size;
}

static int
s_open(crema_spool_t *self, crema_spool_entry_t *entry, size_t i)
{
    uint64_t first_seq = entry->segments[i].first_seq;
    if (i + 1 < entry->n_segments)
        return crema_spool_open_segment(self, entry, first_seq);
    if (entry->fd >= 0 && entry->fd_segment == first_seq)
        return entry->fd;
    if (entry->fd >= 0)
        close(entry->fd);
    entry->fd = crema_spool_open_segment(self, entry, first_seq);
    entry->fd_segment = first_seq;
    return entry->fd;
}

/* Segments are missing at the start or after the first one: these were committed and are not
 * lost. Any other gap is a loss. */
static void
s_check_gap(crema_spool_t *self, crema_spool_entry_t *entry, size_t i)
{
    const crema_spool_segment_t *segment = &entry->segments[i];
    if (i == 0) {
        if (entry->public.first_avail < segment->first_seq)
            entry->public.first_avail = segment->first_seq;
        return;
    }
    const crema_spool_segment_t *before = segment - 1;
    if (segment->first_seq > before->last_seq + 1)
        s_on_missing(self, entry, before->last_seq + 1, segment->first_seq - 1,
                     before->size - before->offset);
}

/* What follows the last record may be cut and rewritten with the same length, as a writer does
 * after a failed write. */
static bool
s_is_walked(const crema_spool_segment_t *segment, const struct stat *st)
{
    if (segment->size != segment->walked)
        return false;
    return segment->offset == segment->size ||
           (segment->walked_settled && segment->walked_changed_ns == crema_clock_ns(st->st_mtim));
}

static void
s_note_walked(crema_spool_segment_t *segment, const struct stat *st, int64_t now_ns)
{
    segment->walked = segment->size;
    segment->walked_changed_ns = crema_clock_ns(st->st_mtim);
    segment->walked_settled = now_ns - segment->walked_changed_ns > CREMA_SPOOL_GRAIN_NS;
}

static bool
s_begins_with_a_record(int fd)
{
    uint8_t start[sizeof(uint32_t)];
    uint32_t magic;
    if (pread(fd, start, sizeof start, 0) != (ssize_t)sizeof start)
        return true; /* too short to tell, or unreadable, which the walk reports */
    memcpy(&magic, start, sizeof magic);
    return le32toh(magic) == CREMA_FRAME_MAGIC;
}

/* Reads on in segment i; returns 0 or an errno. */
static int
s_scan_segment(crema_spool_t *self, crema_spool_entry_t *entry, size_t i, int fd)
{
    crema_spool_segment_t *segment = &entry->segments[i];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (segment->first_seq == 1)
        entry->public.owner = st.st_uid;
    int64_t now_ns = crema_clock_real_ns();
    if (entry->head_bytes == 0 && entry->n_segments == 1 && !s_begins_with_a_record(fd)) {
        s_resize(entry, segment, 0); /* a foreign file: nothing in it is searched for */
        return 0;
    }
    /* What is longer than any writer makes it is not read to its end. */
    s_resize(entry, segment,
             (uint64_t)st.st_size < CREMA_SPOOL_SEGMENT_MAX ? (uint64_t)st.st_size
                                                            : CREMA_SPOOL_SEGMENT_MAX);
    s_check_gap(self, entry, i);
    if (s_is_walked(segment, &st))
        return 0;
    crema_err_t err = s_walk_segment(self, entry, i, fd);
    if (err != CREMA_OK)
        return err == CREMA_ENOMEM ? ENOMEM : err == CREMA_EAGAIN ? EAGAIN : errno;
    s_note_walked(segment, &st, now_ns);
    return 0;
}

void
crema_spool_scan_entry(crema_spool_t *self, crema_spool_entry_t *entry)
{
    entry->scan_fault.why = 0;
    for (size_t i = 0; i < entry->n_segments && !entry->public.closed; i++) {
        crema_spool_segment_t *segment = &entry->segments[i];
        bool newest = i + 1 == entry->n_segments;
        if (segment->final)
            continue;
        int fd = s_open(self, entry, i);
        int why = fd < 0 ? errno : s_scan_segment(self, entry, i, fd);
        if (fd >= 0 && !newest)
            close(fd);
        if (why != 0) {
            self->stats.io_errors += fd >= 0 && why != EAGAIN;
            if (why != EAGAIN ||
                entry->head_bytes > 0) /* else it is foreign as far as it was read */
                crema_spool_blame(self, &entry->scan_fault, segment->first_seq, why);
            return;
        }
        segment->final = !newest;
    }
}
