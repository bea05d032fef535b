#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent_pace.h"

#define MS 1000000ll
#define S (1000 * MS)

typedef struct {
    int taken, alone; /* alone: not with a record */
    int64_t longest_ns;
} outcome_t;

/* What an agent does that wakes for records, one per `period_ns`, and for its samples. */
static outcome_t
run(int64_t interval_ns, int64_t period_ns, int64_t from_ns, int64_t seconds)
{
    agent_pace_t pace = {.interval_ns = interval_ns};
    outcome_t out = {0};
    int64_t record_ns = from_ns, last_ns = from_ns;
    for (int64_t now_ns = from_ns; now_ns < from_ns + seconds * S;) {
        bool changed = period_ns && now_ns == record_ns;
        if (agent_pace_is_due(&pace, changed, now_ns)) {
            agent_pace_taken(&pace, now_ns);
            out.taken++;
            out.alone += !changed;
            if (now_ns - last_ns > out.longest_ns)
                out.longest_ns = now_ns - last_ns;
            last_ns = now_ns;
        }
        if (changed) {
            pace.changed_ns = now_ns;
            record_ns += period_ns;
        }
        now_ns = agent_pace_latest_ns(&pace, now_ns);
        if (period_ns && record_ns < now_ns)
            now_ns = record_ns;
    }
    return out;
}

static void
test_alone_a_sample_keeps_to_multiples_of_the_interval(void **state)
{
    (void)state;
    agent_pace_t pace = {.interval_ns = S};
    assert_true(agent_pace_is_due(&pace, false, 5 * S + 300 * MS));
    agent_pace_taken(&pace, 5 * S + 300 * MS);
    assert_int_equal(agent_pace_latest_ns(&pace, 5 * S + 300 * MS), 6 * S);
    assert_false(agent_pace_is_due(&pace, false, 6 * S - 1));
    assert_true(agent_pace_is_due(&pace, false, 6 * S));
    assert_int_equal(run(S, 0, 100 * S, 1000).taken, 1000);
}

static void
test_it_comes_with_the_records_of_a_writer(void **state)
{
    (void)state;
    for (int64_t phase_ns = 0; phase_ns < S; phase_ns += 50 * MS) {
        outcome_t out = run(S, S, 100 * S + phase_ns, 1000);
        assert_in_range(out.taken, 998, 1001);
        assert_in_range(out.alone, 0, 3); /* until they meet */
    }
}

static void
test_however_often_others_write_it_is_about_one_per_interval(void **state)
{
    (void)state;
    static const int64_t periods_ms[] = {10,  90,  100, 230,  300,  400,  510,  620,  740,
                                         810, 900, 990, 1010, 1100, 1200, 1500, 2300, 7000};
    static const int64_t intervals_ms[] = {100, 1000, 5000};
    for (size_t i = 0; i < sizeof periods_ms / sizeof *periods_ms; i++)
        for (size_t k = 0; k < sizeof intervals_ms / sizeof *intervals_ms; k++) {
            int64_t interval_ns = intervals_ms[k] * MS;
            outcome_t out = run(interval_ns, periods_ms[i] * MS, 100 * S, 1000);
            int most = (int)(1000 * S / interval_ns);
            assert_in_range(out.taken, most * 3 / 4, most + 1);
            assert_true(out.longest_ns <= interval_ns * 3 / 2);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_a_sample_keeps_to_multiples_of_the_interval),
        cmocka_unit_test(test_it_comes_with_the_records_of_a_writer),
        cmocka_unit_test(test_however_often_others_write_it_is_about_one_per_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
