/* sink_activity: totals to increments, as a step table. */
#include <math.h>

#include "must.h"
#include "sink_activity.h"

static void
must_turn_totals_into_increments(void **state)
{
    (void)state;
    const struct {
        uint32_t activity, mark;
        int64_t t1, known;
        double total;
        bool baseline;
        int64_t want_t0;
        double want;
    } steps[] = {
        {1, 0, 100, 50, 7, true, 100, 0}, /* there before the run: no increment */
        {1, 0, 200, 100, 9, false, 100, 2},
        {2, 0, 200, 100, 3, false, 100, 3},  /* new: it was zero when totals were last read */
        {1, 0, 400, 200, 9, false, 200, 0},  /* repeated */
        {1, 0, 600, 400, 15, false, 400, 6}, /* covers what was lost in between */
        {1, 1, 600, 400, 4, false, 400, 4},  /* another mark is another key */
        {2, 0, 700, 600, 1, false, 200, -2}, /* users may count down: sums telescope */
        {1, 0, 700, 600, (double)NAN, false, 600, (double)NAN},
        {1, 0, 800, 700, 16, false, 600, 1}, /* since the last known total */
    };
    sink_activity_t *self;
    crema_limits_t limits = crema_limits();
    must(sink_activity_new(&limits, &self));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sink_activity_key_t key = {.activity = steps[i].activity, .mark = steps[i].mark};
        int64_t t0;
        double value;
        must(sink_activity_take(self, &key, steps[i].t1, steps[i].known, steps[i].total,
                                steps[i].baseline, &t0, &value));
        assert_int_equal(t0, steps[i].want_t0);
        assert_true(value == steps[i].want || (isnan(value) && isnan(steps[i].want)));
    }
    assert_int_equal(limits.met[CREMA_LIMIT_ACTIVITY_KEYS], 0);
    sink_activity_destroy(&self);
    assert_null(self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_turn_totals_into_increments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
