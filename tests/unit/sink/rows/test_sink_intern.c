/* sink_intern: dense numbers, copies of the keys, a limit. */
#include <stdio.h>
#include <string.h>

#include "must.h"
#include "sink_intern.h"

static void
must_number_keys_in_the_order_they_came(void **state)
{
    (void)state;
    sink_intern_t *self;
    must(sink_intern_new(100000, &self));
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 50000; i++) {
            char key[32];
            uint32_t number;
            bool fresh;
            int n = snprintf(key, sizeof key, "key %u", i * 7919u);
            must(sink_intern_add(self, key, (size_t)n, &number, &fresh));
            assert_int_equal(number, i);
            assert_int_equal(fresh, round == 0);
        }
    }
    size_t size;
    assert_string_equal(sink_intern_key(self, 3, &size), "key 23757");
    assert_int_equal(size, 9);
    assert_int_equal(sink_intern_find(self, "key 23757", 9), 3);
    assert_int_equal(sink_intern_find(self, "key 23758", 9), SINK_INTERN_NONE);
    assert_int_equal(sink_intern_find(self, "key 23757", 8), SINK_INTERN_NONE);
    sink_intern_destroy(&self);
    assert_null(self);
    sink_intern_destroy(&self);
}

static void
must_tell_keys_apart_by_size_and_bytes(void **state)
{
    (void)state;
    sink_intern_t *self;
    uint32_t number;
    bool fresh;
    must(sink_intern_new(8, &self));
    must(sink_intern_add(self, "", 0, &number, &fresh));
    assert_true(fresh);
    must(sink_intern_add(self, "\0", 1, &number, &fresh));
    assert_true(fresh);
    must(sink_intern_add(self, "\0\0", 2, &number, &fresh));
    assert_true(fresh);
    must(sink_intern_add(self, "", 0, &number, &fresh));
    assert_int_equal(number, 0);
    assert_false(fresh);
    sink_intern_destroy(&self);
}

static void
must_refuse_more_than_its_limit_and_keep_the_rest(void **state)
{
    (void)state;
    sink_intern_t *self;
    uint32_t number;
    bool fresh;
    assert_int_equal(sink_intern_new(0, &self), CREMA_EINVAL);
    must(sink_intern_new(2, &self));
    must(sink_intern_add(self, "a", 1, &number, &fresh));
    must(sink_intern_add(self, "b", 1, &number, &fresh));
    assert_int_equal(sink_intern_add(self, "c", 1, &number, &fresh), CREMA_ELIMIT);
    must(sink_intern_add(self, "b", 1, &number, &fresh));
    assert_int_equal(number, 1);
    assert_int_equal(sink_intern_count(self), 2);
    sink_intern_destroy(&self);
}

static void
must_hash_as_fnv_1a(void **state)
{
    (void)state;
    assert_true(sink_hash(0, "", 0) == 0xcbf29ce484222325u);
    assert_true(sink_hash(0, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(sink_hash(sink_hash(0, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void
must_keep_a_value_for_each_key(void **state)
{
    (void)state;
    sink_intern_t *self;
    uint32_t number;
    bool fresh;
    must(sink_intern_new_with(sizeof(uint64_t), &self));
    for (uint32_t i = 0; i < 1000; i++) {
        must(sink_intern_add(self, &i, sizeof i, &number, &fresh));
        assert_int_equal(*(uint64_t *)sink_intern_value(self, number), 0);
        *(uint64_t *)sink_intern_value(self, number) = i * 7;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        must(sink_intern_add(self, &i, sizeof i, &number, &fresh));
        assert_int_equal(*(uint64_t *)sink_intern_value(self, number), i * 7);
    }
    sink_intern_destroy(&self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_number_keys_in_the_order_they_came),
        cmocka_unit_test(must_tell_keys_apart_by_size_and_bytes),
        cmocka_unit_test(must_refuse_more_than_its_limit_and_keep_the_rest),
        cmocka_unit_test(must_keep_a_value_for_each_key),
        cmocka_unit_test(must_hash_as_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
