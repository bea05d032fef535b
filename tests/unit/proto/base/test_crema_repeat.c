/* Repeats: how many are told, and when the rest is counted. */
#include "must.h"

#include <stdio.h>

#include "crema_repeat.h"

#define S INT64_C(1000000000)

static void
test_counts_follow_when_the_period_is_over(void **state)
{
    (void)state;
    crema_repeat_t repeats = {0};
    crema_repeat_count_t count;
    for (int i = 0; i < CREMA_REPEAT_BURST; i++)
        assert_true(crema_repeat_take(&repeats, "a", 5 * S, &count));
    assert_false(crema_repeat_take(&repeats, "a", 6 * S, &count));
    assert_false(crema_repeat_take(&repeats, "a", 15 * S - 1, &count));
    assert_false(crema_repeat_due(&repeats, 15 * S - 1, &count));
    assert_true(crema_repeat_due(&repeats, 15 * S, &count));
    assert_string_equal(count.event, "a");
    assert_int_equal(count.held, 2);
    assert_false(crema_repeat_due(&repeats, 15 * S, &count));
    assert_true(crema_repeat_take(&repeats, "a", 15 * S, &count));
    assert_null(count.event);
}

static void
test_the_next_of_its_kind_brings_the_count(void **state)
{
    (void)state;
    crema_repeat_t repeats = {0};
    crema_repeat_count_t count;
    for (int i = 0; i < CREMA_REPEAT_BURST + 3; i++)
        (void)crema_repeat_take(&repeats, "a", 0, &count);
    assert_true(crema_repeat_take(&repeats, "a", 10 * S, &count));
    assert_string_equal(count.event, "a");
    assert_int_equal(count.held, 3);
}

static void
test_more_events_than_slots_forget_the_oldest(void **state)
{
    (void)state;
    static char names[CREMA_REPEAT_EVENTS + 1][8];
    crema_repeat_t repeats = {0};
    crema_repeat_count_t count;
    for (size_t i = 0; i <= CREMA_REPEAT_EVENTS; i++) {
        snprintf(names[i], sizeof names[i], "e%zu", i);
        for (int k = 0; k < (i == 0 ? CREMA_REPEAT_BURST + 1 : 1); k++)
            (void)crema_repeat_take(&repeats, names[i], (int64_t)i, &count);
    }
    assert_string_equal(count.event, "e0");
    assert_int_equal(count.held, 1);
    assert_true(crema_repeat_take(&repeats, "e0", 99, &count)); /* as if it were new */
    assert_null(count.event);                                   /* e1 had nothing held back */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_follow_when_the_period_is_over),
        cmocka_unit_test(test_the_next_of_its_kind_brings_the_count),
        cmocka_unit_test(test_more_events_than_slots_forget_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
