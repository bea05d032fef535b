#include "sink_journal.h"

#include <assert.h>
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
    if (unlink(sink_segments_path(self->dir, self->segment, path)) != 0)
        return;
    self->segment--;
    self->bytes -= self->segment_bytes;
}

static bool
s_is_empty(const sink_journal_t *self)
{
    return self->fd >= 0 && self->segment_bytes == SINK_SEGMENT_HEADER_BYTES;
}

void
sink_journal_close(sink_journal_t **self_p)
{
    sink_journal_t *self = *self_p;
    if (self) {
        s_end_segment(self);
        if (self->work.fd >= 0) /* it was not ended */
            close(self->work.fd);
        free(self->work.checkpoint);
        free(self->work.file.bytes);
        free(self->file.bytes);
        free(self->work.group.bytes);
        free(self->group.bytes);
        free(self->dir);
        free(self);
    }
    *self_p = NULL;
}

/* ---- appending */

static crema_err_t
s_reserve(sink_journal_t *self, size_t more)
{
    if (more > SINK_GROUP_BYTES_MAX - self->group.n)
        return CREMA_EAGAIN;
    if (self->group.n + more <= self->group.room)
        return CREMA_OK;
    size_t room = self->group.room ? self->group.room : 64u << 10;
    while (room < self->group.n + more)
        room *= 2;
    uint8_t *grown = realloc(self->group.bytes, room);
    if (!grown)
        return CREMA_ENOMEM;
    self->group.bytes = grown;
    self->group.room = room;
    return CREMA_OK;
}

/* True if the next group comes after others in its segment. They are synced before it is
 * written. */
static bool
s_follows_synced(const sink_journal_t *self)
{
    return self->fd >= 0 && !s_is_empty(self);
}

/* The body is `head` and then `tail`. */
static crema_err_t
s_append(sink_journal_t *self, sink_journal_type_t type, int64_t t_ns, const void *head,
         size_t head_bytes, const uint8_t *tail, size_t tail_bytes)
{
    if (self->broken)
        return CREMA_EIO;
    if (tail_bytes > CREMA_FRAME_BODY_MAX - head_bytes)
        return CREMA_ELIMIT;
    crema_err_t err = s_reserve(self, CREMA_FRAME_HEADER_BYTES + head_bytes + tail_bytes);
    if (err != CREMA_OK)
        return err;
    bool begins = self->group.n == 0;
    if (begins) {
        self->group.follows = self->work.group.n > 0 || s_follows_synced(self);
        self->group.seq = self->next_seq;
    }
    uint8_t *out = self->group.bytes + self->group.n;
    uint8_t *body = out + CREMA_FRAME_HEADER_BYTES;
    memcpy(body, head, head_bytes);
    if (tail_bytes)
        memcpy(body + head_bytes, tail, tail_bytes);
    crema_frame_t frame = {
        .seq = self->next_seq++,
        .t_ns = t_ns,
        .type = (uint16_t)type,
        .flags = begins && self->group.follows ? SINK_FRAME_BEGINS_GROUP : 0,
        .len = (uint32_t)(head_bytes + tail_bytes),
        .body = body,
    };
    crema_frame_encode(&frame, out);
    self->group.n += crema_frame_bytes(&frame);
    return CREMA_OK;
}

crema_err_t
sink_journal_put(sink_journal_t *self, const sink_journal_put_t *put)
{
    return s_append(self, SINK_JOURNAL_PUT, put->t_recv_ns, put, SINK_PUT_HEAD_BYTES, put->frames,
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
sink_journal_run(sink_journal_t *self, const crema_msg_t *msg, int64_t t_real_ns)
{
    crema_msg_t plain = *msg;
    plain.flags = 0;
    plain.session = 0;
    return s_append_message(self, SINK_JOURNAL_RUN, &plain, t_real_ns);
}

crema_err_t
sink_journal_writers(sink_journal_t *self, const Crema__RunWriters *msg, int64_t t_real_ns)
{
    return s_append_message(self, SINK_JOURNAL_RUN,
                            &(crema_msg_t){.type = CREMA_MSG_RUN_WRITERS, .run_writers = *msg},
                            t_real_ns);
}

crema_err_t
sink_journal_clock(sink_journal_t *self, const Crema__ClockSample *sample, int64_t t_real_ns)
{
    crema_msg_t msg = {.type = CREMA_MSG_CLOCK, .clock = *sample};
    return s_append_message(self, SINK_JOURNAL_CLOCK, &msg, t_real_ns);
}

crema_err_t
sink_journal_sealed(sink_journal_t *self, const sink_journal_sealed_t *sealed, int64_t t_real_ns)
{
    return s_append(self, SINK_JOURNAL_SEALED, t_real_ns, sealed, SINK_SEALED_BODY_BYTES, NULL, 0);
}

crema_err_t
sink_journal_file(sink_journal_t *self, const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return CREMA_ENOMEM;
    memcpy(copy, bytes, size);
    free(self->file.bytes);
    self->file = (sink_journal_file_t){name, copy, size};
    return CREMA_OK;
}

/* ---- syncing */

static crema_err_t
s_write_header(sink_journal_t *self, int fd, size_t *ret_bytes)
{
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES + SINK_HEADER_BODY_BYTES];
    memcpy(bytes + CREMA_FRAME_HEADER_BYTES, &self->header, sizeof self->header);
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
s_create_segment(sink_journal_t *self, int *ret_fd, size_t *ret_bytes)
{
    char path[PATH_MAX];
    if (self->segment >= SINK_SEGMENT_NUMBER_MAX)
        return CREMA_ELIMIT;
    int fd = open(sink_segments_path(self->dir, self->segment + 1, path),
                  O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_failpoint("sink.before_segment_write");
    crema_err_t err = s_write_header(self, fd, ret_bytes);
    crema_failpoint("sink.before_segment_fsync");
    if (err == CREMA_OK && fsync(fd) != 0)
        err = sink_fs_error(errno);
    crema_failpoint("sink.before_segment_dir_fsync");
    if (err == CREMA_OK)
        err = sink_fs_sync_dir(self->dir);
    /* whoever made the directory may have been killed before that was durable */
    if (err == CREMA_OK && !self->named)
        err = sink_fs_sync_name(self->dir);
    crema_failpoint("sink.after_segment_dir_fsync");
    if (err != CREMA_OK) {
        int why = errno;
        close(fd);
        unlink(path);
        errno = why;
        return err;
    }
    *ret_fd = fd;
    return CREMA_OK;
}

static void
s_enter_segment(sink_journal_t *self, int fd, size_t bytes)
{
    self->fd = fd;
    self->named = true;
    self->segment++;
    self->segment_bytes = bytes;
    self->bytes += bytes;
}

static void
s_drop_file(sink_journal_file_t *file)
{
    free(file->bytes);
    *file = (sink_journal_file_t){0};
}

static void
s_drop_checkpoint(sink_journal_work_t *work)
{
    free(work->checkpoint);
    work->checkpoint = NULL;
    work->checkpoint_bytes = 0;
}

/* Encodes the checkpoint for the start of a segment. */
static crema_err_t
s_make_checkpoint(sink_journal_t *self, const sink_journal_head_t *head, uint64_t next_frame)
{
    sink_journal_work_t *work = &self->work;
    sink_journal_state_t state = {0};
    sink_journal_mark_t *marks = NULL;
    if (!head)
        return CREMA_OK;
    crema_err_t err = head->fn(head->context, &self->header.run_id, &state, &marks);
    if (err != CREMA_OK)
        return err;
    state.next_frame = next_frame;
    size_t size = sink_checkpoint_bytes(state.n_marks);
    work->checkpoint = malloc(size);
    if (work->checkpoint) {
        sink_checkpoint_encode(&state, marks, work->checkpoint);
        work->checkpoint_bytes = size;
    }
    free(marks);
    return work->checkpoint ? CREMA_OK : CREMA_ENOMEM;
}

static crema_err_t
s_write_checkpoint(const sink_journal_work_t *work, int fd)
{
    if (!work->checkpoint)
        return CREMA_OK;
    crema_failpoint("sink.before_checkpoint_write");
    return sink_fs_write(fd, work->checkpoint, work->checkpoint_bytes);
}

/* The first frame's flag depends on the segment that the group goes to, so it is encoded again. */
static void
s_mark_anew(sink_journal_work_t *work, bool follows)
{
    crema_frame_t frame;
    if (work->group.follows == follows ||
        crema_frame_decode(work->group.bytes, work->group.n, &frame) !=
            CREMA_OK) /* it was just encoded */
        return;
    work->group.follows = follows;
    frame.flags = follows ? SINK_FRAME_BEGINS_GROUP : 0;
    crema_frame_encode(&frame, work->group.bytes);
}

/* The next group collects where the last one was written from. */
static void
s_take_group(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    const sink_group_t written = work->group;
    work->file = self->file;
    self->file = (sink_journal_file_t){0};
    work->group = self->group;
    self->group = (sink_group_t){.bytes = written.bytes, .room = written.room};
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
sink_journal_begin(sink_journal_t *self, const sink_journal_head_t *head)
{
    sink_journal_work_t *work = &self->work;
    const bool again = work->group.n > 0;
    const size_t n = again ? work->group.n : self->group.n;
    assert(!work->renews);
    if (self->broken)
        return CREMA_EIO;
    if (n == 0)
        return CREMA_OK;
    if (!s_is_empty(self) && self->segment_bytes + n > SINK_SEGMENT_BYTES)
        s_end_segment(self);
    const bool follows = s_follows_synced(self);
    crema_err_t err = CREMA_OK;
    if (!follows)
        err = s_make_checkpoint(self, head, again ? work->group.seq : self->group.seq);
    if (err != CREMA_OK)
        return s_fail(self, err);
    if (!again)
        s_take_group(self);
    s_mark_anew(work, follows);
    return CREMA_OK;
}

/* Nothing of the group is in the file after CREMA_ENOSPC and CREMA_ENOMEM. */
static crema_err_t
s_write(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    crema_err_t err = CREMA_OK;
    if (work->file.name)
        err = sink_fs_replace(self->dir, work->file.name, work->file.bytes, work->file.size);
    if (err == CREMA_OK && self->fd < 0)
        err = s_create_segment(self, &work->fd, &work->header_bytes);
    if (err != CREMA_OK)
        return err;
    const int fd = self->fd < 0 ? work->fd : self->fd;
    const size_t before = self->fd < 0 ? work->header_bytes : self->segment_bytes;
    err = s_write_checkpoint(work, fd);
    crema_failpoint("sink.before_group_write");
    if (err == CREMA_OK)
        err = sink_fs_write(fd, work->group.bytes, work->group.n);
    if ((err == CREMA_ENOSPC || err == CREMA_ENOMEM) && ftruncate(fd, (off_t)before) != 0)
        err = CREMA_EIO;
    if (err != CREMA_OK)
        return err;
    crema_failpoint("sink.before_group_fdatasync");
    return fdatasync(fd) == 0 ? CREMA_OK : CREMA_EIO;
}

/* Writes a segment that holds only the checkpoint. */
static crema_err_t
s_write_rest(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    crema_err_t err = s_create_segment(self, &work->fd, &work->header_bytes);
    if (err != CREMA_OK)
        return err;
    err = s_write_checkpoint(work, work->fd);
    crema_failpoint("sink.before_journal_rest_fdatasync");
    return err == CREMA_OK && fdatasync(work->fd) != 0 ? CREMA_EIO : err;
}

void
sink_journal_work(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    if (!work->renews && !work->rests && work->group.n == 0)
        return;
    work->err = work->renews  ? sink_journal_renew(self)
                : work->rests ? s_write_rest(self)
                              : s_write(self);
    work->why = errno;
}

static crema_err_t
s_end_renewal(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    work->renews = false;
    if (work->err == CREMA_OK)
        self->bytes -= work->renewal.size - work->renewal.sound;
    errno = work->why;
    return work->err;
}

/* Nothing was ever acknowledged from a segment that only rests, so that one that failed can go. */
static crema_err_t
s_end_rest(sink_journal_t *self, size_t bytes, bool has_segment)
{
    const sink_journal_work_t *work = &self->work;
    if (work->err == CREMA_OK) {
        s_end_segment(self);
        self->bytes += bytes;
        self->rests = true;
    } else if (has_segment) {
        s_drop_segment(self);
    }
    errno = work->why;
    return work->err;
}

crema_err_t
sink_journal_end(sink_journal_t *self)
{
    sink_journal_work_t *work = &self->work;
    const bool rests = work->rests, has_segment = work->fd >= 0;
    if (work->renews)
        return s_end_renewal(self);
    if (!rests && work->group.n == 0)
        return CREMA_OK;
    const size_t bytes = work->checkpoint_bytes + (rests ? 0 : work->group.n);
    if (has_segment)
        s_enter_segment(self, work->fd, work->header_bytes);
    work->fd = -1;
    work->rests = false;
    s_drop_checkpoint(work);
    if (rests)
        return s_end_rest(self, bytes, has_segment);
    errno = work->why;
    if (work->err != CREMA_OK)
        return s_fail(self, work->err);
    crema_failpoint("sink.after_group_fdatasync");
    self->segment_bytes += bytes;
    self->bytes += bytes;
    self->rests = false;
    work->group.n = 0;
    s_drop_file(&work->file);
    if (self->group.n == 0 && !self->group.bytes)
        s_take_group(self); /* one buffer is enough for a quiet run */
    return CREMA_OK;
}

crema_err_t
sink_journal_begin_rest(sink_journal_t *self, const sink_journal_head_t *head)
{
    assert(!self->work.renews);
    if (self->broken || sink_journal_pending_bytes(self) > 0)
        return CREMA_EINVAL;
    if (self->rests)
        return CREMA_OK;
    s_end_segment(self);
    crema_err_t err = s_make_checkpoint(self, head, self->next_seq);
    self->work.rests = err == CREMA_OK;
    return err;
}

bool
sink_journal_is_renewed(const sink_journal_t *self)
{
    return !self->work.renews;
}

size_t
sink_journal_pending_bytes(const sink_journal_t *self)
{
    return self->work.group.n + self->group.n;
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
