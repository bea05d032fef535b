#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink_fs.h"
#include "sink_journal_impl.h"
#include "sink_segments.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

struct sink_journal_tail {
    char *dir;
    sink_journal_visitor_t visitor;
    sink_journal_position_t at; /* read up to here */
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

static crema_err_t
s_show(const sink_journal_tail_t *self, const uint8_t *bytes, size_t size)
{
    crema_arena_t *arena;
    size_t offset = 0, skipped;
    crema_frame_t frame;
    bool understood;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &arena);
    while (err == CREMA_OK && sink_segment_next(bytes, size, &offset, &frame, &skipped) == CREMA_OK)
        err = sink_segment_visit(&frame, &self->visitor, arena, &understood);
    crema_arena_destroy(&arena);
    return err;
}

static crema_err_t
s_read(sink_journal_tail_t *self, const char *path, uint64_t end)
{
    if (end <= self->at.bytes)
        return CREMA_OK;
    if (end > SINK_SEGMENT_BYTES_MAX)
        return CREMA_ELIMIT;
    size_t size = (size_t)(end - self->at.bytes);
    uint8_t *bytes = malloc(size);
    crema_err_t err = bytes ? sink_fs_read_at(path, self->at.bytes, bytes, size) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = s_show(self, bytes, size);
    free(bytes);
    self->at.bytes = end;
    return err;
}

crema_err_t
sink_journal_tail_read(sink_journal_tail_t *self, const sink_journal_position_t *until)
{
    char path[PATH_MAX];
    struct stat status;
    crema_err_t err = sink_segments_path(self->dir, self->at.segment, path);
    if (err != CREMA_OK)
        return err;
    if (self->at.segment == until->segment)
        return s_read(self, path, until->bytes);
    if (stat(path, &status) == 0) /* otherwise it was set aside: the final file counts the loss */
        err = s_read(self, path, (uint64_t)status.st_size);
    self->at = (sink_journal_position_t){.segment = self->at.segment + 1};
    return err;
}
