#define _GNU_SOURCE /* mremap, mkostemp */
#include "sink_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sink_fs.h"

#define FIRST_BYTES ((size_t)64 << 10)

struct sink_rows {
    size_t row_bytes;
    size_t n;
    uint8_t *bytes;
    size_t room;     /* bytes mapped */
    char *spill_dir; /* NULL: memory only */
    int fd;          /* temporary file, or -1 */
};

crema_err_t
sink_rows_new(size_t row_bytes, const char *spill_dir, sink_rows_t **ret_self)
{
    if (row_bytes == 0)
        return CREMA_EINVAL;
    sink_rows_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->row_bytes = row_bytes;
    self->fd = -1;
    if (spill_dir && !(self->spill_dir = strdup(spill_dir))) {
        free(self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_rows_destroy(sink_rows_t **self_p)
{
    sink_rows_t *self = *self_p;
    if (!self)
        return;
    if (self->bytes)
        munmap(self->bytes, self->room);
    if (self->fd >= 0)
        close(self->fd);
    free(self->spill_dir);
    free(self);
    *self_p = NULL;
}

/* An unlinked file in the directory. */
static crema_err_t
s_open_temporary(const char *dir, int *ret_fd)
{
    char path[PATH_MAX];
    crema_err_t err = sink_fs_join(dir, ".crema-rows-XXXXXX", path);
    if (err != CREMA_OK)
        return err;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return sink_fs_error(errno);
    unlink(path);
    *ret_fd = fd;
    return CREMA_OK;
}

/* Reserves blocks before mapping them: a full disk is an error here instead of a signal later. */
static crema_err_t
s_map_file(sink_rows_t *self, size_t room)
{
    bool moving = self->fd < 0;
    int fd = self->fd;
    if (moving) {
        crema_err_t err = s_open_temporary(self->spill_dir, &fd);
        if (err != CREMA_OK)
            return err;
    }
    int why = posix_fallocate(fd, 0, (off_t)room);
    void *bytes = why == 0 ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
    if (why != 0 || bytes == MAP_FAILED) {
        if (moving)
            close(fd);
        return why != 0 ? sink_fs_error(why) : CREMA_ENOMEM;
    }
    if (moving && self->bytes)
        memcpy(bytes, self->bytes, self->n * self->row_bytes);
    if (self->bytes)
        munmap(self->bytes, self->room);
    self->fd = fd;
    self->bytes = bytes;
    self->room = room;
    return CREMA_OK;
}

static crema_err_t
s_grow(sink_rows_t *self)
{
    size_t room = self->room ? self->room * 2 : FIRST_BYTES;
    while (room < self->row_bytes)
        room *= 2;
    if (self->fd >= 0 || (self->spill_dir && room > SINK_ROWS_MEMORY))
        return s_map_file(self, room);
    void *bytes =
        self->bytes ? mremap(self->bytes, self->room, room, MREMAP_MAYMOVE)
                    : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return CREMA_ENOMEM;
    self->bytes = bytes;
    self->room = room;
    return CREMA_OK;
}

crema_err_t
sink_rows_add(sink_rows_t *self, const void *row)
{
    if ((self->n + 1) * self->row_bytes > self->room) {
        crema_err_t err = s_grow(self);
        if (err != CREMA_OK)
            return err;
    }
    memcpy(self->bytes + self->n++ * self->row_bytes, row, self->row_bytes);
    return CREMA_OK;
}

size_t
sink_rows_count(const sink_rows_t *self)
{
    return self->n;
}

void *
sink_rows_at(const sink_rows_t *self, size_t i)
{
    return self->bytes + i * self->row_bytes;
}

/* ---- order */

typedef struct {
    int64_t first;
    int64_t seq;
    uint64_t index; /* the row's position: makes every key different, so that any sort is stable */
    uint32_t stream;
} sort_key_t;

static int
s_by_key(const void *a, const void *b)
{
    const sort_key_t *left = a, *right = b;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    if (left->stream != right->stream)
        return left->stream < right->stream ? -1 : 1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static crema_err_t
s_collect_keys(const sink_rows_t *rows, const crema_table_t *table, const char *spill_dir,
               sink_rows_t **ret_keys)
{
    int stream = crema_table_column(table, "stream_id");
    int seq = crema_table_column(table, table->kind == CREMA_KIND_STREAM ? "seq" : "first_seq");
    sink_rows_t *keys = NULL;
    crema_err_t err = sink_rows_new(sizeof(sort_key_t), spill_dir, &keys);
    for (size_t i = 0; err == CREMA_OK && i < rows->n; i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        sort_key_t key = {.index = i};
        key.first = crema_row_get_i64(table, row, 0);
        if (stream >= 0)
            key.stream = (uint32_t)crema_row_get_i64(table, row, (size_t)stream);
        if (seq >= 0)
            key.seq = crema_row_get_i64(table, row, (size_t)seq);
        err = sink_rows_add(keys, &key);
    }
    if (err != CREMA_OK)
        sink_rows_destroy(&keys);
    else
        *ret_keys = keys;
    return err;
}

static bool
s_is_sorted(const sink_rows_t *keys)
{
    for (size_t i = 1; i < keys->n; i++)
        if (s_by_key(sink_rows_at(keys, i - 1), sink_rows_at(keys, i)) > 0)
            return false;
    return true;
}

crema_err_t
sink_rows_sort(sink_rows_t **self_p, const crema_table_t *table, const char *spill_dir)
{
    sink_rows_t *self = *self_p;
    if (table->kind != CREMA_KIND_STREAM && table->kind != CREMA_KIND_ACCOUNT)
        return CREMA_OK;
    if (self->n < 2)
        return CREMA_OK;
    sink_rows_t *keys = NULL, *sorted = NULL;
    crema_err_t err = s_collect_keys(self, table, spill_dir, &keys);
    if (err == CREMA_OK && s_is_sorted(keys)) {
        sink_rows_destroy(&keys);
        return CREMA_OK;
    }
    if (err == CREMA_OK)
        err = sink_rows_new(self->row_bytes, spill_dir, &sorted);
    if (err == CREMA_OK)
        qsort(keys->bytes, keys->n, sizeof(sort_key_t), s_by_key);
    for (size_t i = 0; err == CREMA_OK && i < self->n; i++) {
        sort_key_t key;
        memcpy(&key, sink_rows_at(keys, i), sizeof key);
        err = sink_rows_add(sorted, sink_rows_at(self, key.index));
    }
    sink_rows_destroy(&keys);
    if (err != CREMA_OK) {
        sink_rows_destroy(&sorted);
        return err;
    }
    sink_rows_destroy(self_p);
    *self_p = sorted;
    return CREMA_OK;
}
