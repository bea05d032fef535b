#include "sink_past.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_window.h"

#define FILE_NAME "freed"
#define HEAD_BYTES 8u /* number of ids */
#define BLOCK_BYTES ((size_t)CREMA_FRAME_HEADER_BYTES + SINK_PAST_BLOCK * CREMA_ID_BYTES)
#define BLOCKS_MAX ((CREMA_FRAME_BODY_MAX - HEAD_BYTES) / CREMA_ID_BYTES)

/* Index of the last of n sorted ids that is not above `id`; n: none. */
static size_t
s_last_below(const crema_id_t *ids, size_t n, const crema_id_t *id)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(&ids[middle], id, sizeof *id) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : n;
}

static size_t
s_head_bytes(size_t n_blocks)
{
    return CREMA_FRAME_HEADER_BYTES + HEAD_BYTES + n_blocks * CREMA_ID_BYTES;
}

static size_t
s_blocks(uint64_t n)
{
    return (size_t)((n + SINK_PAST_BLOCK - 1) / SINK_PAST_BLOCK);
}

/* ---- reading */

static void
s_take(sink_past_t *self, uint64_t n, crema_id_t *firsts)
{
    free(self->firsts);
    self->firsts = firsts;
    self->n = n;
    self->n_blocks = s_blocks(n);
}

/* CREMA_EMAGIC: the file is damaged. */
static crema_err_t
s_read_head(sink_past_t *self)
{
    uint8_t count[CREMA_FRAME_HEADER_BYTES + HEAD_BYTES];
    crema_frame_t frame;
    struct stat st;
    if (stat(self->path, &st) != 0)
        return errno == ENOENT ? CREMA_OK : sink_fs_error(errno);
    crema_err_t err = sink_fs_read_at(self->path, 0, count, sizeof count);
    uint64_t n = err == CREMA_OK ? crema_get_u64(count + CREMA_FRAME_HEADER_BYTES) : 0;
    if (err == CREMA_ENOENT || n / SINK_PAST_BLOCK >= BLOCKS_MAX)
        return CREMA_EMAGIC;
    if (err != CREMA_OK)
        return err;
    size_t bytes = s_head_bytes(s_blocks(n));
    uint8_t *head = malloc(bytes);
    crema_id_t *firsts = malloc(bytes);
    err = head && firsts ? sink_fs_read_at(self->path, 0, head, bytes) : CREMA_ENOMEM;
    if (err == CREMA_OK &&
        (crema_frame_decode(head, bytes, &frame) != CREMA_OK ||
         frame.type != SINK_TOMBSTONES_FRAME || crema_frame_bytes(&frame) != bytes))
        err = CREMA_EMAGIC;
    if (err == CREMA_OK) {
        memcpy(firsts, frame.body + HEAD_BYTES, s_blocks(n) * sizeof *firsts);
        s_take(self, n, firsts);
        firsts = NULL;
    }
    free(head);
    free(firsts);
    return err == CREMA_ENOENT ? CREMA_EMAGIC : err;
}

bool
sink_past_has(const sink_past_t *self, const crema_id_t *id)
{
    uint8_t bytes[BLOCK_BYTES];
    crema_id_t ids[SINK_PAST_BLOCK];
    crema_frame_t frame;
    size_t block = s_last_below(self->firsts, self->n_blocks, id);
    if (block == self->n_blocks)
        return false;
    uint64_t left = self->n - (uint64_t)block * SINK_PAST_BLOCK;
    size_t n = left < SINK_PAST_BLOCK ? (size_t)left : SINK_PAST_BLOCK;
    size_t size = CREMA_FRAME_HEADER_BYTES + n * sizeof *ids;
    uint64_t at = s_head_bytes(self->n_blocks) + (uint64_t)block * BLOCK_BYTES;
    if (sink_fs_read_at(self->path, at, bytes, size) != CREMA_OK ||
        crema_frame_decode(bytes, size, &frame) != CREMA_OK || frame.len != n * sizeof *ids)
        return false;
    memcpy(ids, frame.body, n * sizeof *ids);
    size_t i = s_last_below(ids, n, id);
    return i < n && crema_id_equal(&ids[i], id);
}

crema_err_t
sink_past_look(const char *dir, sink_ids_t *runs)
{
    char path[PATH_MAX];
    sink_window_t window = {0};
    crema_frame_t frame;
    crema_err_t err = sink_window_open(sink_fs_path(dir, FILE_NAME, path), &window);
    while (err == CREMA_OK && (err = sink_window_next(&window, &frame)) == CREMA_OK) {
        if (frame.type != SINK_TOMBSTONES_FRAME || frame.seq == 0)
            continue; /* the head */
        for (size_t at = 0; err == CREMA_OK && at + CREMA_ID_BYTES <= frame.len;
             at += CREMA_ID_BYTES) {
            crema_id_t id;
            memcpy(id.bytes, frame.body + at, CREMA_ID_BYTES);
            err = sink_ids_append(runs, &id);
        }
    }
    sink_window_clear(&window);
    return err == CREMA_ENOENT ? CREMA_OK : err;
}

/* ---- writing */

static size_t
s_add_frame(uint8_t *out, uint64_t seq, const uint8_t *body, size_t len)
{
    crema_frame_t frame = {
        .seq = seq, .type = SINK_TOMBSTONES_FRAME, .len = (uint32_t)len, .body = body};
    crema_frame_encode(&frame, out);
    return crema_frame_bytes(&frame);
}

/* `ids` are sorted. */
static crema_err_t
s_write(const char *dir, const crema_id_t *ids, size_t n)
{
    size_t n_blocks = s_blocks(n), head = s_head_bytes(n_blocks), used;
    if (n_blocks >= BLOCKS_MAX)
        return CREMA_ELIMIT;
    uint8_t *bytes = malloc(head + n_blocks * BLOCK_BYTES);
    if (!bytes)
        return CREMA_ENOMEM;
    uint8_t *body = bytes + CREMA_FRAME_HEADER_BYTES;
    crema_put_u64(body, n);
    for (size_t i = 0; i < n_blocks; i++)
        memcpy(body + HEAD_BYTES + i * sizeof *ids, &ids[i * SINK_PAST_BLOCK], sizeof *ids);
    used = s_add_frame(bytes, 0, body, head - CREMA_FRAME_HEADER_BYTES);
    for (size_t i = 0; i < n_blocks; i++) {
        size_t left = n - i * SINK_PAST_BLOCK;
        size_t part = left < SINK_PAST_BLOCK ? left : SINK_PAST_BLOCK;
        used +=
            s_add_frame(bytes + used, i + 1, ids[i * SINK_PAST_BLOCK].bytes, part * sizeof *ids);
    }
    crema_err_t err = sink_fs_replace(dir, FILE_NAME, bytes, used);
    free(bytes);
    return err;
}

/* Keeps the first id of each block, in the same memory. */
static void
s_keep_firsts(sink_past_t *self, sink_ids_t *all)
{
    const size_t n = all->n;
    for (size_t i = 0; i < s_blocks(n); i++)
        all->ids[i] = all->ids[i * SINK_PAST_BLOCK];
    crema_id_t *fitting = n ? realloc(all->ids, s_blocks(n) * sizeof *fitting) : NULL;
    s_take(self, n, fitting ? fitting : all->ids);
}

crema_err_t
sink_past_add(sink_past_t *self, const char *dir, const sink_ids_t *runs)
{
    sink_ids_t all = {0};
    crema_err_t err = sink_past_look(dir, &all);
    for (size_t i = 0; err == CREMA_OK && i < runs->n; i++)
        err = sink_ids_append(&all, &runs->ids[i]);
    sink_ids_sort(&all);
    if (err == CREMA_OK)
        err = s_write(dir, all.ids, all.n);
    if (err == CREMA_OK)
        s_keep_firsts(self, &all);
    else
        sink_ids_clear(&all);
    return err;
}

/* ---- opening and closing */

crema_err_t
sink_past_open(sink_past_t *self, const char *dir)
{
    char path[PATH_MAX];
    *self = (sink_past_t){.path = strdup(sink_fs_path(dir, FILE_NAME, path))};
    if (!self->path)
        return CREMA_ENOMEM;
    crema_err_t err = s_read_head(self);
    return err == CREMA_EMAGIC ? sink_past_add(self, dir, &(sink_ids_t){0}) : err;
}

void
sink_past_clear(sink_past_t *self)
{
    free(self->path);
    free(self->firsts);
    *self = (sink_past_t){0};
}
