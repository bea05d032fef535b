/* sink_bound: what honest writers send stays, everything else becomes unknown. */
#include "cell.h"
#include "must.h"
#include "sink_bound.h"

static void
must_know_what_can_be_a_time(void **state)
{
    (void)state;
    const struct {
        int64_t t, want;
    } cases[] = {{0, 0},
                 {1, 1},
                 {1767225600000000000, 1767225600000000000},
                 {SINK_BOUND_TIME_NS - 1, SINK_BOUND_TIME_NS - 1},
                 {SINK_BOUND_TIME_NS, 0},
                 {-1, 0},
                 {INT64_MIN, 0},
                 {INT64_MAX, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sink_bound_time_ns(cases[i].t), cases[i].want);
}

static void
must_add_up_to_the_largest(void **state)
{
    (void)state;
    assert_int_equal(sink_bound_sum(3, 4), 7);
    assert_int_equal(sink_bound_sum(INT64_MAX - 1, 1), INT64_MAX);
    assert_int_equal(sink_bound_sum(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(sink_bound_sum(1, UINT64_MAX), INT64_MAX);
}

static void
must_bound_times_counts_and_bytes_but_no_hashes(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    const sink_bound_t bound = sink_bound_of(t);
    const struct {
        const char *column;
        int64_t value, want;
    } cases[] = {
        {"t_start_ns", INT64_MAX, 0},
        {"t_end_ns", -5, 0},
        {"t_end_ns", 1767225600000000000, 1767225600000000000},
        {"n_events", 1LL << 40, -1},
        {"n_events", (1LL << 40) - 1, (1LL << 40) - 1},
        {"n_events", -1, -1},
        {"n_events", 0, 0},
        {"bytes_read_b", 1LL << 50, -1},
        {"bytes_read_b", 1LL << 49, 1LL << 49},
        {"rss_peak_b", INT64_MIN, -1},
        {"chunk_id", INT64_MIN, INT64_MIN},
        {"task_key", INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t rows[2 * CREMA_ROW_BYTES_MAX]; /* the second of two */
        uint8_t *row = rows + crema_table_row_bytes(t);
        crema_row_clear(t, rows);
        crema_row_clear(t, row);
        cell_set(t, row, cases[i].column, cases[i].value);
        sink_bound_rows(&bound, t, rows, 2);
        if (cell_int(t, row, cases[i].column) != cases[i].want)
            fail_msg("%s: %lld", cases[i].column, (long long)cell_int(t, row, cases[i].column));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_know_what_can_be_a_time),
        cmocka_unit_test(must_add_up_to_the_largest),
        cmocka_unit_test(must_bound_times_counts_and_bytes_but_no_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
