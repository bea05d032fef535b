/* Clocks: which is which. */
#include "must.h"

#include <time.h>

#include "crema_clock.h"

static void
test_wall_time_is_that_of_the_system(void **state)
{
    (void)state;
    int64_t before_s = (int64_t)time(NULL);
    int64_t real_ns = crema_clock_real_ns();
    int64_t after_s = (int64_t)time(NULL);
    /* time() reads a coarser clock, which may lag behind by a tick. */
    assert_in_range(real_ns / 1000000000, before_s, after_s + 1);
}

static void
test_monotonic_time_does_not_go_back(void **state)
{
    (void)state;
    int64_t first_ns = crema_clock_mono_ns(), last_ns = first_ns;
    for (int i = 0; i < 1000; i++) {
        int64_t now_ns = crema_clock_mono_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
    assert_true(last_ns > first_ns);
}

static void
test_work_costs_cpu_time(void **state)
{
    (void)state;
    int64_t start_ns = crema_clock_cpu_ns();
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 1000000; i++)
        sum = sum + i;
    assert_true(sum != 0 && crema_clock_cpu_ns() > start_ns);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wall_time_is_that_of_the_system),
        cmocka_unit_test(test_monotonic_time_does_not_go_back),
        cmocka_unit_test(test_work_costs_cpu_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
