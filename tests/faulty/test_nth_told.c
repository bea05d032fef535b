/* What was said of a run, without memory: what could not be kept is an error, never silence. */
#include "must.h"

#include <errno.h>

#include "faulty.h"
#include "sink_told.h"

static void
must_keep_all_or_say_so(void **state)
{
    (void)state;
    const char *keys[] = {"run_label"}, *values[] = {"here"}, *prefixes[] = {"Dijets"};
    crema_reason_t reasons[] = {{"agent_lost", "a1", "gone", 3}, {"writer_killed", "w", "9", 1}};
    const crema_run_msg_t msg = {.t_end_ns = 9,
                                 .n_attributes = 1,
                                 .keys = keys,
                                 .values = values,
                                 .n_prefixes = 1,
                                 .processor_prefixes = prefixes,
                                 .n_reasons = 2,
                                 .reasons = reasons};
    crema_limits_t limits = crema_limits();
    uint64_t n = 0;
    for (int failed = 1; failed;) {
        sink_told_t *self;
        const crema_reason_t *told;
        must(sink_told_new(&limits, &self));
        faulty_arm("memory", "", ++n, ENOMEM);
        crema_err_t err = sink_told_take(self, CREMA_MSG_RUN_SEAL, &msg);
        failed = faulty_has_failed();
        faulty_disarm();
        assert_int_equal(err, failed ? CREMA_ENOMEM : CREMA_OK);
        must(sink_told_take(self, CREMA_MSG_RUN_SEAL, &msg)); /* the same again, with memory */
        assert_int_equal(sink_told_reasons(self, &told), 2);
        assert_string_equal(told[1].subject, "w");
        assert_int_equal(sink_told_rules(self).n_prefixes, 1);
        sink_told_destroy(&self);
    }
    assert_true(n > 6);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_keep_all_or_say_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
