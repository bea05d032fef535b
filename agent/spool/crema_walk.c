#include "crema_walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Large enough that a search advances by most of it while keeping room for a whole record. */
#define WINDOW_BYTES (4u * CREMA_WALK_RECORD_MAX)

struct crema_walk {
    int fd;
    uint64_t size;      /* end of the walk */
    uint64_t offset;    /* of the next record */
    uint64_t next_seq;  /* number expected there */
    int64_t *left;      /* bytes that may be searched; NULL: any number */
    size_t ahead;       /* bytes that are read at a time */
    uint64_t window_at; /* file offset of window[0] */
    size_t window_n;    /* bytes in it */
    uint8_t window[WINDOW_BYTES];
};

crema_err_t
crema_walk_new(crema_walk_t **ret_self)
{
    crema_walk_t *self = malloc(sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_walk_start(self, -1, 0, 0, 1);
    *ret_self = self;
    return CREMA_OK;
}

void
crema_walk_destroy(crema_walk_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

void
crema_walk_start(crema_walk_t *self, int fd, uint64_t offset, uint64_t size, uint64_t next_seq)
{
    self->fd = fd;
    self->offset = offset;
    self->size = size;
    self->next_seq = next_seq;
    self->left = NULL;
    self->ahead = WINDOW_BYTES;
    self->window_at = 0;
    self->window_n = 0;
}

void
crema_walk_expect(crema_walk_t *self, size_t bytes)
{
    size_t least = bytes < CREMA_WALK_RECORD_MAX ? CREMA_WALK_RECORD_MAX : bytes;
    self->ahead = least < WINDOW_BYTES ? least : WINDOW_BYTES;
}

void
crema_walk_search(crema_walk_t *self, int64_t *left)
{
    self->left = left;
}

uint64_t
crema_walk_offset(const crema_walk_t *self)
{
    return self->offset;
}

static size_t
s_peek(const crema_walk_t *self, uint64_t at)
{
    uint64_t skip = at - self->window_at;
    if (at < self->window_at || skip > self->window_n)
        return 0;
    return crema_frame_peek(self->window + skip, self->window_n - (size_t)skip);
}

size_t
crema_walk_peek(const crema_walk_t *self)
{
    return s_peek(self, self->offset);
}

/* Reads at `at` until the window is full or the end is reached; a truncated file ends earlier. */
static crema_err_t
s_fill(crema_walk_t *self, uint64_t at)
{
    uint64_t rest = self->size - at;
    size_t want = rest < self->ahead ? (size_t)rest : self->ahead;
    self->window_at = at;
    self->window_n = 0;
    while (self->window_n < want) {
        ssize_t got = pread(self->fd, self->window + self->window_n, want - self->window_n,
                            (off_t)(at + self->window_n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            self->window_n = 0;
            return CREMA_EIO;
        }
        if (got == 0) {
            self->size = at + self->window_n;
            break;
        }
        self->window_n += (size_t)got;
    }
    return CREMA_OK;
}

/* Bytes from `at` on, as far as they exist: at least `need` of them. */
static crema_err_t
s_view(crema_walk_t *self, uint64_t at, size_t need, const uint8_t **ret_bytes, size_t *ret_n)
{
    if (at >= self->size) {
        *ret_bytes = self->window;
        *ret_n = 0;
        return CREMA_OK;
    }
    uint64_t end = self->window_at + self->window_n;
    bool enough = at >= self->window_at && at < end && (end - at >= need || end == self->size);
    if (!enough) {
        crema_err_t err = s_fill(self, at);
        if (err != CREMA_OK)
            return err;
    }
    size_t skip = (size_t)(at - self->window_at);
    *ret_bytes = self->window + skip;
    *ret_n = self->window_n - skip;
    return CREMA_OK;
}

/* Numbers are stored as signed 64-bit columns. */
static bool
s_is_record(const crema_frame_t *frame)
{
    return frame->len <= CREMA_RECORD_BODY_MAX && frame->seq > 0 && frame->seq < INT64_MAX;
}

/* The first record after `at` whose number is still due. *ret_at is the walk's size if there is
 * none. */
static crema_err_t
s_search(crema_walk_t *self, uint64_t at, uint64_t *ret_at, crema_frame_t *ret_frame)
{
    while (at < self->size) {
        const uint8_t *bytes;
        size_t n;
        crema_err_t err = s_view(self, at, CREMA_WALK_RECORD_MAX, &bytes, &n);
        if (err != CREMA_OK)
            return err;
        size_t hit = crema_frame_find(bytes, n, 0);
        if (hit < n && crema_frame_decode(bytes + hit, n - hit, ret_frame) == CREMA_OK) {
            if (s_is_record(ret_frame) && ret_frame->seq >= self->next_seq) {
                *ret_at = at + hit;
                return CREMA_OK;
            }
            at += hit + crema_frame_bytes(ret_frame);
            continue;
        }
        /* A record may begin in the last bytes of the window and end after it. */
        bool last = self->window_at + self->window_n >= self->size;
        at += last || n < CREMA_WALK_RECORD_MAX ? n : n - CREMA_WALK_RECORD_MAX + 1;
    }
    *ret_at = self->size;
    return CREMA_OK;
}

/* `frame` at `at` is the next record: returns it, or first the numbers missing before it. */
static void
s_take(crema_walk_t *self, uint64_t at, const crema_frame_t *frame, crema_walk_item_t *ret_item)
{
    *ret_item = (crema_walk_item_t){.kind = CREMA_WALK_LOST,
                                    .first = self->next_seq,
                                    .last = frame->seq - 1,
                                    .damaged_b = at - self->offset};
    self->offset = at;
    if (frame->seq == self->next_seq) {
        *ret_item = (crema_walk_item_t){.kind = CREMA_WALK_RECORD,
                                        .frame = *frame,
                                        .bytes = frame->body - CREMA_FRAME_HEADER_BYTES};
        self->offset += crema_frame_bytes(frame);
        self->next_seq++;
        return;
    }
    self->next_seq = frame->seq;
}

crema_err_t
crema_walk_step(crema_walk_t *self, crema_walk_item_t *ret_item)
{
    const uint8_t *bytes;
    size_t n;
    size_t stated = s_peek(self, self->offset); /* if that is wrong, its checksum is, too */
    size_t need = stated && stated < CREMA_WALK_RECORD_MAX ? stated : CREMA_WALK_RECORD_MAX;
    crema_err_t err = s_view(self, self->offset, need, &bytes, &n);
    if (err != CREMA_OK)
        return err;
    if (n == 0) {
        *ret_item = (crema_walk_item_t){.kind = CREMA_WALK_CLEAN};
        return CREMA_OK;
    }
    crema_frame_t frame;
    if (crema_frame_decode(bytes, n, &frame) == CREMA_OK && s_is_record(&frame) &&
        frame.seq >= self->next_seq) {
        s_take(self, self->offset, &frame, ret_item);
        return CREMA_OK;
    }
    uint64_t at = 0;
    if (self->left && *self->left <= 0)
        return CREMA_EAGAIN;
    self->ahead = WINDOW_BYTES; /* to advance by most of it */
    err = s_search(self, self->offset + 1, &at, &frame);
    if (self->left && err == CREMA_OK)
        *self->left -= (int64_t)(at - self->offset);
    if (err != CREMA_OK)
        return err;
    if (at < self->size)
        s_take(self, at, &frame, ret_item);
    else
        *ret_item =
            (crema_walk_item_t){.kind = CREMA_WALK_TAIL, .damaged_b = self->size - self->offset};
    return CREMA_OK;
}
