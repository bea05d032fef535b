#include "must.h"

#include "agent_need.h"

#define S 1000000000ll

static void
test_an_agent_is_needed_while_somebody_writes_or_waits(void **state)
{
    (void)state;
    static const struct {
        int64_t at_s, heard_s;
        bool has_writer, has_records;
        const char *why;
    } steps[] = {
        {0, 0, true, false, NULL},
        {4000, 0, true, true, NULL},      /* nobody answers, but somebody writes */
        {4001, 4000, false, true, NULL},  /* the aggregator may take it */
        {4090, 4000, false, true, NULL},  /* idle is who has nothing to deliver */
        {4091, 4090, false, false, NULL}, /* it took it */
        {4150, 4150, false, false, NULL},
        {4151, 4151, false, false, "no writer, and nothing to deliver"},
        {4151, 4151, true, false, NULL}, /* a new writer */
        {4200, 4200, false, false, NULL},
        {4300, 4200, false, true, NULL},
        {7800, 4200, false, true, NULL},
        {7801, 4200, false, true, "no writer and no aggregator"},
    };
    int64_t idle_from_ns = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const agent_need_facts_t facts = {.has_writer = steps[i].has_writer,
                                          .has_records = steps[i].has_records,
                                          .heard_ns = steps[i].heard_s * S};
        const char *why = agent_need_is_over(&facts, 3600 * S, &idle_from_ns, steps[i].at_s * S);
        if (steps[i].why)
            assert_string_equal(why, steps[i].why);
        else if (why)
            fail_msg("step %zu: %s", i, why);
    }
}

static void
test_a_short_patience_is_for_idleness_too_and_none_is_for_ever(void **state)
{
    (void)state;
    const agent_need_facts_t facts = {.heard_ns = 9 * S};
    int64_t idle_from_ns = 0;
    assert_null(agent_need_is_over(&facts, 2 * S, &idle_from_ns, 2 * S));
    assert_non_null(agent_need_is_over(&facts, 2 * S, &idle_from_ns, 2 * S + 1));
    assert_null(agent_need_is_over(&facts, 0, &idle_from_ns, 100000 * S));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_agent_is_needed_while_somebody_writes_or_waits),
        cmocka_unit_test(test_a_short_patience_is_for_idleness_too_and_none_is_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
