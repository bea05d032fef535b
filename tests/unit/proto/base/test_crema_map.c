/* crema_map: what is added is found, what is taken is gone, whatever the order and however the
 * keys collide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "crema_map.h"

static crema_id_t
s_key(uint64_t n)
{
    crema_id_t id = {{0}};
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static void
must_be_refused_without_room(void **state)
{
    (void)state;
    crema_map_t *map = NULL;
    assert_int_equal(crema_map_new(0, &map), CREMA_EINVAL);
    assert_null(map);
    assert_int_equal(crema_map_new(2, &map), CREMA_OK);
    int value;
    crema_id_t a = s_key(1), b = s_key(2), c = s_key(3);
    assert_int_equal(crema_map_add(map, &a, &value), CREMA_OK);
    assert_int_equal(crema_map_add(map, &a, &value), CREMA_EREPEAT);
    assert_int_equal(crema_map_add(map, &b, NULL), CREMA_EINVAL);
    assert_int_equal(crema_map_add(map, &b, &value), CREMA_OK);
    assert_int_equal(crema_map_add(map, &c, &value), CREMA_ELIMIT);
    assert_int_equal(crema_map_count(map), 2);
    assert_ptr_equal(crema_map_take(map, &a), &value);
    assert_null(crema_map_take(map, &a));
    assert_int_equal(crema_map_add(map, &c, &value), CREMA_OK);
    crema_map_destroy(&map);
    assert_null(map);
    crema_map_destroy(&map);
}

/* A model in a plain array goes through the same random steps; keys are few, so chains are long
 * and wrap. */
static void
must_agree_with_a_plain_array(void **state)
{
    (void)state;
    enum { KEYS = 600, STEPS = 60000 };
    static int values[KEYS];
    static bool held[KEYS];
    memset(held, 0, sizeof held);
    crema_map_t *map = NULL;
    assert_int_equal(crema_map_new(KEYS, &map), CREMA_OK);
    uint64_t random = 88172645463325252u;
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        size_t n = (size_t)(random >> 20) % KEYS;
        crema_id_t key = s_key(n);
        if (random & 1) {
            assert_int_equal(crema_map_add(map, &key, &values[n]),
                             held[n] ? CREMA_EREPEAT : CREMA_OK);
            count += !held[n];
            held[n] = true;
        } else {
            assert_ptr_equal(crema_map_take(map, &key), held[n] ? &values[n] : NULL);
            count -= held[n];
            held[n] = false;
        }
        assert_int_equal(crema_map_count(map), count);
        if (step % 997 == 0)
            for (size_t i = 0; i < KEYS; i++) {
                crema_id_t at = s_key(i);
                assert_ptr_equal(crema_map_find(map, &at), held[i] ? &values[i] : NULL);
            }
    }
    size_t cursor = 0, walked = 0;
    for (int *value; (value = crema_map_next(map, &cursor)) != NULL; walked++) {
        assert_true(held[value - values]);
        held[value - values] = false;
    }
    assert_int_equal(walked, count);
    crema_map_destroy(&map);
}

/* Who does not know the secret cannot tell which texts would meet. */
static void
must_hide_where_a_text_is_placed(void **state)
{
    (void)state;
    static const uint8_t c_secret[CREMA_MAP_SECRET_BYTES] = {1}, c_none[CREMA_MAP_SECRET_BYTES];
    crema_id_t plain = crema_map_id("name", 4), again = crema_map_id("name", 4);
    crema_id_t other = crema_map_id("nam", 3);
    assert_true(crema_id_equal(&plain, &again));
    assert_false(crema_id_equal(&plain, &other));
    crema_map_keep_secret(c_secret);
    again = crema_map_id("name", 4);
    assert_false(crema_id_equal(&plain, &again));
    crema_map_keep_secret(c_none);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_refused_without_room),
        cmocka_unit_test(must_agree_with_a_plain_array),
        cmocka_unit_test(must_hide_where_a_text_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
