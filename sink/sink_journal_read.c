#include "sink_journal.h"

#include <limits.h>
#include <stdlib.h>

#include "crema_frame.h"
#include "sink_fs.h"
#include "sink_segment.h"
#include "sink_segments.h"

#define ARENA_BYTES ((size_t)CREMA_ARENA_FACTOR * CREMA_WIRE_MESSAGE_MAX)

typedef struct {
    const sink_journal_visitor_t *visitor;
    crema_arena_t *arena;
    sink_journal_report_t report;
    bool headed;       /* a header was seen: store_id and run_id of the report are known */
    uint64_t next_seq; /* number expected next */
} reader_t;

/* False for a header that does not belong with those before it. */
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

static crema_err_t
s_take_frame(reader_t *reader, const crema_frame_t *frame)
{
    bool understood = false;
    crema_err_t err = CREMA_OK;
    if (frame->type == SINK_JOURNAL_HEADER || frame->seq >= reader->next_seq)
        err = sink_segment_visit(frame, reader->visitor, reader->arena, &understood);
    if (frame->type != SINK_JOURNAL_HEADER && frame->seq >= reader->next_seq) {
        reader->report.missing_frames += frame->seq - reader->next_seq;
        reader->next_seq = frame->seq + 1;
    }
    if (understood)
        reader->report.frames++;
    else
        reader->report.damaged_bytes += crema_frame_bytes(frame);
    return err;
}

/* A segment that begins with a foreign header is damage as a whole. */
static crema_err_t
s_read_segment(reader_t *reader, const uint8_t *bytes, size_t size, bool last)
{
    size_t offset = 0, skipped, sound = last ? sink_segment_sound(bytes, size) : size;
    crema_frame_t frame;
    reader->report.segments++;
    reader->report.bytes += size;
    while (sink_segment_next(bytes, sound, &offset, &frame, &skipped) == CREMA_OK) {
        reader->report.damaged_bytes += skipped;
        sink_header_t header;
        if (sink_header_decode(&frame, &header) && !s_take_header(reader, &header)) {
            reader->report.damaged_bytes += size - offset + crema_frame_bytes(&frame);
            return CREMA_OK;
        }
        crema_err_t err = s_take_frame(reader, &frame);
        if (err != CREMA_OK)
            return err;
    }
    if (last)
        reader->report.torn_bytes += size - sound;
    else
        reader->report.damaged_bytes += skipped;
    return CREMA_OK;
}

static crema_err_t
s_read_segments(reader_t *reader, const char *dir, const uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        uint8_t *bytes;
        size_t size;
        crema_err_t err = sink_segments_path(dir, numbers[i], path);
        if (err == CREMA_OK)
            err = sink_fs_read(path, SINK_SEGMENT_BYTES, &bytes, &size);
        if (err != CREMA_OK)
            return err;
        err = s_read_segment(reader, bytes, size, i + 1 == n);
        free(bytes);
        if (err != CREMA_OK)
            return err;
    }
    return reader->headed || reader->report.frames ? CREMA_OK : CREMA_EMAGIC;
}

crema_err_t
sink_journal_read(const char *dir, const sink_journal_visitor_t *visitor,
                  sink_journal_report_t *ret_report)
{
    uint32_t *numbers;
    size_t n;
    crema_err_t err = sink_segments_list(dir, &numbers, &n);
    if (err != CREMA_OK)
        return err;
    reader_t reader = {.visitor = visitor, .next_seq = 1};
    err = n ? crema_arena_new(ARENA_BYTES, &reader.arena) : CREMA_ENOENT;
    if (err == CREMA_OK)
        err = s_read_segments(&reader, dir, numbers, n);
    crema_arena_destroy(&reader.arena);
    free(numbers);
    if (err == CREMA_OK)
        *ret_report = reader.report;
    return err;
}
