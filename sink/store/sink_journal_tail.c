#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_journal_impl.h"
#include "sink_segments.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)
#define WINDOW_BYTES ((size_t)512 << 10) /* stays in the processor's cache while it is decoded */

struct sink_journal_tail {
    char *dir;
    sink_journal_visitor_t visitor;
    sink_journal_position_t at; /* read up to here */
    size_t window_bytes;        /* of one read; more while a frame, or what is damaged, is longer */
};

crema_err_t
sink_journal_tail_new(const char *dir, const sink_journal_visitor_t *visitor,
                      sink_journal_tail_t **ret_self)
{
    sink_journal_tail_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->visitor = *visitor;
    self->at.segment = 1;
    self->window_bytes = WINDOW_BYTES;
    self->dir = strdup(dir);
    if (!self->dir) {
        sink_journal_tail_destroy(&self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_journal_tail_destroy(sink_journal_tail_t **self_p)
{
    sink_journal_tail_t *self = *self_p;
    if (self)
        free(self->dir);
    free(self);
    *self_p = NULL;
}

bool
sink_journal_tail_is_behind(const sink_journal_tail_t *self, const sink_journal_position_t *until)
{
    return self->at.segment < until->segment ||
           (self->at.segment == until->segment && self->at.bytes < until->bytes);
}

/* False: the rest of the frame lies behind these bytes. */
static bool
s_is_whole(const uint8_t *bytes, size_t size)
{
    return size >= CREMA_FRAME_HEADER_BYTES && crema_frame_peek(bytes, size) <= size;
}

static crema_err_t
s_show(const sink_journal_tail_t *self, const uint8_t *bytes, size_t size, bool is_last,
       size_t *ret_shown)
{
    crema_arena_t *arena;
    size_t offset = 0, skipped;
    crema_frame_t frame;
    bool understood;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &arena);
    while (err == CREMA_OK && (is_last || s_is_whole(bytes + offset, size - offset)) &&
           sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK)
        err = sink_segment_visit(&frame, &self->visitor, arena, &understood);
    crema_arena_destroy(&arena);
    *ret_shown = is_last ? size : offset;
    return err;
}

/* Reads a window of the segment. */
static crema_err_t
s_read(sink_journal_tail_t *self, const char *path, uint64_t end)
{
    if (end > SINK_SEGMENT_BYTES_MAX)
        return CREMA_ELIMIT;
    const size_t left = (size_t)(end - self->at.bytes);
    const size_t size = left < self->window_bytes ? left : self->window_bytes;
    size_t shown = 0;
    uint8_t *bytes = malloc(size);
    sink_unread_t ignored = {0}; /* the final file names it */
    crema_err_t err =
        bytes ? sink_unread_read_at(path, self->at.bytes, bytes, size, &ignored) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = s_show(self, bytes, size, size == left, &shown);
    free(bytes);
    self->at.bytes += shown;
    self->window_bytes = shown > 0 ? WINDOW_BYTES : 2 * self->window_bytes;
    return err;
}

crema_err_t
sink_journal_tail_read(sink_journal_tail_t *self, const sink_journal_position_t *until)
{
    char path[PATH_MAX];
    struct stat status;
    const bool is_newest = self->at.segment == until->segment;
    crema_err_t err = CREMA_OK;
    uint64_t end = until->bytes;
    sink_segments_path(self->dir, self->at.segment, path);
    if (!is_newest) /* one that was set aside has nothing: the final file counts the loss */
        end = stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
    if (self->at.bytes < end)
        err = s_read(self, path, end);
    if (!is_newest && self->at.bytes >= end)
        self->at = (sink_journal_position_t){.segment = self->at.segment + 1};
    return err;
}
