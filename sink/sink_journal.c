#include "sink_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crema_failpoint.h"
#include "crema_frame.h"
#include "crema_mutant.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_segments.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

struct sink_journal {
    char *dir;
    sink_header_t header;
    uint32_t segment;     /* number of the newest segment, ours or not; 0: none yet */
    int fd;               /* of our segment; -1: the next sync begins one */
    size_t segment_bytes; /* durable bytes of our segment */
    uint64_t bytes;       /* durable bytes of all segments */
    uint64_t torn_bytes;  /* cut by the opening */
    uint64_t next_seq;    /* number of the next frame */
    uint8_t *group;       /* frames since the last sync, or those of the last sync if `durable` */
    size_t group_bytes, group_room;
    bool group_follows; /* its first frame says that all before it was synced */
    bool durable;       /* `group` is in the file and synced; the next append starts a fresh one */
    bool broken;        /* a write or sync failed: nothing may be promised any more */
};

/* ---- opening */

/* Cuts the file to its first `size` bytes, which are written once more: after a failed sync the kernel may hold pages that it calls
 * clean and that never reached the disk. */
static crema_err_t
s_renew(const char *path, const uint8_t *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sink_fs_error(errno);
    crema_failpoint("sink.before_renew_truncate");
    crema_err_t err = ftruncate(fd, (off_t)size) == 0 ? CREMA_OK : sink_fs_error(errno);
    crema_failpoint("sink.before_renew_write");
    if (err == CREMA_OK && !CREMA_MUTATED(18)) /* what can be read is taken for durable */
        err = sink_fs_write(fd, bytes, size);
    crema_failpoint("sink.before_renew_fsync");
    if (err == CREMA_OK && fsync(fd) != 0)
        err = CREMA_EIO;
    crema_failpoint("sink.after_renew_fsync");
    close(fd);
    return err;
}

/* Where what counts of a segment ends. Notes its number, and refuses what another store, run or a later sink wrote. */
static crema_err_t
s_scan(sink_journal_t *self, const uint8_t *bytes, size_t size, size_t *ret_end)
{
    size_t offset = 0, skipped, sound = sink_segment_sound(bytes, size);
    crema_frame_t frame;
    while (sink_segment_next(bytes, sound, &offset, &frame, &skipped) == CREMA_OK) {
        sink_header_t header;
        if (!sink_header_decode(&frame, &header)) {
            if (frame.seq >= self->next_seq)
                self->next_seq = frame.seq + 1;
            continue;
        }
        if (!crema_id_equal(&header.run_id, &self->header.run_id) ||
            !crema_id_equal(&header.store_id, &self->header.store_id))
            return CREMA_EMAGIC;
        if (header.generation > self->header.generation)
            return CREMA_EBUSY;
    }
    *ret_end = sound;
    return CREMA_OK;
}

/* What a kill left of a segment that was just made. */
static crema_err_t
s_remove_empty(const char *path)
{
    crema_failpoint("sink.before_torn_unlink");
    int rc = unlink(path);
    crema_failpoint("sink.after_torn_unlink");
    return rc == 0 ? CREMA_OK : sink_fs_error(errno);
}

/* Makes one existing segment fit to be followed by a new one; one without a whole frame is removed. */
static crema_err_t
s_adopt(sink_journal_t *self, uint32_t number)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size, end = 0;
    crema_err_t err = sink_segments_path(self->dir, number, path);
    if (err == CREMA_OK)
        err = sink_fs_read(path, SINK_SEGMENT_BYTES, &bytes, &size);
    if (err != CREMA_OK)
        return err;
    err = s_scan(self, bytes, size, &end);
    if (err == CREMA_OK) {
        self->torn_bytes += size - end;
        err = end > 0 ? s_renew(path, bytes, end) : s_remove_empty(path);
    }
    free(bytes);
    return err;
}

static crema_err_t
s_sum_bytes(sink_journal_t *self, const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct stat st;
        crema_err_t err = sink_segments_path(self->dir, numbers[i], path);
        if (err != CREMA_OK)
            return err;
        if (stat(path, &st) == 0)
            self->bytes += (uint64_t)st.st_size;
    }
    return CREMA_OK;
}

/* Only the newest segments can be torn or hold unsynced pages: those before were synced before their successor was made. It goes back until the
 * number of the last frame is known. */
static crema_err_t
s_recover(sink_journal_t *self)
{
    uint32_t *numbers;
    size_t n;
    crema_err_t err = sink_segments_list(self->dir, &numbers, &n);
    if (err != CREMA_OK)
        return err;
    for (size_t i = n; err == CREMA_OK && i > 0 && self->next_seq == 1; i--)
        err = s_adopt(self, numbers[i - 1]);
    if (err == CREMA_OK)
        err = s_sum_bytes(self, numbers, n);
    if (n)
        self->segment = numbers[n - 1];
    free(numbers);
    if (err == CREMA_OK && n)
        err = sink_fs_sync_dir(self->dir);
    return err;
}

crema_err_t
sink_journal_open(const char *dir, const crema_id_t *store_id, const crema_id_t *run_id,
                  uint64_t generation, sink_journal_t **ret_self)
{
    crema_err_t err = sink_fs_make_dir(dir);
    if (err != CREMA_OK)
        return err;
    sink_journal_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->fd = -1;
    self->next_seq = 1;
    self->durable = true;
    self->header = (sink_header_t){*store_id, *run_id, generation};
    self->dir = strdup(dir);
    err = self->dir ? s_recover(self) : CREMA_ENOMEM;
    if (err != CREMA_OK) {
        sink_journal_close(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_journal_close(sink_journal_t **self_p)
{
    sink_journal_t *self = *self_p;
    if (self) {
        if (self->fd >= 0)
            close(self->fd);
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
    if (self->durable) {
        self->durable = false;
        self->group_bytes = 0;
    }
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

static bool
s_follows_synced(const sink_journal_t *self)
{
    return self->fd >= 0 && self->segment_bytes > CREMA_FRAME_HEADER_BYTES + SINK_HEADER_BODY_BYTES;
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
    if (begins)
        self->group_follows = s_follows_synced(self);
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

/* A fresh segment with its header and its name durable, or no trace of one. */
static crema_err_t
s_begin_segment(sink_journal_t *self)
{
    char path[PATH_MAX];
    if (self->segment >= SINK_SEGMENT_NUMBER_MAX)
        return CREMA_ELIMIT;
    crema_err_t err = sink_segments_path(self->dir, self->segment + 1, path);
    if (err != CREMA_OK)
        return err;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return sink_fs_error(errno);
    size_t bytes = 0;
    crema_failpoint("sink.before_segment_write");
    err = s_write_header(self, fd, &bytes);
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

/* The group was begun for another segment than it goes to. */
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

static crema_err_t
s_write_group(sink_journal_t *self)
{
    if (self->fd >= 0 && self->segment_bytes + self->group_bytes > SINK_SEGMENT_BYTES) {
        close(self->fd);
        self->fd = -1;
    }
    crema_err_t err = self->fd < 0 ? s_begin_segment(self) : CREMA_OK;
    if (err != CREMA_OK)
        return err;
    if (self->group_follows != s_follows_synced(self))
        s_mark_group_anew(self);
    crema_failpoint("sink.before_group_write");
    err = sink_fs_write(self->fd, self->group, self->group_bytes);
    if (err == CREMA_ENOSPC && ftruncate(self->fd, (off_t)self->segment_bytes) != 0)
        err = CREMA_EIO;
    return err;
}

crema_err_t
sink_journal_sync(sink_journal_t *self)
{
    if (self->broken)
        return CREMA_EIO;
    if (self->durable)
        return CREMA_OK;
    crema_err_t err = s_write_group(self);
    if (err == CREMA_ENOSPC || err == CREMA_ENOMEM || err == CREMA_ELIMIT)
        return err;
    crema_failpoint("sink.before_group_fdatasync");
    if (err == CREMA_OK && fdatasync(self->fd) != 0)
        err = CREMA_EIO;
    if (CREMA_MUTATED(16) && err == CREMA_EIO && fdatasync(self->fd) == 0)
        err = CREMA_OK; /* a sync that failed is tried again */
    if (err != CREMA_OK) {
        self->broken = true;
        return CREMA_EIO;
    }
    crema_failpoint("sink.after_group_fdatasync");
    self->segment_bytes += self->group_bytes;
    self->bytes += self->group_bytes;
    self->durable = true;
    return CREMA_OK;
}

size_t
sink_journal_pending_bytes(const sink_journal_t *self)
{
    return self->durable ? 0 : self->group_bytes;
}

uint64_t
sink_journal_bytes(const sink_journal_t *self)
{
    return self->bytes;
}

uint64_t
sink_journal_torn_bytes(const sink_journal_t *self)
{
    return self->torn_bytes;
}

crema_err_t
sink_journal_group(const sink_journal_t *self, const sink_journal_visitor_t *visitor)
{
    if (!self->durable || self->group_bytes == 0)
        return CREMA_OK;
    crema_arena_t *arena;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &arena);
    if (err != CREMA_OK)
        return err;
    size_t offset = 0, skipped;
    crema_frame_t frame;
    bool understood;
    while (err == CREMA_OK &&
           sink_segment_next(self->group, self->group_bytes, &offset, &frame, &skipped) == CREMA_OK)
        err = sink_segment_visit(&frame, visitor, arena, &understood);
    crema_arena_destroy(&arena);
    return err;
}
