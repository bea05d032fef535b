/* Frames: torn at every byte, damaged in every bit, found again behind damage. */
#include "must.h"

#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_frame.h"

#define BODY "twenty-four bytes of it."
#define FRAME_BYTES (CREMA_FRAME_HEADER_BYTES + sizeof BODY - 1)

static void
s_make(uint64_t seq, uint8_t out[FRAME_BYTES])
{
    const crema_frame_t frame = {.seq = seq,
                                 .t_ns = -5,
                                 .type = 0x0102,
                                 .flags = 0x0304,
                                 .len = sizeof BODY - 1,
                                 .body = (const uint8_t *)BODY};
    assert_int_equal(crema_frame_bytes(&frame), FRAME_BYTES);
    crema_frame_encode(&frame, out);
}

static void
test_what_goes_in_comes_out(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_BYTES + 10];
    crema_frame_t frame;
    s_make(0x1122334455667788, bytes);
    must(crema_frame_decode(bytes, sizeof bytes, &frame));
    assert_true(frame.seq == 0x1122334455667788 && frame.t_ns == -5);
    assert_int_equal(frame.type, 0x0102);
    assert_int_equal(frame.flags, 0x0304);
    assert_int_equal(frame.len, sizeof BODY - 1);
    assert_ptr_equal(frame.body, bytes + CREMA_FRAME_HEADER_BYTES);
    assert_memory_equal(frame.body, BODY, sizeof BODY - 1);
}

static void
test_the_header_lies_as_drawn(void **state)
{
    (void)state;
    static const uint8_t want[28] = {'C',  'R',  'M',  '1',  24,   0,    0,    0,    1,    0,
                                     0,    0,    0,    0,    0,    0,    0xfb, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0x02, 0x01, 0x04, 0x03};
    uint8_t bytes[FRAME_BYTES];
    s_make(1, bytes);
    assert_memory_equal(bytes, want, sizeof want);
}

static void
test_the_body_may_lie_in_place(void **state)
{
    (void)state;
    uint8_t apart[FRAME_BYTES], in_place[FRAME_BYTES];
    s_make(1, apart);
    memcpy(in_place + CREMA_FRAME_HEADER_BYTES, BODY, sizeof BODY - 1);
    crema_frame_encode(&(crema_frame_t){.seq = 1,
                                        .t_ns = -5,
                                        .type = 0x0102,
                                        .flags = 0x0304,
                                        .len = sizeof BODY - 1,
                                        .body = in_place + CREMA_FRAME_HEADER_BYTES},
                       in_place);
    assert_memory_equal(apart, in_place, FRAME_BYTES);
}

static void
test_an_empty_body(void **state)
{
    (void)state;
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES];
    crema_frame_t frame = {.seq = 3, .type = CREMA_RECORD_END};
    crema_frame_encode(&frame, bytes);
    memset(&frame, 0xff, sizeof frame);
    must(crema_frame_decode(bytes, sizeof bytes, &frame));
    assert_int_equal(frame.len, 0);
    assert_int_equal(frame.seq, 3);
}

/* Cut anywhere, it is not yet there; nothing is read behind the cut (the sanitizer watches the
 * exact allocation). */
static void
test_torn_at_every_byte(void **state)
{
    (void)state;
    uint8_t whole[FRAME_BYTES];
    s_make(1, whole);
    for (size_t cut = 0; cut < FRAME_BYTES; cut++) {
        uint8_t *bytes = malloc(cut ? cut : 1);
        memcpy(bytes, whole, cut);
        crema_frame_t frame = {.seq = 77};
        assert_int_equal(crema_frame_decode(bytes, cut, &frame), CREMA_EMORE);
        assert_int_equal(frame.seq, 77);
        assert_int_equal(crema_frame_find(bytes, cut, 0), cut);
        free(bytes);
    }
    assert_int_equal(crema_frame_decode(NULL, 0, &(crema_frame_t){0}), CREMA_EMORE);
}

/* No flipped bit goes unseen. */
static void
test_damaged_in_every_bit(void **state)
{
    (void)state;
    uint8_t bytes[FRAME_BYTES];
    s_make(9, bytes);
    for (size_t bit = 0; bit < 8 * FRAME_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        crema_frame_t frame = {0};
        crema_err_t err = crema_frame_decode(bytes, FRAME_BYTES, &frame);
        bool magic = bit < 32, len = bit >= 32 && bit < 64;
        if (magic)
            assert_int_equal(err, CREMA_EMAGIC);
        else if (len)
            assert_true(err == CREMA_EMAGIC || err == CREMA_EMORE || err == CREMA_ECRC);
        else
            assert_int_equal(err, CREMA_ECRC);
        if (err == CREMA_ECRC && !len && bit / 8 >= 16)
            assert_true(frame.len == sizeof BODY - 1 && frame.seq == 9);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void
test_an_absurd_length_is_no_frame(void **state)
{
    (void)state;
    uint8_t bytes[CREMA_FRAME_HEADER_BYTES];
    crema_frame_t frame = {.len = 0};
    crema_frame_encode(&frame, bytes);
    crema_put_u32(bytes + 4, CREMA_FRAME_BODY_MAX);
    assert_int_equal(crema_frame_decode(bytes, sizeof bytes, &frame), CREMA_EMORE);
    crema_put_u32(bytes + 4, CREMA_FRAME_BODY_MAX + 1);
    assert_int_equal(crema_frame_decode(bytes, sizeof bytes, &frame), CREMA_EMAGIC);
    assert_int_equal(crema_frame_decode(bytes, 8, &frame), CREMA_EMAGIC);
    crema_put_u32(bytes + 4, UINT32_MAX);
    assert_int_equal(crema_frame_decode(bytes, sizeof bytes, &frame), CREMA_EMAGIC);
}

static void
test_found_behind_damage(void **state)
{
    (void)state;
    uint8_t bytes[3 * FRAME_BYTES + 7];
    for (size_t i = 0; i < 3; i++)
        s_make(i + 1, bytes + i * FRAME_BYTES);
    const uint8_t starts[7] = {'C', 'R', 'M', '1', 'C', 'R', 'M'};
    memcpy(bytes + 3 * FRAME_BYTES, starts, sizeof starts);
    assert_int_equal(crema_frame_find(bytes, sizeof bytes, 0), 0);
    assert_int_equal(crema_frame_find(bytes, sizeof bytes, 1), FRAME_BYTES);
    bytes[FRAME_BYTES + 20] ^= 1;
    assert_int_equal(crema_frame_find(bytes, sizeof bytes, 1), 2 * FRAME_BYTES);
    bytes[2 * FRAME_BYTES + 40] ^= 1;
    assert_int_equal(crema_frame_find(bytes, sizeof bytes, 1), sizeof bytes);
    assert_int_equal(crema_frame_find(bytes, sizeof bytes, sizeof bytes), sizeof bytes);
}

/* A false start every 32 bytes of 4 MiB, each saying it is a megabyte long: checksumming them all
 * would take minutes. */
static void
test_bytes_made_to_waste_time_do_not(void **state)
{
    (void)state;
    const size_t size = 4 << 20;
    uint8_t *bytes = calloc(1, size);
    for (size_t at = 0; at + 32 <= size; at += 32) {
        crema_put_u32(bytes + at, CREMA_FRAME_MAGIC);
        crema_put_u32(bytes + at + 4, CREMA_FRAME_BODY_MAX - 1);
    }
    assert_int_equal(crema_frame_find(bytes, size, 0), size);
    free(bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_goes_in_comes_out),
        cmocka_unit_test(test_the_header_lies_as_drawn),
        cmocka_unit_test(test_the_body_may_lie_in_place),
        cmocka_unit_test(test_an_empty_body),
        cmocka_unit_test(test_torn_at_every_byte),
        cmocka_unit_test(test_damaged_in_every_bit),
        cmocka_unit_test(test_an_absurd_length_is_no_frame),
        cmocka_unit_test(test_found_behind_damage),
        cmocka_unit_test(test_bytes_made_to_waste_time_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
