/* What the diagnosis measures, without memory: an error, and no diagnosis of nothing. */
#include "must.h"

#include <errno.h>

#include "faulty.h"
#include "sink_bottleneck.h"

static void
must_measure_or_say_so(void **state)
{
    (void)state;
    const sink_facts_t facts = {0};
    const sink_model_t model = {0};
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        sink_bottleneck_t found;
        faulty_arm("memory", "", ++n, ENOMEM);
        crema_err_t err = sink_bottleneck_measure(&facts, &model, &found);
        failed = faulty_has_failed();
        faulty_disarm();
        assert_int_equal(err, failed ? CREMA_ENOMEM : CREMA_OK);
    }
    assert_true(n > 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_measure_or_say_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
