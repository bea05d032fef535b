#include "sink_refused.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "crema_frame.h"
#include "crema_grow.h"
#include "sink_fs.h"
#include "sink_segment.h"

#define FILE_NAME "refused"
#define FRAME_BYTES (CREMA_FRAME_HEADER_BYTES + sizeof(sink_refused_line_t))
#define FILE_BYTES_MAX ((size_t)4 << 20)

static uint64_t
s_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t
s_records(uint64_t first, uint64_t last)
{
    return s_sum(last - first, 1);
}

/* ---- lines */

static sink_refused_line_t *
s_find(const sink_refused_t *self, const crema_id_t *run_id, const crema_id_t *stream_id)
{
    for (size_t i = 0; i < self->n; i++)
        if (crema_id_equal(&self->lines[i].stream_id, stream_id) &&
            crema_id_equal(&self->lines[i].run_id, run_id))
            return &self->lines[i];
    return NULL;
}

static size_t
s_streams_of(const sink_refused_t *self, const crema_id_t *run_id)
{
    size_t n = 0;
    for (size_t i = 0; i < self->n; i++)
        n += crema_id_equal(&self->lines[i].run_id, run_id) &&
             !crema_id_is_zero(&self->lines[i].stream_id);
    return n;
}

static crema_err_t
s_add(sink_refused_t *self, const sink_refused_line_t *line)
{
    sink_refused_line_t *lines = crema_grow(self->lines, self->n, &self->room, sizeof *lines);
    if (!lines)
        return CREMA_ENOMEM;
    self->lines = lines;
    self->lines[self->n++] = *line;
    self->n_streams += !crema_id_is_zero(&line->stream_id);
    return CREMA_OK;
}

/* Counts records in a line that covers several streams. */
static crema_err_t
s_count(sink_refused_t *self, const crema_id_t *run_id, uint64_t records)
{
    const crema_id_t none = {{0}};
    const crema_id_t *of = run_id;
    sink_refused_line_t *line = s_find(self, of, &none);
    if (!line && self->n - self->n_streams >= SINK_REFUSED_LINES_MAX) {
        of = &none;
        line = s_find(self, of, &none);
    }
    if (!line)
        return s_add(self, &(sink_refused_line_t){*of, none, 1, records});
    line->last = s_sum(line->last, records);
    return CREMA_OK;
}

crema_err_t
sink_refused_note(sink_refused_t *self, const crema_id_t *run_id, const crema_id_t *stream_id,
                  uint64_t first, uint64_t last, bool *ret_new)
{
    crema_err_t err = CREMA_OK;
    sink_refused_line_t *line = s_find(self, run_id, stream_id);
    *ret_new = first <= last && (!line || first < line->first || last > line->last);
    if (!*ret_new)
        return CREMA_OK;
    if (line) {
        line->first = first < line->first ? first : line->first;
        line->last = last > line->last ? last : line->last;
    } else if (self->n_streams < SINK_REFUSED_LINES_MAX &&
               s_streams_of(self, run_id) < SINK_REFUSED_STREAMS_MAX) {
        err = s_add(self, &(sink_refused_line_t){*run_id, *stream_id, first, last});
    } else {
        err = s_count(self, run_id, s_records(first, last));
    }
    self->is_new |= err == CREMA_OK;
    return err;
}

uint64_t
sink_refused_records(const sink_refused_t *self)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < self->n; i++)
        sum = s_sum(sum, s_records(self->lines[i].first, self->lines[i].last));
    return sum;
}

void
sink_refused_clear(sink_refused_t *self)
{
    free(self->lines);
    free(self->bytes);
    *self = (sink_refused_t){0};
}

/* ---- the file */

static crema_err_t
s_take(sink_refused_t *self, const crema_frame_t *frame)
{
    sink_refused_line_t line;
    if (frame->type != SINK_REFUSED_FRAME || frame->len != sizeof line)
        return CREMA_OK;
    memcpy(&line, frame->body, sizeof line);
    return line.first <= line.last ? s_add(self, &line) : CREMA_OK;
}

crema_err_t
sink_refused_read(sink_refused_t *self, const char *dir)
{
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    crema_err_t err =
        sink_fs_read(sink_fs_path(dir, FILE_NAME, path), FILE_BYTES_MAX, &bytes, &size);
    if (err != CREMA_OK)
        return err == CREMA_ENOENT ? CREMA_OK : err;
    for (size_t at = 0; at < size && err == CREMA_OK;) {
        crema_frame_t frame;
        if (crema_frame_decode(bytes + at, size - at, &frame) == CREMA_OK) {
            err = s_take(self, &frame);
            at += crema_frame_bytes(&frame);
        } else {
            at = crema_frame_find(bytes, size, at + 1); /* lines after damage still count */
        }
    }
    free(bytes);
    return err;
}

static void
s_encode(const sink_refused_line_t *line, uint8_t *out)
{
    crema_frame_t frame = {
        .type = SINK_REFUSED_FRAME, .len = sizeof *line, .body = out + CREMA_FRAME_HEADER_BYTES};
    memcpy(out + CREMA_FRAME_HEADER_BYTES, line, sizeof *line);
    crema_frame_encode(&frame, out);
}

crema_err_t
sink_refused_begin(sink_refused_t *self, bool *ret_begins)
{
    const crema_err_t before = self->err;
    *ret_begins = false;
    self->err = CREMA_OK;
    if (before != CREMA_OK || !self->is_new)
        return before;
    self->size = self->n * FRAME_BYTES;
    self->bytes = malloc(self->size ? self->size : 1);
    if (!self->bytes)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n; i++)
        s_encode(&self->lines[i], self->bytes + i * FRAME_BYTES);
    self->is_new = false;
    *ret_begins = true;
    return CREMA_OK;
}

void
sink_refused_write(sink_refused_t *self, const char *dir)
{
    self->err = sink_fs_replace(dir, FILE_NAME, self->bytes, self->size);
}

void
sink_refused_end(sink_refused_t *self)
{
    free(self->bytes);
    self->bytes = NULL;
    self->is_new |= self->err != CREMA_OK; /* it is tried again */
}
