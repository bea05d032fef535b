/* What a program tells of its cost reads back, and is known as such. */
#include "must.h"

#include <string.h>

#include "crema_cost.h"

static const char *
s_find(const void *context, const char *key)
{
    const crema_cost_attributes_t *words = context;
    for (size_t i = 0; i < CREMA_COST_ATTRIBUTES; i++)
        if (strcmp(words->keys[i], key) == 0)
            return words->values[i];
    return NULL;
}

static void
test_what_is_told_reads_back(void **state)
{
    (void)state;
    const crema_cost_t cost = {1.25, INT64_C(5000000000), 77, true};
    crema_cost_attributes_t words;
    crema_cost_t back;
    crema_cost_describe(&cost, "aggregator", &words);
    assert_true(crema_cost_read("aggregator", s_find, &words, &back));
    assert_true(back.cpu_s == 1.25 && back.shared);
    assert_int_equal(back.bytes, INT64_C(5000000000));
    assert_int_equal(back.records, 77);
    assert_false(crema_cost_read("sink", s_find, &words, &back));
    for (size_t i = 0; i < CREMA_COST_ATTRIBUTES; i++)
        assert_true(crema_cost_is_key(words.keys[i]));
    assert_false(crema_cost_is_key("coffea.chunks"));
    assert_false(crema_cost_is_key("crema.sample_interval_s"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
