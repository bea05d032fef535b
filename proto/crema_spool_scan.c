/* Reading on in one stream: its last number, whether it is closed, what of it is damaged. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_spool_private.h"

/* Texts of the info become copies; NULL for what could not be copied. */
static bool
s_keep_texts(crema_stream_info_t *info)
{
    const char **texts[] = {&info->host, &info->worker_uuid, &info->worker_name, &info->boot_id};
    bool kept = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = strdup(*texts[i] ? *texts[i] : "");
        kept = kept && *texts[i];
    }
    return kept;
}

/* A StreamInfo that cannot be decoded leaves the stream without a run: foreign. */
static void
s_identify(crema_spool_t *self, crema_spool_entry_t *entry, const crema_frame_t *frame)
{
    crema_record_t record;
    if (entry->head_bytes || frame->type != CREMA_RECORD_STREAM ||
        crema_record_decode(frame, self->arena, &record) != CREMA_OK ||
        crema_id_is_zero(&record.stream.run_id))
        return;
    crema_stream_info_t info = record.stream;
    info.n_attributes = 0;
    info.attribute_keys = info.attribute_values = NULL;
    if (!s_keep_texts(&info)) {
        crema_spool_free_texts(&info);
        self->stats.io_errors++;
        return;
    }
    entry->public.info = info;
    entry->public.run_id = info.run_id;
    entry->head_bytes = crema_frame_bytes(frame);
}

/* Numbers first..last are not there. Right behind record 1 and without damage they were trimmed or evicted. */
static void
s_on_missing(crema_spool_t *self, crema_spool_entry_t *entry, uint64_t first, uint64_t last,
             uint64_t damaged_b)
{
    if (last <= entry->public.hi)
        return; /* walked over before */
    if (first == 2 && damaged_b == 0) {
        entry->public.first_avail = last + 1;
        return;
    }
    uint64_t from = first > entry->public.hi ? first : entry->public.hi + 1;
    entry->public.lost += last - from + 1;
    self->stats.corrupt += last - from + 1;
}

static void
s_on_record(crema_spool_t *self, crema_spool_entry_t *entry, crema_spool_segment_t *segment,
            const crema_frame_t *frame, uint64_t end)
{
    if (frame->seq == 1)
        s_identify(self, entry, frame);
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
}

/* Walks segment i from where it was left. */
static crema_err_t
s_walk_segment(crema_spool_t *self, crema_spool_entry_t *entry, size_t i, int fd)
{
    crema_spool_segment_t *segment = &entry->segments[i];
    uint64_t due = segment->last_seq + 1;
    if (i > 0 && entry->segments[i - 1].last_seq >= due)
        due = entry->segments[i - 1].last_seq + 1;
    crema_walk_start(self->walk, fd, segment->offset, segment->size, due);
    for (;;) {
        crema_walk_item_t item;
        crema_err_t err = crema_walk_step(self->walk, &item);
        if (err != CREMA_OK)
            return err;
        if (item.kind == CREMA_WALK_LOST)
            s_on_missing(self, entry, item.first, item.last, item.damaged_b);
        else if (item.kind == CREMA_WALK_RECORD)
            s_on_record(self, entry, segment, &item.frame, crema_walk_offset(self->walk));
        else
            return CREMA_OK;
        if (entry->public.closed)
            return CREMA_OK;
    }
}

/* A segment that became shorter is walked again from its start; numbers that went with its end are lost. */
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
    bool writable;
    if (i + 1 < entry->n_segments)
        return crema_spool_open_segment(self, entry, first_seq, &writable);
    if (entry->fd >= 0 && entry->fd_segment == first_seq)
        return entry->fd;
    if (entry->fd >= 0)
        close(entry->fd);
    entry->fd = crema_spool_open_segment(self, entry, first_seq, &writable);
    entry->fd_segment = first_seq;
    return entry->fd;
}

/* The stream's first segment is gone, or what follows it: nothing of that is lost, it was committed. */
static void
s_mind_gap(crema_spool_t *self, crema_spool_entry_t *entry, size_t i)
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

void
crema_spool_scan_entry(crema_spool_t *self, crema_spool_entry_t *entry)
{
    for (size_t i = 0; i < entry->n_segments && !entry->public.closed; i++) {
        crema_spool_segment_t *segment = &entry->segments[i];
        bool newest = i + 1 == entry->n_segments;
        if (segment->final)
            continue;
        int fd = s_open(self, entry, i);
        if (fd < 0)
            return;
        struct stat st;
        crema_err_t err = CREMA_EIO;
        if (fstat(fd, &st) == 0) {
            s_resize(entry, segment, (uint64_t)st.st_size);
            s_mind_gap(self, entry, i);
            err = segment->size != segment->walked ? s_walk_segment(self, entry, i, fd) : CREMA_OK;
        }
        if (!newest)
            close(fd);
        if (err != CREMA_OK) {
            self->stats.io_errors++;
            return;
        }
        segment->walked = segment->size;
        segment->final = !newest;
    }
}
