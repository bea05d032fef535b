/* Bytes from somebody who means harm: every cut, every flipped bit, every allocation that fails.
 * Nothing may be read out of bounds (buffers have their exact size, for the sanitizer), and what
 * is refused must be refused with a reason. */
#include "must.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "arena_fixture.h"
#include "crema_bytes.h"
#include "proto_samples.h"

/* Makes length and checksum of an envelope right again, so that what follows them is looked at. */
static void
s_repair(uint8_t *bytes, size_t size)
{
    crema_put_u32(bytes + 8, (uint32_t)(size - CREMA_WIRE_HEADER_BYTES));
    uLong crc = crc32(crc32(0, bytes, 12), bytes + 16, (uInt)(size - 16));
    crema_put_u32(bytes + 12, (uint32_t)crc);
}

static crema_err_t
s_decode_message(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    crema_msg_t msg;
    crema_err_t err = crema_wire_decode(exact, size, fixture_arena, &msg);
    if (err == CREMA_OK) { /* everything in it can be looked at: write it again */
        uint8_t *again;
        size_t again_size;
        if (crema_wire_encode(&msg, &again, &again_size) == CREMA_OK)
            free(again);
    }
    free(exact);
    return err;
}

static crema_err_t
s_decode_record(uint16_t type, const uint8_t *body, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);
    memcpy(exact, body, len);
    const crema_frame_t frame = {
        .seq = SAMPLE_SEQ, .type = type, .len = (uint32_t)len, .body = exact};
    crema_record_t record;
    crema_err_t err = crema_record_decode(&frame, fixture_arena, &record);
    if (err == CREMA_OK) {
        static uint8_t again[CREMA_FRAME_HEADER_BYTES + CREMA_RECORD_BODY_MAX];
        size_t size;
        (void)!crema_record_encode(&record, SAMPLE_SEQ, 0, again, sizeof again, &size);
    }
    free(exact);
    return err;
}

/* The errors that a decoder may answer with. */
static void
s_is_an_answer(crema_err_t err)
{
    switch (err) {
    case CREMA_OK:
    case CREMA_EMAGIC:
    case CREMA_EVERSION:
    case CREMA_ECRC:
    case CREMA_EPROTO:
    case CREMA_ELIMIT:
        return;
    default:
        fail_msg("%s", crema_err_text(err));
    }
}

static void
test_messages_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i);
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        for (size_t cut = 0; cut < size; cut++) {
            assert_true(s_decode_message(bytes, cut) != CREMA_OK);
            if (cut < CREMA_WIRE_HEADER_BYTES)
                continue;
            s_repair(bytes, cut);
            s_is_an_answer(s_decode_message(bytes, cut));
            s_repair(bytes, size);
        }
        must(s_decode_message(bytes, size));
        free(bytes);
    }
}

static void
test_messages_with_every_bit_flipped(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i);
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(s_decode_message(bytes, size) != CREMA_OK);
            s_repair(bytes, size);
            s_is_an_answer(s_decode_message(bytes, size));
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            s_repair(bytes, size);
        }
        must(s_decode_message(bytes, size));
        free(bytes);
    }
}

static void
test_records_cut_and_flipped(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_RECORDS; i++) {
        const char *name;
        crema_record_t record = sample_record(i, &name);
        uint8_t bytes[1024];
        size_t size;
        must(crema_record_encode(&record, SAMPLE_SEQ, 0, bytes, sizeof bytes, &size));
        uint8_t *body = bytes + CREMA_FRAME_HEADER_BYTES;
        size_t len = size - CREMA_FRAME_HEADER_BYTES;
        for (size_t cut = 0; cut <= len; cut++)
            s_is_an_answer(s_decode_record((uint16_t)record.type, body, cut));
        for (size_t bit = 0; bit < 8 * len; bit++) {
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
            for (unsigned type = 0; type <= CREMA_RECORD_LOSS + 1; type++)
                s_is_an_answer(s_decode_record((uint16_t)type, body, len));
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        must(s_decode_record((uint16_t)record.type, body, len));
    }
}

/* Every message's body given to every other type. */
static void
test_bodies_under_a_wrong_type(void **state)
{
    (void)state;
    size_t refused = 0;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i);
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        for (unsigned type = 0; type <= UINT8_MAX; type++) {
            bytes[5] = (uint8_t)type;
            s_repair(bytes, size);
            crema_err_t err = s_decode_message(bytes, size);
            s_is_an_answer(err);
            refused += err != CREMA_OK;
        }
        free(bytes);
    }
    assert_true(refused > SAMPLE_MESSAGES * 200u);
}

static uint64_t
s_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void
test_noise(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t round = 0; round < 20000; round++) {
        uint8_t bytes[300];
        size_t len = s_random(&seed) % 200;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(s_random(&seed) % 4 ? s_random(&seed) % 40 : s_random(&seed));
        s_is_an_answer(s_decode_record((uint16_t)(1 + s_random(&seed) % 5), bytes, len));
        crema_msg_t sample = sample_message(s_random(&seed) % SAMPLE_MESSAGES);
        crema_put_u32(bytes, CREMA_WIRE_MAGIC);
        bytes[4] = CREMA_WIRE_VERSION;
        bytes[5] = (uint8_t)sample.type;
        s_repair(bytes, CREMA_WIRE_HEADER_BYTES + len);
        s_is_an_answer(s_decode_message(bytes, CREMA_WIRE_HEADER_BYTES + len));
    }
}

/* The nth allocation fails: with every size of arena up to what is needed, decoding says so and
 * leaves the result alone. */
static void
test_messages_with_too_little_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_MESSAGES; i++) {
        crema_msg_t msg = sample_message(i), back;
        uint8_t *bytes;
        size_t size;
        must(crema_wire_encode(&msg, &bytes, &size));
        must(crema_wire_decode(bytes, size, fixture_arena, &back));
        size_t needed = crema_arena_used(fixture_arena);
        for (size_t max = 1; max < needed; max++) {
            crema_arena_t *small;
            must(crema_arena_new(max, &small));
            back.session = 0x5a5a;
            assert_int_equal(crema_wire_decode(bytes, size, small, &back), CREMA_ELIMIT);
            assert_int_equal(back.session, 0x5a5a);
            crema_arena_destroy(&small);
        }
        free(bytes);
    }
}

static void
test_records_with_too_little_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_RECORDS; i++) {
        const char *name;
        crema_record_t record = sample_record(i, &name), back;
        uint8_t bytes[1024];
        size_t size;
        crema_frame_t frame;
        must(crema_record_encode(&record, SAMPLE_SEQ, 0, bytes, sizeof bytes, &size));
        must(crema_frame_decode(bytes, size, &frame));
        must(crema_record_decode(&frame, fixture_arena, &back));
        size_t needed = crema_arena_used(fixture_arena);
        for (size_t max = 1; max < needed; max++) {
            crema_arena_t *small;
            must(crema_arena_new(max, &small));
            assert_int_equal(crema_record_decode(&frame, small, &back), CREMA_ELIMIT);
            crema_arena_destroy(&small);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_cut_at_every_byte),
        cmocka_unit_test(test_messages_with_every_bit_flipped),
        cmocka_unit_test(test_records_cut_and_flipped),
        cmocka_unit_test(test_bodies_under_a_wrong_type),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_messages_with_too_little_memory),
        cmocka_unit_test(test_records_with_too_little_memory),
    };
    return cmocka_run_group_tests(tests, fixture_arena_set_up, fixture_arena_tear_down);
}
