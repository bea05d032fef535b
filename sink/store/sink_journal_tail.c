#include <stdlib.h>
#include <string.h>

#include "sink_cursor.h"
#include "sink_journal_impl.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)
#define PIECE_BYTES ((size_t)512 << 10) /* shown by one call */

struct sink_journal_tail {
    char *dir;
    sink_journal_visitor_t visitor;
    sink_cursor_t cursor;
};

crema_err_t
sink_journal_tail_new(const char *dir, const sink_journal_visitor_t *visitor,
                      sink_journal_tail_t **ret_self)
{
    sink_journal_tail_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->visitor = *visitor;
    self->dir = strdup(dir);
    if (!self->dir) {
        sink_journal_tail_destroy(&self);
        return CREMA_ENOMEM;
    }
    sink_cursor_begin(&self->cursor, self->dir, 1);
    *ret_self = self;
    return CREMA_OK;
}

void
sink_journal_tail_destroy(sink_journal_tail_t **self_p)
{
    sink_journal_tail_t *self = *self_p;
    if (self) {
        sink_cursor_clear(&self->cursor);
        free(self->dir);
    }
    free(self);
    *self_p = NULL;
}

bool
sink_journal_tail_is_behind(const sink_journal_tail_t *self, const sink_journal_position_t *until)
{
    const sink_journal_position_t at = sink_cursor_position(&self->cursor);
    return at.segment < until->segment || (at.segment == until->segment && at.bytes < until->bytes);
}

crema_err_t
sink_journal_tail_read(sink_journal_tail_t *self, const sink_journal_position_t *until)
{
    crema_arena_t *arena;
    crema_frame_t frame;
    bool understood;
    crema_err_t err = crema_arena_new(ARENA_BYTES, &arena);
    sink_cursor_extend(&self->cursor, *until);
    for (size_t shown = 0; err == CREMA_OK && shown < PIECE_BYTES;) {
        err = sink_cursor_next(&self->cursor, &frame);
        if (err == CREMA_ENOENT)
            break;
        if (err == CREMA_OK)
            err = sink_segment_visit(&frame, &self->visitor, arena, &understood);
        if (err == CREMA_OK)
            shown += crema_frame_bytes(&frame);
    }
    crema_arena_destroy(&arena);
    if (err != CREMA_ENOENT)
        return err;
    /* Less is there than was written: it would be waited for without end. */
    return sink_journal_tail_is_behind(self, until) ? CREMA_EIO : CREMA_OK;
}
