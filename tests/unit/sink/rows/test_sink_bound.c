/* sink_bound: what honest writers send stays, everything else becomes unknown. */
#include <math.h>

#include "must.h"
#include "row_cell.h"
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

#define TWO_ROWS (2 * CREMA_ROW_BYTES_MAX)

/* Returns the second row. */
static uint8_t *
s_clear_two(const crema_table_t *t, uint8_t rows[TWO_ROWS])
{
    uint8_t *second = rows + crema_table_row_bytes(t);
    crema_row_clear(t, rows);
    crema_row_clear(t, second);
    return second;
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
        uint8_t rows[TWO_ROWS], *row = s_clear_two(t, rows);
        cell_set(t, row, cases[i].column, cases[i].value);
        sink_bound_rows(&bound, t, rows, 2);
        if (cell_int(t, row, cases[i].column) != cases[i].want)
            fail_msg("%s: %lld", cases[i].column, (long long)cell_int(t, row, cases[i].column));
    }
}

static void
must_bound_small_numbers(void **state)
{
    (void)state;
    const struct {
        crema_table_id_t table;
        const char *column;
        int64_t value, want;
    } cases[] = {
        {CREMA_TABLE_CHUNKS, "n_branches", INT32_MIN, -1},
        {CREMA_TABLE_CHUNKS, "n_branches", 0, 0},
        {CREMA_TABLE_CHUNKS, "n_branches", INT32_MAX, INT32_MAX},
        {CREMA_TABLE_HEARTBEATS, "backlog", -2, -1},
        {CREMA_TABLE_SECTIONS, "parent", -7, -1},
        {CREMA_TABLE_SECTIONS, "parent", -1, -1},
        {CREMA_TABLE_SECTIONS, "entry", 3, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const crema_table_t *t = crema_table(cases[i].table);
        const sink_bound_t bound = sink_bound_of(t);
        uint8_t rows[TWO_ROWS], *row = s_clear_two(t, rows);
        cell_set(t, row, cases[i].column, cases[i].value);
        sink_bound_rows(&bound, t, rows, 2);
        assert_int_equal(cell_int(t, row, cases[i].column), cases[i].want);
    }
}

static void
must_bound_reals_but_no_metrics_of_users(void **state)
{
    (void)state;
    const struct {
        crema_table_id_t table;
        const char *column;
        double value;
        bool stays;
    } cases[] = {
        {CREMA_TABLE_CHUNKS, "cpu_s", 0, true},
        {CREMA_TABLE_CHUNKS, "cpu_s", 1e12, true},
        {CREMA_TABLE_CHUNKS, "cpu_s", 1.1e12, false},
        {CREMA_TABLE_CHUNKS, "wall_s", -1e-9, false},
        {CREMA_TABLE_CHUNKS, "open_s", (double)INFINITY, false},
        {CREMA_TABLE_CHUNKS, "gc_s", (double)NAN, false},
        {CREMA_TABLE_WORKER_SAMPLES, "cpu_pct", 1e300, false},
        {CREMA_TABLE_WORKER_SAMPLES, "cpu_pct", 12800, true},
        {CREMA_TABLE_ACTIVITIES, "total", -3, true},
        {CREMA_TABLE_ACTIVITIES, "total", 5e18, false},
        {CREMA_TABLE_ACTIVITIES, "total", -(double)INFINITY, false},
        {CREMA_TABLE_CUSTOM, "value", (double)INFINITY, true},
        {CREMA_TABLE_CUSTOM, "value", -1e300, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const crema_table_t *t = crema_table(cases[i].table);
        const sink_bound_t bound = sink_bound_of(t);
        uint8_t rows[TWO_ROWS], *row = s_clear_two(t, rows);
        cell_set_real(t, row, cases[i].column, cases[i].value);
        sink_bound_rows(&bound, t, rows, 2);
        double found = cell_real(t, row, cases[i].column);
        if (cases[i].stays ? found != cases[i].value : !isnan(found))
            fail_msg("%s: %g became %g", cases[i].column, cases[i].value, found);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_know_what_can_be_a_time),
        cmocka_unit_test(must_add_up_to_the_largest),
        cmocka_unit_test(must_bound_times_counts_and_bytes_but_no_hashes),
        cmocka_unit_test(must_bound_small_numbers),
        cmocka_unit_test(must_bound_reals_but_no_metrics_of_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
