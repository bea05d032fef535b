#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_journal_impl.h"
#include "sink_segments.h"

/* ---- handling the newest segment after a kill, a power cut or a disk error */

void
sink_journal_trust(sink_journal_t *self)
{
    const sink_renewal_t *renewal = &self->work.renewal;
    if (renewal->segment == self->segment && renewal->size == renewal->sound)
        self->work.renews = false;
}

static crema_err_t
s_set_aside(const char *path)
{
    char aside[PATH_MAX + 16];
    snprintf(aside, sizeof aside, "%s.damaged", path);
    return rename(path, aside) == 0 ? CREMA_OK : sink_fs_error(errno);
}

/* Removes what a kill or a full disk left of a new segment. */
static crema_err_t
s_remove_empty(const char *path)
{
    crema_failpoint("sink.before_torn_unlink");
    int rc = unlink(path);
    crema_failpoint("sink.after_torn_unlink");
    return rc == 0 ? CREMA_OK : sink_fs_error(errno);
}

/* ---- adopting existing segments */

/* The content of one segment. */
typedef struct {
    size_t sound; /* bytes that count */
    size_t frames;
    bool headed;
} scan_t;

static crema_err_t
s_refuse_foreign(const sink_journal_t *self, const sink_header_t *header)
{
    if (!crema_id_equal(&header->run_id, &self->header.run_id) ||
        !crema_id_equal(&header->store_id, &self->header.store_id))
        return CREMA_EMAGIC;
    return header->generation > self->header.generation ? CREMA_EBUSY : CREMA_OK;
}

/* Finds the number of the last frame, and refuses a segment of another store or run, or of a
 * later sink. */
static crema_err_t
s_scan(sink_journal_t *self, const uint8_t *bytes, size_t size, scan_t *ret_scan)
{
    size_t offset = 0, skipped;
    scan_t scan = {.sound = sink_segment_sound(bytes, size)};
    crema_frame_t frame;
    while (sink_segment_next(bytes, scan.sound, &offset, &frame, &skipped) == CREMA_OK) {
        sink_header_t header;
        sink_journal_state_t state;
        if (sink_state_decode(&frame, &state) && state.next_frame > self->next_seq)
            self->next_seq = state.next_frame;
        if (sink_header_decode(&frame, &header)) {
            crema_err_t err = s_refuse_foreign(self, &header);
            if (err != CREMA_OK)
                return err;
            scan.headed = true;
        } else {
            scan.frames++;
            if (frame.seq >= self->next_seq)
                self->next_seq = frame.seq + 1;
        }
    }
    *ret_scan = scan;
    return CREMA_OK;
}

static bool
s_ends_with_checkpoint(const uint8_t *bytes, size_t size)
{
    sink_journal_state_t state;
    size_t end;
    return sink_checkpoint_find(bytes, size, &state, &end) == CREMA_OK && end == size;
}

/* Replaces a segment of which the disk does not give everything by what it gives, and syncs that.
 * The old file gets another name first: its bytes may be readable again. */
static crema_err_t
s_copy_readable(const sink_journal_t *self, const char *path, uint32_t number, const uint8_t *bytes,
                size_t size)
{
    char name[64], other[PATH_MAX];
    snprintf(name, sizeof name, "%06u" SINK_SEGMENT_UNREAD, number);
    if (link(path, sink_fs_path(self->dir, name, other)) != 0 && errno != EEXIST)
        return sink_fs_error(errno);
    snprintf(name, sizeof name, "%06u.journal", number);
    return sink_fs_replace(self->dir, name, bytes, size);
}

static crema_err_t
s_keep_readable(const sink_journal_t *self, const char *path, uint32_t number, const uint8_t *bytes,
                size_t size, size_t sound)
{
    crema_err_t err = CREMA_OK;
    if (size > sound)
        err = sink_journal_keep_torn(self, number, bytes + sound, size - sound);
    return err == CREMA_OK ? s_copy_readable(self, path, number, bytes, sound) : err;
}

/* Prepares one existing segment to be followed by a new one. It is removed if it was never written
 * to, or if nothing in it is readable. */
static crema_err_t
s_adopt(sink_journal_t *self, const char *path, uint32_t number)
{
    uint8_t *bytes;
    size_t size;
    scan_t scan = {0};
    sink_unread_t unread = {0};
    crema_err_t err = sink_unread_read(path, SINK_SEGMENT_BYTES_MAX, &bytes, &size, &unread);
    if (err != CREMA_OK)
        return err;
    if (!bytes) { /* how far the streams are is not known at all */
        errno = unread.why;
        return unread.why == EFBIG ? CREMA_ELIMIT : CREMA_EIO;
    }
    bool short_one = size <= SINK_SEGMENT_HEADER_BYTES;
    err = s_scan(self, bytes, size, &scan);
    if (err == CREMA_OK && scan.frames > 0) {
        self->torn_bytes += size - scan.sound;
        self->rests = s_ends_with_checkpoint(bytes, scan.sound);
        if (unread.bytes == 0 && self->work.renewal.segment == 0)
            self->work.renewal =
                (sink_renewal_t){number, scan.sound, size, libdeflate_crc32(0, bytes, scan.sound)};
        else if (unread.bytes > 0)
            err = s_keep_readable(self, path, number, bytes, size, scan.sound);
    } else if (err == CREMA_OK && short_one) {
        self->torn_bytes += scan.headed ? 0 : size;
        err = s_remove_empty(path);
    } else if (err == CREMA_OK) {
        err = s_set_aside(path);
    }
    free(bytes);
    return err;
}

/* Only the newest segments can be torn or have unsynced pages: earlier ones were synced before
 * their successor was created. It goes back until the number of the last frame is known. */
static crema_err_t
s_recover(sink_journal_t *self, const sink_segments_t *found, char where[PATH_MAX])
{
    crema_err_t err = CREMA_OK;
    for (size_t i = found->n; err == CREMA_OK && i > 0 && self->next_seq == 1; i--) {
        const uint32_t number = found->numbers[i - 1];
        err = s_adopt(self, sink_segments_path(self->dir, number, where), number);
    }
    self->work.renews = self->segment > 0;
    return err;
}

/* ---- reading from the newest checkpoint */

/* Index of the newest segment that begins with a complete checkpoint; *ret_found is false if
 * there is none. */
static crema_err_t
s_find_start(const char *dir, const sink_segments_t *segments, size_t *ret_start, bool *ret_found,
             char where[PATH_MAX])
{
    *ret_start = 0;
    *ret_found = false;
    for (size_t i = segments->n; i > 0 && !*ret_found; i--) {
        uint8_t *bytes;
        size_t size, end;
        sink_journal_state_t state;
        sink_unread_t ignored = {0}; /* the reading from there on meets it again */
        crema_err_t err = sink_unread_read(sink_segments_path(dir, segments->numbers[i - 1], where),
                                           SINK_SEGMENT_BYTES_MAX, &bytes, &size, &ignored);
        if (err != CREMA_OK)
            return err;
        *ret_found = sink_checkpoint_find(bytes, size, &state, &end) == CREMA_OK;
        *ret_start = i - 1;
        free(bytes);
    }
    return CREMA_OK;
}

static crema_err_t
s_replay(const char *dir, const sink_segments_t *segments, const sink_journal_visitor_t *visitor,
         sink_journal_report_t *ret_report, char where[PATH_MAX])
{
    size_t start;
    bool found;
    crema_err_t err = s_find_start(dir, segments, &start, &found, where);
    if (err != CREMA_OK)
        return err;
    return sink_journal_read_segments(dir, segments, start, !found, visitor, ret_report, where);
}

static crema_err_t
s_open(sink_journal_t *self, const sink_journal_visitor_t *visitor,
       sink_journal_report_t *ret_report, char where[PATH_MAX])
{
    sink_segments_t found;
    snprintf(where, PATH_MAX, "%s", self->dir);
    crema_err_t err = sink_segments_find(self->dir, &found);
    if (err != CREMA_OK)
        return err;
    self->segment = found.newest;
    err = s_recover(self, &found, where);
    free(found.numbers);
    if (err == CREMA_OK)
        err = sink_segments_find(self->dir, &found); /* some may have been removed */
    if (err != CREMA_OK)
        return err;
    self->bytes = found.bytes;
    *ret_report = (sink_journal_report_t){0};
    if (visitor && found.n > 0)
        err = s_replay(self->dir, &found, visitor, ret_report, where);
    if (!visitor || found.n == 0)
        ret_report->damaged_bytes = found.damaged_bytes;
    free(found.numbers);
    ret_report->torn_bytes = self->torn_bytes;
    return err;
}

crema_err_t
sink_journal_open(const char *dir, const crema_id_t *store_id, const crema_id_t *run_id,
                  uint64_t generation, const sink_journal_visitor_t *visitor,
                  sink_journal_report_t *ret_report, char ret_where[PATH_MAX],
                  sink_journal_t **ret_self)
{
    char where[PATH_MAX];
    sink_journal_report_t report = {0};
    snprintf(where, sizeof where, "%s", dir);
    crema_err_t err = sink_fs_make_name(dir);
    sink_journal_t *self = err == CREMA_OK ? calloc(1, sizeof *self) : NULL;
    if (err == CREMA_OK && !self)
        err = CREMA_ENOMEM;
    if (self) {
        self->fd = self->work.fd = -1;
        self->next_seq = 1;
        self->header = (sink_header_t){*store_id, *run_id, generation};
        self->dir = strdup(dir);
        err = self->dir ? s_open(self, visitor, &report, where) : CREMA_ENOMEM;
    }
    if (err != CREMA_OK) {
        int why = errno;
        snprintf(ret_where, PATH_MAX, "%s", where);
        sink_journal_close(&self);
        errno = why;
        return err;
    }
    *ret_report = report;
    *ret_self = self;
    return CREMA_OK;
}

/* ---- reading without opening */

crema_err_t
sink_journal_look(const char *dir, const sink_journal_visitor_t *visitor,
                  sink_journal_report_t *ret_report, char ret_where[PATH_MAX])
{
    sink_segments_t found;
    snprintf(ret_where, PATH_MAX, "%s", dir);
    crema_err_t err = sink_segments_find(dir, &found);
    if (err != CREMA_OK)
        return err;
    err = found.n > 0 ? s_replay(dir, &found, visitor, ret_report, ret_where) : CREMA_ENOENT;
    free(found.numbers);
    return err;
}

crema_err_t
sink_journal_peek(const char *dir, const crema_id_t *store_id, const crema_id_t *run_id,
                  sink_journal_state_t *ret_state, uint64_t *ret_bytes, char ret_where[PATH_MAX])
{
    sink_segments_t found;
    struct stat st;
    uint8_t head[SINK_SEGMENT_HEADER_BYTES + CREMA_FRAME_HEADER_BYTES + SINK_STATE_BODY_BYTES];
    crema_frame_t first, frame;
    sink_header_t header;
    snprintf(ret_where, PATH_MAX, "%s", dir);
    crema_err_t err = sink_segments_find(dir, &found);
    if (err != CREMA_OK)
        return err;
    if (found.n > 0)
        sink_segments_path(dir, found.numbers[found.n - 1], ret_where);
    err = found.n > 0 ? sink_fs_read_at(ret_where, 0, head, sizeof head) : CREMA_ENOENT;
    free(found.numbers);
    if (err == CREMA_OK &&
        (found.damaged_bytes > 0 || crema_frame_decode(head, sizeof head, &first) != CREMA_OK ||
         !sink_header_decode(&first, &header) || !crema_id_equal(&header.store_id, store_id) ||
         !crema_id_equal(&header.run_id, run_id) ||
         crema_frame_decode(head + SINK_SEGMENT_HEADER_BYTES,
                            sizeof head - SINK_SEGMENT_HEADER_BYTES, &frame) != CREMA_OK ||
         !sink_state_decode(&frame, ret_state) || stat(ret_where, &st) != 0 ||
         (uint64_t)st.st_size !=
             SINK_SEGMENT_HEADER_BYTES + sink_checkpoint_bytes(ret_state->n_marks)))
        err = CREMA_ENOENT;
    if (err == CREMA_OK)
        *ret_bytes = found.bytes;
    return err;
}
