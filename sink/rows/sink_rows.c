#define _GNU_SOURCE /* mremap */
#include "sink_rows.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sink_fs.h"
#include "sink_scratch.h"
#include "sink_sort.h"

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
    sink_rows_drop(self);
    free(self->spill_dir);
    free(self);
    *self_p = NULL;
}

void
sink_rows_drop(sink_rows_t *self)
{
    if (self->bytes)
        munmap(self->bytes, self->room);
    if (self->fd >= 0)
        close(self->fd);
    self->bytes = NULL;
    self->room = 0;
    self->fd = -1;
}

/* Continues in a file with more room. */
static crema_err_t
s_map_file(sink_rows_t *self, size_t room)
{
    if (self->fd >= 0) { /* the pages move along */
        const int why = posix_fallocate(self->fd, 0, (off_t)room);
        void *bytes = why == 0 ? mremap(self->bytes, self->room, room, MREMAP_MAYMOVE) : NULL;
        if (why != 0 || bytes == MAP_FAILED)
            return why != 0 ? sink_fs_error(why) : CREMA_ENOMEM;
        self->bytes = bytes;
        self->room = room;
        return CREMA_OK;
    }
    int fd = -1;
    void *bytes = NULL;
    crema_err_t err = sink_scratch_open(self->spill_dir, &fd);
    if (err != CREMA_OK)
        return err;
    err = sink_scratch_map(fd, room, &bytes);
    if (err != CREMA_OK) {
        close(fd);
        return err;
    }
    if (self->bytes) {
        memcpy(bytes, self->bytes, self->n * self->row_bytes);
        munmap(self->bytes, self->room);
    }
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
    if (self->fd >= 0) /* little of a file stays unused */
        room = self->room + (self->room / 8 + FIRST_BYTES) / FIRST_BYTES * FIRST_BYTES;
    if (self->fd >= 0 || (self->spill_dir && room > SINK_SCRATCH_MEMORY))
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

void
sink_rows_trim(sink_rows_t *self)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (self->n * self->row_bytes + page - 1) / page * page;
    if (self->fd < 0 || used >= self->room || ftruncate(self->fd, (off_t)used) != 0)
        return;
    munmap(self->bytes + used, self->room - used);
    self->room = used;
}

crema_err_t
sink_rows_append(sink_rows_t *self, const void *rows, size_t n)
{
    while ((self->n + n) * self->row_bytes > self->room) {
        crema_err_t err = s_grow(self);
        if (err != CREMA_OK)
            return err;
    }
    if (n > 0)
        memcpy(self->bytes + self->n * self->row_bytes, rows, n * self->row_bytes);
    self->n += n;
    return CREMA_OK;
}

crema_err_t
sink_rows_add(sink_rows_t *self, const void *row)
{
    return sink_rows_append(self, row, 1);
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

/* Key of a row. The row's position makes every key different, so that the order is stable. */
typedef struct {
    int64_t first;
    int64_t seq;
    uint32_t index;
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

/* True if the rows are in order already. */
static bool
s_take_keys(const sink_rows_t *self, const crema_table_t *table, sort_key_t *keys)
{
    int stream = crema_table_column(table, "stream_id");
    int seq = crema_table_column(table, table->kind == CREMA_KIND_STREAM ? "seq" : "first_seq");
    bool sorted = true;
    for (size_t i = 0; i < self->n; i++) {
        const uint8_t *row = sink_rows_at(self, i);
        sort_key_t *key = &keys[i];
        key->index = (uint32_t)i;
        key->first = crema_row_get_i64(table, row, 0);
        if (stream >= 0)
            key->stream = (uint32_t)crema_row_get_i64(table, row, (size_t)stream);
        if (seq >= 0)
            key->seq = crema_row_get_i64(table, row, (size_t)seq);
        sorted = sorted && (i == 0 || s_by_key(&keys[i - 1], key) < 0);
    }
    return sorted;
}

/* Puts at each place the row that its key names, along the cycles of the permutation: no second
 * copy of the rows. A key that is done names its own place. */
static void
s_permute(sink_rows_t *self, sort_key_t *keys, uint8_t *held)
{
    for (size_t i = 0; i < self->n; i++) {
        if (keys[i].index == i)
            continue;
        size_t at = i;
        memcpy(held, sink_rows_at(self, i), self->row_bytes);
        for (size_t from; (from = keys[at].index) != i; at = from) {
            memcpy(sink_rows_at(self, at), sink_rows_at(self, from), self->row_bytes);
            keys[at].index = (uint32_t)at;
        }
        memcpy(sink_rows_at(self, at), held, self->row_bytes);
        keys[at].index = (uint32_t)at;
    }
}

crema_err_t
sink_rows_sort(sink_rows_t *self, const crema_table_t *table)
{
    if (table->kind != CREMA_KIND_STREAM && table->kind != CREMA_KIND_ACCOUNT)
        return CREMA_OK;
    if (self->n < 2)
        return CREMA_OK;
    crema_err_t err = self->n > UINT32_MAX ? CREMA_ELIMIT : CREMA_OK;
    sort_key_t *keys = sink_scratch(self->spill_dir, self->n, sizeof *keys, &err);
    uint8_t *held = sink_scratch(NULL, 1, self->row_bytes, &err);
    if (err == CREMA_OK && !s_take_keys(self, table, keys)) {
        sink_sort_by_int64(keys, self->n, sizeof *keys, s_by_key);
        s_permute(self, keys, held);
    }
    sink_scratch_free(keys);
    sink_scratch_free(held);
    return err;
}
