#include "sink_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_journal_impl.h"
#include "sink_segments.h"

/* ---- the open segment */

static void
s_end_segment(sink_journal_t *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}

/* Removes a segment from which nothing was ever acknowledged. */
static void
s_drop_segment(sink_journal_t *self)
{
    char path[PATH_MAX];
    s_end_segment(self);
    if (sink_segments_path(self->dir, self->segment, path) != CREMA_OK || unlink(path) != 0)
        return;
    self->segment--;
    self->bytes -= self->segment_bytes;
}

static bool
s_is_empty(const sink_journal_t *self)
{
    return self->fd >= 0 && self->segment_bytes == SINK_SEGMENT_HEADER_BYTES &&
           self->unsynced_bytes == 0;
}

void
sink_journal_close(sink_journal_t **self_p)
{
    sink_journal_t *self = *self_p;
    if (self) {
        if (s_is_empty(self) && !self->broken)
            s_drop_segment(self);
        s_end_segment(self);
        free(self->group);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}

/* ---- appending */

static crema_err_t
s_reserve(sink_journal_t *self, size_t more)
{
    if (more > SINK_GROUP_BYTES_MAX - self->group_bytes)
        return CREMA_ELIMIT;
    if (self->group_bytes + more <= self->group_room)
        return CREMA_OK;
    size_t room = self->group_room ? self->group_room : 64u << 10;
    while (room < self->group_bytes + more)
        room *= 2;
    uint8_t *grown = realloc(self->group, room);
    if (!grown)
        return CREMA_ENOMEM;
    self->group = grown;
    self->group_room = room;
    return CREMA_OK;
}

/* What is written is synced before the next group is written. */
static bool
s_follows_synced(const sink_journal_t *self)
{
    return self->fd >= 0 && self->segment_bytes + self->unsynced_bytes > SINK_SEGMENT_HEADER_BYTES;
}

/* The body is `head` and then `tail`. */
static crema_err_t
s_append(sink_journal_t *self, sink_journal_type_t type, int64_t t_ns, const uint8_t *head,
         size_t head_bytes, const uint8_t *tail, size_t tail_bytes)
{
    if (self->broken)
        return CREMA_EIO;
    if (tail_bytes > CREMA_FRAME_BODY_MAX - head_bytes)
        return CREMA_ELIMIT;
    crema_err_t err = s_reserve(self, CREMA_FRAME_HEADER_BYTES + head_bytes + tail_bytes);
    if (err != CREMA_OK)
        return err;
    bool begins = self->group_bytes == 0;
    if (begins) {
        self->group_follows = s_follows_synced(self);
        self->group_seq = self->next_seq;
    }
    uint8_t *out = self->group + self->group_bytes;
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    memcpy(body, head, head_bytes);
    if (tail_bytes)
        memcpy(body + head_bytes, tail, tail_bytes);
    crema_frame_t frame = {
        .seq = self->next_seq++,
        .t_ns = t_ns,
        .type = (uint16_t)type,
        .flags = begins && self->group_follows ? SINK_FRAME_BEGINS_GROUP : 0,
        .len = (uint32_t)(head_bytes + tail_bytes),
        .body = body,
    };
    crema_frame_encode(&frame, out);
    self->group_bytes += crema_frame_bytes(&frame);
    return CREMA_OK;
}

crema_err_t
sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put)
{
    uint8_t head[SINK_PUT_HEAD_BYTES];
    sink_put_head_encode(put, head);
    return s_append(self, SINK_JOURNAL_PUT, put->t_recv_ns, head, sizeof head, put->frames,
                    put->frames_bytes);
}

static crema_err_t
s_append_message(sink_journal_t *self, sink_journal_type_t type, const crema_msg_t *msg,
                 int64_t t_real_ns)
{
    uint8_t *bytes;
    size_t size;
    crema_err_t err = crema_wire_encode(msg, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    err = s_append(self, type, t_real_ns, bytes, size, NULL, 0);
    free(bytes);
    return err;
}

crema_err_t
sink_journal_run(sink_journal_t *self, crema_msg_type_t type, const crema_run_msg_t *msg,
                 int64_t t_real_ns)
{
    return s_append_message(self, SINK_JOURNAL_RUN, &(crema_msg_t){.type = type, .run = *msg},
                            t_real_ns);
}

crema_err_t
sink_journal_writers(sink_journal_t *self, const crema_writers_msg_t *msg, int64_t t_real_ns)
{
    return s_append_message(self, SINK_JOURNAL_RUN,
                            &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .writers = *msg},
                            t_real_ns);
}

crema_err_t
sink_journal_clock(sink_journal_t *self, const crema_clock_sample_t *sample, int64_t t_real_ns)
{
    crema_msg_t msg = {.type = CREMA_MSG_CLOCK, .clock = *sample};
    return s_append_message(self, SINK_JOURNAL_CLOCK, &msg, t_real_ns);
}

crema_err_t
sink_journal_sealed(sink_journal_t *self, const sink_journal_sealed_t *sealed, int64_t t_real_ns)
{
    uint8_t body[SINK_SEALED_BODY_BYTES];
    sink_sealed_encode(sealed, body);
    return s_append(self, SINK_JOURNAL_SEALED, t_real_ns, body, sizeof body, NULL, 0);
}

/* ---- syncing */

static crema_err_t
s_write_header(sink_journal_t *self, int fd, size_t *ret_bytes)
{
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES + SINK_HEADER_BODY_BYTES];
    sink_header_encode(&self->header, bytes + CREMA_FRAME_HEADER_BYTES);
    crema_frame_t frame = {
        .type = SINK_JOURNAL_HEADER,
        .len = SINK_HEADER_BODY_BYTES,
        .body = bytes + CREMA_FRAME_HEADER_BYTES,
    };
    crema_frame_encode(&frame, bytes);
    *ret_bytes = sizeof bytes;
    return sink_fs_write(fd, bytes, sizeof bytes);
}

/* Creates a segment whose header and name are durable before anything follows, or leaves no
 * trace of it. So a segment longer than a header that has no header was damaged. */
static crema_err_t
s_begin_segment(sink_journal_t *self)
{
    char path[PATH_MAX];
    if (self->segment >= SINK_SEGMENT_NUMBER_MAX)
        return CREMA_ELIMIT;
    crema_err_t err = sink_segments_path(self->dir, self->segment + 1, path);
    if (err != CREMA_OK)
        return err;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    size_t bytes = 0;
    crema_failpoint("sink.before_segment_write");
    err = s_write_header(self, fd, &bytes);
    crema_failpoint("sink.before_segment_fsync");
    if (err == CREMA_OK && fsync(fd) != 0)
        err = sink_fs_error(errno);
    crema_failpoint("sink.before_segment_dir_fsync");
    if (err == CREMA_OK)
        err = sink_fs_sync_dir(self->dir);
    crema_failpoint("sink.after_segment_dir_fsync");
    if (err != CREMA_OK) {
        close(fd);
        unlink(path);
        return err;
    }
    self->fd = fd;
    self->segment++;
    self->segment_bytes = bytes;
    self->bytes += bytes;
    return CREMA_OK;
}

/* Writes the checkpoint at the start of a segment, without a sync. */
static crema_err_t
s_write_checkpoint(sink_journal_t *self, const sink_journal_head_t *head, uint64_t next_frame,
                   size_t *ret_bytes)
{
    sink_journal_state_t state = {0};
    sink_journal_mark_t *marks = NULL;
    *ret_bytes = 0;
    if (!head)
        return CREMA_OK;
    crema_err_t err = head->fn(head->context, &state, &marks);
    if (err != CREMA_OK)
        return err;
    state.next_frame = next_frame;
    size_t size = sink_checkpoint_bytes(state.n_marks);
    uint8_t *bytes = malloc(size);
    if (bytes) {
        sink_checkpoint_encode(&state, marks, bytes);
        crema_failpoint("sink.before_checkpoint_write");
        err = sink_fs_write(self->fd, bytes, size);
    } else {
        err = CREMA_ENOMEM;
    }
    free(bytes);
    free(marks);
    if (err == CREMA_OK)
        *ret_bytes = size;
    return err;
}

/* The first frame's flag depends on the segment that the group goes to, so it is encoded again. */
static void
s_mark_group_anew(sink_journal_t *self)
{
    crema_frame_t frame;
    if (crema_frame_decode(self->group, self->group_bytes, &frame) != CREMA_OK)
        return; /* it was just encoded */
    self->group_follows = s_follows_synced(self);
    frame.flags = self->group_follows ? SINK_FRAME_BEGINS_GROUP : 0;
    crema_frame_encode(&frame, self->group);
}

/* *ret_bytes is what was written: nothing after CREMA_ENOSPC and CREMA_ENOMEM. */
static crema_err_t
s_write_group(sink_journal_t *self, const sink_journal_head_t *head, size_t *ret_bytes)
{
    size_t checkpoint = 0;
    if (!s_is_empty(self) && self->segment_bytes + self->group_bytes > SINK_SEGMENT_BYTES)
        s_end_segment(self);
    crema_err_t err = self->fd < 0 ? s_begin_segment(self) : CREMA_OK;
    if (err != CREMA_OK)
        return err;
    if (s_is_empty(self))
        err = s_write_checkpoint(self, head, self->group_seq, &checkpoint);
    if (self->group_follows != s_follows_synced(self))
        s_mark_group_anew(self);
    crema_failpoint("sink.before_group_write");
    if (err == CREMA_OK)
        err = sink_fs_write(self->fd, self->group, self->group_bytes);
    if ((err == CREMA_ENOSPC || err == CREMA_ENOMEM) &&
        ftruncate(self->fd, (off_t)self->segment_bytes) != 0)
        err = CREMA_EIO;
    *ret_bytes = checkpoint + self->group_bytes;
    return err;
}

/* Decides after a failure what may be retried and what is final. */
static crema_err_t
s_fail(sink_journal_t *self, crema_err_t err)
{
    if (err == CREMA_ENOSPC || err == CREMA_ENOMEM || err == CREMA_ELIMIT)
        return err;
    self->broken = true;
    return CREMA_EIO;
}

crema_err_t
sink_journal_write(sink_journal_t *self, const sink_journal_head_t *head)
{
    if (self->broken)
        return CREMA_EIO;
    if (self->group_bytes == 0)
        return CREMA_OK;
    size_t bytes;
    crema_err_t err = s_write_group(self, head, &bytes);
    if (err != CREMA_OK)
        return s_fail(self, err);
    self->unsynced_bytes = bytes;
    self->group_bytes = 0;
    crema_failpoint("sink.before_group_fdatasync");
    return CREMA_OK;
}

int
sink_journal_fd(const sink_journal_t *self)
{
    return self->unsynced_bytes > 0 ? self->fd : -1;
}

crema_err_t
sink_journal_synced(sink_journal_t *self, bool ok)
{
    if (!ok)
        return s_fail(self, CREMA_EIO);
    crema_failpoint("sink.after_group_fdatasync");
    self->segment_bytes += self->unsynced_bytes;
    self->bytes += self->unsynced_bytes;
    self->unsynced_bytes = 0;
    self->rests = false;
    return CREMA_OK;
}

crema_err_t
sink_journal_sync(sink_journal_t *self, const sink_journal_head_t *head)
{
    crema_err_t err = sink_journal_write(self, head);
    if (err != CREMA_OK || self->unsynced_bytes == 0)
        return err;
    return sink_journal_synced(self, fdatasync(self->fd) == 0);
}

crema_err_t
sink_journal_rest(sink_journal_t *self, const sink_journal_head_t *head)
{
    size_t bytes = 0;
    if (self->broken || sink_journal_pending_bytes(self) > 0)
        return CREMA_EINVAL;
    if (self->rests)
        return CREMA_OK;
    s_end_segment(self);
    crema_err_t err = s_begin_segment(self);
    if (err != CREMA_OK)
        return err;
    err = s_write_checkpoint(self, head, self->next_seq, &bytes);
    crema_failpoint("sink.before_journal_rest_fdatasync");
    if (err == CREMA_OK && fdatasync(self->fd) != 0)
        err = CREMA_EIO;
    if (err != CREMA_OK) {
        s_drop_segment(self);
        return err;
    }
    s_end_segment(self);
    self->bytes += bytes;
    self->rests = true;
    return CREMA_OK;
}

size_t
sink_journal_pending_bytes(const sink_journal_t *self)
{
    return self->unsynced_bytes + self->group_bytes;
}

uint64_t
sink_journal_bytes(const sink_journal_t *self)
{
    return self->bytes;
}

sink_journal_position_t
sink_journal_position(const sink_journal_t *self)
{
    return (sink_journal_position_t){self->segment, self->segment_bytes};
}
