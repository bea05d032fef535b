/* The frames inside a PUT: numbers without holes, ranges of LOSS, and what remains when a part is
 * there already. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "arena_fixture.h"
#include "record_frames.h"
#include "sink_put.h"

static frames_t s_frames;

static void
test_put_covers_from_first_to_the_last_frame(void **state)
{
    (void)state;
    sink_put_range_t range;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 5, 7);
    Crema__Put put = frames_put(&s_frames, 1, 2, 5);
    must(sink_put_check(&put, fixture_arena, &range));
    assert_int_equal(range.last_seq, 7);
    assert_int_equal(range.frames, 3);
    assert_false(range.closed);

    frames_add_loss(&s_frames, 8, 20);
    frames_add_end(&s_frames, 21);
    put = frames_put(&s_frames, 1, 2, 5);
    must(sink_put_check(&put, fixture_arena, &range));
    assert_int_equal(range.last_seq, 21);
    assert_int_equal(range.frames, 5);
    assert_true(range.closed);
    put.n = 17; /* numbers instead of frames is as good */
    must(sink_put_check(&put, fixture_arena, &range));
}

static void
test_put_that_is_not_sound_is_refused(void **state)
{
    (void)state;
    sink_put_range_t range;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 5, 7);
    Crema__Put good = frames_put(&s_frames, 1, 2, 5), bad;
    must(sink_put_check(&good, fixture_arena, &range));

    bad = good, bad.first_seq = 4;
    assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
    bad = good, bad.first_seq = 0;
    assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
    bad = good, bad.n = 2;
    assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
    bad = good, bad.frames.len = 0;
    assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
    for (size_t cut = 1; cut < CREMA_FRAME_HEADER_BYTES + 8; cut++) {
        bad = good, bad.frames.len -= cut;
        assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
    }
    for (size_t i = 0; i < s_frames.size; i++) {
        s_frames.bytes[i] ^= 0x10;
        assert_int_equal(sink_put_check(&good, fixture_arena, &range), CREMA_EPROTO);
        s_frames.bytes[i] ^= 0x10;
    }
    frames_add_end(&s_frames, 8);
    frames_add_dicts(&s_frames, 9, 9);
    bad = frames_put(&s_frames, 1, 2, 5);
    assert_int_equal(sink_put_check(&bad, fixture_arena, &range), CREMA_EPROTO);
}

static void
s_must_hold(const sink_put_rest_t *rest, uint64_t first, uint64_t last, uint32_t n)
{
    sink_put_range_t range;
    Crema__Put put = {
        .first_seq = first, .n = rest->n, .frames = {rest->frames_bytes, (uint8_t *)rest->frames}};
    must(sink_put_check(&put, fixture_arena, &range));
    assert_int_equal(rest->first_seq, first);
    assert_int_equal(range.last_seq, last);
    assert_int_equal(rest->n, n);
    uint64_t seq;
    bool closed;
    must(sink_put_last(rest->frames, rest->frames_bytes, &seq, &closed));
    assert_int_equal(seq, last);
    assert_false(closed);
}

static void
test_put_is_cut_at_every_number_even_within_a_loss(void **state)
{
    (void)state;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 1, 3);
    frames_add_loss(&s_frames, 4, 9);
    frames_add_dicts(&s_frames, 10, 11);
    Crema__Put put = frames_put(&s_frames, 1, 2, 1);
    for (uint64_t from = 1; from <= 11; from++) {
        sink_put_rest_t rest;
        must(sink_put_cut(&put, from, fixture_arena, &rest));
        uint32_t n = from <= 3 ? (uint32_t)(7 - from) : from <= 9 ? 3 : (uint32_t)(12 - from);
        s_must_hold(&rest, from, 11, n);
        assert_int_equal(rest.owned != NULL, from > 4 && from <= 9);
        free(rest.owned);
    }
}

static void
test_put_last_tells_the_end_and_refuses_scraps(void **state)
{
    (void)state;
    uint64_t last;
    bool closed;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, 1, 1);
    frames_add_end(&s_frames, 2);
    must(sink_put_last(s_frames.bytes, s_frames.size, &last, &closed));
    assert_int_equal(last, 2);
    assert_true(closed);
    for (size_t size = 0; size < CREMA_FRAME_HEADER_BYTES; size++)
        assert_int_equal(sink_put_last(s_frames.bytes, size, &last, &closed), CREMA_EPROTO);
    assert_int_equal(sink_put_last(s_frames.bytes, s_frames.size - 1, &last, &closed),
                     CREMA_EPROTO);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_covers_from_first_to_the_last_frame),
        cmocka_unit_test(test_put_that_is_not_sound_is_refused),
        cmocka_unit_test(test_put_is_cut_at_every_number_even_within_a_loss),
        cmocka_unit_test(test_put_last_tells_the_end_and_refuses_scraps),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
