/* Identities: text and back, order, randomness. */
#include "must.h"

#include <string.h>

#include "crema_id.h"
#include "crema_random.h"

static const crema_id_t s_id = {{0x01, 0x92, 0xab, 0xcd, 0xef, 0x00, 0x7f, 0xff, 0x80, 0x10, 0x20,
                                 0x30, 0x40, 0x50, 0x60, 0x70}};

static void
test_texts(void **state)
{
    (void)state;
    char text[64];
    assert_ptr_equal(crema_id_hex(&s_id, text), text);
    assert_string_equal(text, "0192abcdef007fff8010203040506070");
    assert_ptr_equal(crema_id_uuid(&s_id, text), text);
    assert_string_equal(text, "0192abcd-ef00-7fff-8010-203040506070");
}

static void
test_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } steps[] = {
        {"0192abcdef007fff8010203040506070", true},
        {"0192ABCDEF007FFF8010203040506070", true},
        {"0192abcd-ef00-7fff-8010-203040506070", true},
        {"0192abcdef007fff801020304050607", false},
        {"0192abcdef007fff80102030405060700", false},
        {"0192abcdef007fff801020304050607g", false},
        {"0192abcd-ef00-7fff-8010-20304050607", false},
        {"0192abcd-ef00-7fff-8010-2030405060700", false},
        {"0192abcd-ef00-7fff-80102-03040506070", false},
        {"0192abcd_ef00_7fff_8010_203040506070", false},
        {"0192abcd-ef00-7fff-8010-20304050607-", false},
        {"", false},
        {"../../../../../../../../etc/passwd", false},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        crema_id_t id = {{0x55}};
        if (crema_id_parse(steps[i].text, &id) != steps[i].want)
            fail_msg("\"%s\"", steps[i].text);
        assert_true(steps[i].want ? crema_id_equal(&id, &s_id) : id.bytes[0] == 0x55);
    }
}

static void
test_comparing(void **state)
{
    (void)state;
    crema_id_t zero = {{0}}, last = {{0}}, other = s_id;
    last.bytes[15] = 1;
    other.bytes[15] ^= 1;
    assert_true(crema_id_is_zero(&zero));
    assert_false(crema_id_is_zero(&last));
    assert_true(crema_id_equal(&s_id, &s_id));
    assert_false(crema_id_equal(&s_id, &other));
    assert_true(crema_id_compare(&zero, &last) < 0);
    assert_true(crema_id_compare(&s_id, &last) > 0);
    assert_int_equal(crema_id_compare(&s_id, &s_id), 0);
    assert_true(crema_id_hash(&s_id) == crema_id_hash(&other)); /* the first half decides */
    assert_true(crema_id_hash(&s_id) != crema_id_hash(&zero));
}

/* Each of 1,000 ids is new, and each of their bits was seen both ways. */
static void
test_random_ids(void **state)
{
    (void)state;
    static crema_id_t ids[1000];
    crema_id_t all = {{0}}, any = {{0}};
    memset(all.bytes, 0xff, sizeof all.bytes);
    for (size_t i = 0; i < 1000; i++) {
        ids[i] = crema_random_id();
        for (size_t k = 0; k < i; k++)
            assert_false(crema_id_equal(&ids[i], &ids[k]));
        for (size_t b = 0; b < sizeof all.bytes; b++) {
            all.bytes[b] &= ids[i].bytes[b];
            any.bytes[b] |= ids[i].bytes[b];
        }
    }
    for (size_t b = 0; b < sizeof all.bytes; b++) {
        assert_int_equal(all.bytes[b], 0);
        assert_int_equal(any.bytes[b], 0xff);
    }
    assert_true(crema_random_u64() != crema_random_u64());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_parsing),
        cmocka_unit_test(test_comparing),
        cmocka_unit_test(test_random_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
