/* A checkpoint at the start of a segment: found whole, or not at all. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"
#include "sink_segment.h"

enum { MARKS = 3 };

/* A segment of a header's size and a checkpoint of three marks; the caller frees it. */
static uint8_t *
s_segment(size_t *ret_size)
{
    sink_journal_mark_t marks[MARKS] = {{.committed = 7, .hi = 9}, {.closed = true}, {.hi = 1}};
    sink_journal_state_t state = {.next_frame = 17, .revision = 2, .n_marks = MARKS};
    *ret_size = SINK_SEGMENT_HEADER_BYTES + sink_checkpoint_bytes(MARKS);
    uint8_t *bytes = calloc(1, *ret_size);
    assert_non_null(bytes);
    sink_checkpoint_encode(&state, marks, bytes + SINK_SEGMENT_HEADER_BYTES);
    return bytes;
}

static void
test_a_checkpoint_is_found_with_its_state(void **state)
{
    (void)state;
    sink_journal_state_t found = {0};
    size_t size, end = 0;
    uint8_t *bytes = s_segment(&size);
    must(sink_checkpoint_find(bytes, size, &found, &end));
    assert_int_equal(end, size);
    assert_int_equal(found.next_frame, 17);
    assert_int_equal(found.revision, 2);
    assert_int_equal(found.n_marks, MARKS);
    for (size_t less = 1; less < size - SINK_SEGMENT_HEADER_BYTES; less++)
        assert_int_equal(sink_checkpoint_find(bytes, size - less, &found, &end), CREMA_ENOENT);
    free(bytes);
}

/* What follows the state must be marks, from the first one on. */
static void
test_a_checkpoint_without_its_marks_is_none(void **state)
{
    (void)state;
    sink_journal_state_t found;
    size_t size, end;
    uint8_t *bytes = s_segment(&size);
    uint8_t *at =
        bytes + SINK_SEGMENT_HEADER_BYTES + CREMA_FRAME_HEADER_BYTES + SINK_STATE_BODY_BYTES;
    uint8_t body[SINK_MARKS_HEAD_BYTES + MARKS * SINK_MARK_BYTES];
    memcpy(body, at + CREMA_FRAME_HEADER_BYTES, sizeof body);
    crema_frame_t frame = {.type = SINK_JOURNAL_PUT, .len = sizeof body, .body = body};
    crema_frame_encode(&frame, at);
    assert_int_equal(sink_checkpoint_find(bytes, size, &found, &end), CREMA_ENOENT);
    frame.type = SINK_JOURNAL_MARKS;
    crema_put_u64(body, 1);
    crema_frame_encode(&frame, at);
    assert_int_equal(sink_checkpoint_find(bytes, size, &found, &end), CREMA_ENOENT);
    frame.len = SINK_MARKS_HEAD_BYTES;
    crema_put_u64(body, 0);
    crema_frame_encode(&frame, at);
    assert_int_equal(sink_checkpoint_find(bytes, size, &found, &end), CREMA_ENOENT);
    free(bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_checkpoint_is_found_with_its_state),
        cmocka_unit_test(test_a_checkpoint_without_its_marks_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
