/* The cursor over a journal: frames are found where they are, and nothing else is one. */
#include "must.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crema_frame.h"
#include "rows_fixture.h"
#include "sink_cursor.h"
#include "sink_segment.h"
#include "sink_segments.h"

#define WINDOW 65536 /* of the cursor */
#define INNER_AT 40  /* in the body of the outer frame */

/* Appends a frame and returns its length. */
static size_t
s_frame(uint8_t *at, uint16_t type, uint64_t seq, const uint8_t *body, uint32_t n)
{
    const crema_frame_t frame = {.type = type, .seq = seq, .len = n, .body = body};
    crema_frame_encode(&frame, at);
    return crema_frame_bytes(&frame);
}

/* A writer may put anything into a record, also what looks like a frame of the journal. */
static void
test_what_is_in_a_frame_that_crosses_the_window_is_no_frame(void **state)
{
    (void)state;
    static uint8_t bytes[2 * WINDOW], body[WINDOW];
    char path[PATH_MAX];
    const char *dir = scratch_dir("cursor");
    (void)mkdir(dir, 0700);
    for (size_t filler = WINDOW - 600; filler < WINDOW; filler += 7) {
        uint8_t outer[400] = {0};
        s_frame(outer + INNER_AT, SINK_JOURNAL_SEALED, 1000, body, 100);
        size_t n = s_frame(bytes, SINK_JOURNAL_PUT, 1, body, (uint32_t)filler);
        n += s_frame(bytes + n, SINK_JOURNAL_PUT, 2, outer, sizeof outer);
        n += s_frame(bytes + n, SINK_JOURNAL_PUT, 3, body, 100);
        FILE *file = fopen(sink_segments_path(dir, 1, path), "w");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, n, file), n);
        assert_int_equal(fclose(file), 0);
        sink_cursor_t cursor;
        crema_frame_t frame;
        sink_cursor_begin(&cursor, dir, 1);
        sink_cursor_extend(&cursor, (sink_journal_position_t){1, n});
        for (uint64_t seq = 1; seq <= 3; seq++) {
            must(sink_cursor_next(&cursor, &frame));
            assert_int_equal(frame.type, SINK_JOURNAL_PUT);
            assert_int_equal(frame.seq, seq);
        }
        assert_int_equal(sink_cursor_next(&cursor, &frame), CREMA_ENOENT);
        assert_int_equal(sink_cursor_damaged(&cursor), 0);
        sink_cursor_clear(&cursor);
    }
}

/* Who reads while others wait for it gets a pause, however long nothing is a frame. */
static void
test_a_cursor_that_pauses_passes_over_a_piece_of_damage_per_call(void **state)
{
    (void)state;
    enum { DAMAGE = 12 << 20, PIECE_MAX = 8 << 20, SEGMENTS = 2 };
    uint8_t *bytes = malloc(DAMAGE + WINDOW), body[100] = {0};
    char path[PATH_MAX];
    const char *dir = scratch_dir("cursor_pauses");
    (void)mkdir(dir, 0700);
    assert_non_null(bytes);
    memset(bytes, 0xa5, DAMAGE);
    const size_t n = DAMAGE + s_frame(bytes + DAMAGE, SINK_JOURNAL_PUT, 1, body, sizeof body);
    for (uint32_t segment = 1; segment <= SEGMENTS; segment++) { /* only the last has a frame */
        const size_t size = segment == SEGMENTS ? n : DAMAGE;
        FILE *file = fopen(sink_segments_path(dir, segment, path), "w");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        assert_int_equal(fclose(file), 0);
    }
    free(bytes);
    sink_cursor_t cursor;
    crema_frame_t frame;
    crema_err_t err;
    size_t calls = 0;
    sink_cursor_begin(&cursor, dir, 1);
    cursor.pauses = true;
    do {
        const uint64_t before = sink_cursor_damaged(&cursor);
        sink_cursor_extend(&cursor, (sink_journal_position_t){SEGMENTS, SINK_CURSOR_ALL});
        err = sink_cursor_next(&cursor, &frame);
        assert_true(sink_cursor_damaged(&cursor) - before <= PIECE_MAX);
        assert_true(++calls < 100);
    } while (err == CREMA_EAGAIN);
    must(err);
    assert_int_equal(frame.seq, 1);
    assert_int_equal(sink_cursor_damaged(&cursor), SEGMENTS * DAMAGE);
    sink_cursor_clear(&cursor);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_a_frame_that_crosses_the_window_is_no_frame),
        cmocka_unit_test(test_a_cursor_that_pauses_passes_over_a_piece_of_damage_per_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
