/* The sink's host loses power at any moment: what was acknowledged is in the store that is found
 * afterwards, whatever of the rest is. */
#include "must.h"

#include <limits.h>
#include <stdio.h>

#include "power.h"
#include "record_frames.h"
#include "store_life.h"

#ifndef POWER_CUTS
#define POWER_CUTS 10000
#endif

typedef struct {
    const char *dir; /* for what is found after each cut */
    store_life_t life;
    uint64_t seed, cuts;
    unsigned sparse; /* one moment in so many is tried */
} cuts_t;

static void
must_hold_after_a_cut(void *context)
{
    cuts_t *self = context;
    char target[PATH_MAX];
    store_life_t after = self->life;
    if (++self->seed % self->sparse != 0)
        return;
    snprintf(target, sizeof target, "%s/%llu", self->dir, (unsigned long long)self->seed);
    power_cut(self->seed, target);
    store_life_check(&after, target);
    store_life_live(&after, target);
    store_life_check(&after, target);
    assert_true(after.acked[2] >= 25);
    self->cuts++;
}

static void
s_live_and_cut(cuts_t *self, uint64_t fail_sync)
{
    char *dir = scratch_make_in_memory(32), *after = scratch_make_in_memory(32);
    self->dir = after;
    self->life = (store_life_t){0};
    power_watch(dir, must_hold_after_a_cut, self);
    power_fail_sync(fail_sync);
    store_life_live(&self->life, dir);
    power_fail_sync(0);
    store_life_live(&self->life, dir); /* whoever starts after a failed sync is cut as well */
    must_hold_after_a_cut(self);
    power_forget();
    scratch_remove(&after);
    scratch_remove(&dir);
}

static void
s_cut(uint64_t first_seed)
{
    cuts_t cuts = {.sparse = 1, .seed = first_seed};
    uint64_t enough = (store_life_is_long() ? 100000 : POWER_CUTS) / 2;
    while (cuts.cuts < enough)
        s_live_and_cut(&cuts, 0);
    print_message("%llu power cuts\n", (unsigned long long)cuts.cuts);
}

static void
test_power_cuts_take_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    s_cut(0);
}

static void
test_other_power_cuts_take_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    s_cut(UINT32_MAX);
}

static void
test_power_cuts_after_a_failed_sync_take_nothing_either(void **state)
{
    (void)state;
    cuts_t cuts = {.sparse = store_life_is_long() ? 1 : 4};
    for (uint64_t turn = 0; turn < 3; turn++)
        for (uint64_t nth = 1; nth < 40; nth++)
            s_live_and_cut(&cuts, nth);
    print_message("%llu power cuts with a failed sync before\n", (unsigned long long)cuts.cuts);
}

/* An argument is a pattern of the tests to run: ctest has them beside each other. */
int
main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cuts_take_nothing_that_was_acknowledged),
        cmocka_unit_test(test_other_power_cuts_take_nothing_that_was_acknowledged),
        cmocka_unit_test(test_power_cuts_after_a_failed_sync_take_nothing_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
