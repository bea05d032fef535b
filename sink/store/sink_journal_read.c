#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "crema_frame.h"
#include "sink_cursor.h"
#include "sink_journal_impl.h"
#include "sink_order.h"
#include "sink_put.h"
#include "sink_segments.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

typedef struct {
    const char *dir;
    const sink_journal_visitor_t *visitor;
    sink_order_t *order; /* NULL: the visitor takes no PUTs */
    crema_arena_t *arena;
    sink_journal_report_t report;
    bool is_seal;           /* the frame shown last is a RUN_SEAL */
    uint32_t sealed_in;     /* segment of the last RUN_SEAL; 0: none */
    bool headed;            /* a header was read: store_id and run_id of the report are known */
    uint64_t next_seq;      /* number expected next; 0: the first checkpoint gives it */
    bool whole;             /* from the first segment on */
    uint32_t last_frame_in; /* segment of the last frame that is no header */
    sink_cursor_t cursor;
} reader_t;

/* ---- checkpoints */

/* Counts the frames missing before a checkpoint. */
static crema_err_t
s_on_state(void *context, const sink_journal_state_t *state)
{
    reader_t *reader = context;
    if (reader->next_seq == 0)
        reader->next_seq = state->next_frame;
    if (state->next_frame > reader->next_seq) {
        reader->report.missing_frames += state->next_frame - reader->next_seq;
        reader->next_seq = state->next_frame;
    }
    return reader->visitor->state ? reader->visitor->state(reader->visitor->context, state)
                                  : CREMA_OK;
}

static crema_err_t
s_on_mark(void *context, const sink_journal_mark_t *mark)
{
    reader_t *reader = context;
    crema_err_t err = CREMA_OK;
    if (reader->order && !reader->whole)
        err = sink_order_begin(reader->order, &mark->stream_id, mark->committed);
    return err == CREMA_OK && reader->visitor->mark
               ? reader->visitor->mark(reader->visitor->context, mark)
               : err;
}

/* ---- frames */

/* False for a header that does not match the earlier ones. */
static bool
s_take_header(reader_t *reader, const sink_header_t *header)
{
    if (!reader->headed) {
        reader->headed = true;
        reader->report.store_id = header->store_id;
        reader->report.run_id = header->run_id;
    }
    return crema_id_equal(&header->store_id, &reader->report.store_id) &&
           crema_id_equal(&header->run_id, &reader->report.run_id);
}

/* Reads a waiting PUT again from its position. The disk may not give it a second time. */
static crema_err_t
s_show_again(reader_t *reader, const sink_order_put_t *place)
{
    char path[PATH_MAX];
    uint8_t *bytes = malloc(place->bytes);
    crema_frame_t frame;
    sink_journal_put_t put;
    sink_segments_path(reader->dir, place->segment, path);
    crema_err_t err = bytes ? sink_unread_read_at(path, place->offset, bytes, place->bytes,
                                                  &reader->cursor.unread)
                            : CREMA_ENOMEM;
    if (err == CREMA_OK && (crema_frame_decode(bytes, place->bytes, &frame) != CREMA_OK ||
                            !sink_put_decode(&frame, &put)))
        reader->report.damaged_bytes += place->bytes;
    else if (err == CREMA_OK)
        err = reader->visitor->put(reader->visitor->context, &put);
    free(bytes);
    return err;
}

static crema_err_t
s_show_due(reader_t *reader, bool all)
{
    crema_err_t err = CREMA_OK;
    sink_order_put_t place;
    while (err == CREMA_OK && sink_order_due(reader->order, all, &place))
        err = s_show_again(reader, &place);
    return err;
}

/* ---- messages */

static crema_err_t
s_on_run(void *context, const crema_msg_t *msg)
{
    reader_t *reader = context;
    const sink_journal_visitor_t *visitor = reader->visitor;
    reader->is_seal = msg->type == CREMA_MSG_RUN_SEAL;
    return visitor->run ? visitor->run(visitor->context, msg) : CREMA_OK;
}

static crema_err_t
s_on_writers(void *context, const Crema__RunWriters *msg)
{
    const sink_journal_visitor_t *visitor = ((reader_t *)context)->visitor;
    return visitor->writers ? visitor->writers(visitor->context, msg) : CREMA_OK;
}

/* ---- showing frames in order */

static crema_err_t
s_show(reader_t *reader, const crema_frame_t *frame, uint32_t segment, size_t offset,
       bool *ret_understood)
{
    sink_journal_put_t put;
    bool closed, now = true;
    sink_order_put_t place = {
        .segment = segment, .offset = offset, .bytes = crema_frame_bytes(frame)};
    crema_err_t err = CREMA_OK;
    bool ordered = frame->type == SINK_JOURNAL_PUT && reader->order &&
                   sink_put_decode(frame, &put) &&
                   sink_put_last(put.frames, put.frames_bytes, &place.last, &closed) == CREMA_OK;
    if (ordered) {
        place.first = put.first_seq;
        err = sink_order_take(reader->order, &put.stream_id, &place, &now);
    }
    *ret_understood = true;
    const sink_journal_visitor_t own = {.context = reader,
                                        .state = s_on_state,
                                        .mark = s_on_mark,
                                        .run = s_on_run,
                                        .writers = s_on_writers};
    bool is_own = sink_segment_is_head(frame->type) || frame->type == SINK_JOURNAL_RUN;
    if (err == CREMA_OK && now)
        err = sink_segment_visit(frame, is_own ? &own : reader->visitor, reader->arena,
                                 ret_understood);
    return err == CREMA_OK && ordered && now ? s_show_due(reader, false) : err;
}

/* Unreadable so far. */
static uint64_t
s_damaged(const reader_t *reader)
{
    return reader->report.damaged_bytes + sink_cursor_damaged(&reader->cursor);
}

/* A segment counts as damaged from a header on that does not match the earlier ones. */
static crema_err_t
s_take_frame(reader_t *reader, const crema_frame_t *frame)
{
    const sink_journal_position_t end = sink_cursor_position(&reader->cursor);
    const size_t bytes = crema_frame_bytes(frame);
    bool understood = false, is_head = sink_segment_is_head(frame->type);
    crema_err_t err = CREMA_OK;
    sink_header_t header;
    if (sink_header_decode(frame, &header) && !s_take_header(reader, &header)) {
        reader->report.damaged_bytes += bytes;
        sink_cursor_skip(&reader->cursor);
        return CREMA_OK;
    }
    if (frame->type != SINK_JOURNAL_HEADER)
        reader->last_frame_in = end.segment;
    reader->is_seal = false;
    if (is_head || frame->seq >= reader->next_seq)
        err = s_show(reader, frame, end.segment, (size_t)end.bytes - bytes, &understood);
    if (!is_head && frame->seq >= reader->next_seq) {
        reader->report.missing_frames += frame->seq - reader->next_seq;
        reader->next_seq = frame->seq + 1;
    }
    if (understood)
        reader->report.frames++;
    else
        reader->report.damaged_bytes += bytes;
    if (reader->is_seal) {
        reader->report.before_seal = s_damaged(reader) + reader->report.missing_frames;
        reader->sealed_in = end.segment;
    }
    return err;
}

/* ---- segments */

/* The end of what counts in the last segment, whose end may be torn. Where the disk does not give
 * everything, nothing was torn off. */
static crema_err_t
s_find_end(const char *path, uint64_t *ret_sound, size_t *ret_size)
{
    uint8_t *bytes;
    sink_unread_t unread = {0};
    crema_err_t err = sink_unread_read(path, SINK_SEGMENT_BYTES_MAX, &bytes, ret_size, &unread);
    if (err != CREMA_OK)
        return err;
    *ret_sound = unread.bytes > 0 ? SINK_CURSOR_ALL : sink_segment_sound(bytes, *ret_size);
    free(bytes);
    return CREMA_OK;
}

static crema_err_t
s_read_all(reader_t *reader, const uint32_t *numbers, size_t n, char where[PATH_MAX])
{
    sink_cursor_t *cursor = &reader->cursor;
    const uint32_t last = numbers[n - 1];
    sink_journal_position_t until = {.segment = last};
    size_t size;
    crema_frame_t frame;
    sink_segments_path(reader->dir, last, where);
    crema_err_t err = s_find_end(where, &until.bytes, &size), end = CREMA_OK;
    if (err != CREMA_OK)
        return err;
    sink_cursor_begin(cursor, reader->dir, numbers[0]);
    sink_cursor_extend(cursor, until);
    while (err == CREMA_OK && (end = sink_cursor_next(cursor, &frame)) == CREMA_OK)
        err = s_take_frame(reader, &frame);
    snprintf(where, PATH_MAX, "%s", cursor->path);
    if (err == CREMA_OK && end != CREMA_ENOENT)
        err = end;
    if (err == CREMA_OK && cursor->missing != last - numbers[0] + 1 - n) {
        errno = ENOENT; /* some have just been removed */
        err = CREMA_ENOENT;
    }
    if (err != CREMA_OK)
        return err;
    sink_cursor_skip(cursor);
    /* Nothing readable in a last segment longer than its header: damage, not a torn tail. */
    const uint64_t behind = until.bytes == SINK_CURSOR_ALL ? 0 : size - until.bytes;
    if (reader->last_frame_in == last || size <= SINK_SEGMENT_HEADER_BYTES)
        reader->report.torn_bytes += behind;
    else
        reader->report.damaged_bytes += behind;
    reader->report.damaged_bytes += sink_cursor_damaged(cursor);
    reader->report.segments = n;
    reader->report.bytes = cursor->bytes + cursor->size + behind;
    return reader->order ? s_show_due(reader, true) : CREMA_OK;
}

crema_err_t
sink_journal_read_segments(const char *dir, const sink_segments_t *segments, size_t from,
                           bool whole, const sink_journal_visitor_t *visitor,
                           sink_journal_report_t *ret_report, char ret_where[PATH_MAX])
{
    reader_t reader = {.dir = dir, .visitor = visitor, .next_seq = whole, .whole = whole};
    crema_err_t err = crema_arena_new(ARENA_BYTES, &reader.arena);
    if (err == CREMA_OK && visitor->put)
        err = sink_order_new(&reader.order);
    if (err == CREMA_OK)
        err = s_read_all(&reader, segments->numbers + from, segments->n - from, ret_where);
    reader.report.unread = reader.cursor.unread;
    sink_cursor_clear(&reader.cursor);
    sink_order_destroy(&reader.order);
    crema_arena_destroy(&reader.arena);
    if (err != CREMA_OK)
        return err;
    if (reader.sealed_in > segments->last_damaged)
        reader.report.before_seal += segments->damaged_bytes;
    reader.report.damaged_bytes += segments->damaged_bytes;
    *ret_report = reader.report;
    return CREMA_OK;
}

crema_err_t
sink_journal_read(const char *dir, const sink_journal_visitor_t *visitor,
                  sink_journal_report_t *ret_report)
{
    sink_segments_t found;
    char where[PATH_MAX];
    sink_journal_report_t report = {0};
    crema_err_t err = sink_segments_find(dir, &found);
    if (err != CREMA_OK)
        return err;
    err = found.n > 0 ? sink_journal_read_segments(dir, &found, 0, true, visitor, &report, where)
                      : CREMA_ENOENT;
    free(found.numbers);
    if (err == CREMA_OK && report.frames == 0 && crema_id_is_zero(&report.run_id)) {
        err = report.unread.why != 0 ? CREMA_EIO : CREMA_EMAGIC;
        errno = report.unread.why;
    }
    if (err == CREMA_OK)
        *ret_report = report;
    return err;
}
