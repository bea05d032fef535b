/* sink_grid: even steps, means over them, sums that agree with the run's. */
#include <math.h>
#include <stdlib.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_grid.h"

#define S 1000000000LL

static void
must_choose_round_steps(void **state)
{
    (void)state;
    const struct {
        int64_t length_ns, want_step_ns;
        size_t want_n;
    } cases[] = {
        {1, S / 10, 1},         {S / 10, S / 10, 1},       {S / 10 + 1, S / 10, 2},
        {10 * S, S / 10, 100},  {100 * S, S / 10, 1000},   {101 * S, S / 5, 505},
        {3600 * S, 5 * S, 720}, {86400 * S, 100 * S, 864},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_axis_t axis = sink_axis(1000, 1000 + cases[i].length_ns);
        assert_int_equal(axis.t0_ns, 1000);
        assert_int_equal(axis.step_ns, cases[i].want_step_ns);
        assert_int_equal(axis.n, cases[i].want_n);
    }
}

static void
must_spread_the_toy_run(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy");
    decoded_t d;
    fixture_toy(dir, 1);
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_axis_t axis = {d.facts->t0_ns, S, 10};
    double *values[CREMA_GRID_PER_WORKER];
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        values[v] = calloc(2 * axis.n, sizeof(double));
    sink_grid_workers(d.facts, &axis, 0, 2, values);
    const double busy_b[10] = {NAN, NAN, 0.5, 1, 1, 0.5, 1, 1, NAN, NAN};
    for (size_t i = 0; i < 10; i++) {
        double got = values[CREMA_GRID_BUSY_THREADS][10 + i];
        assert_true(isnan(busy_b[i]) ? isnan(got) : fabs(got - busy_b[i]) < 1e-9);
    }
    assert_true(fabs(values[CREMA_GRID_SLOT_BUSY_PCT][4] - 50) < 1e-9); /* A from 4.5 */
    assert_true(fabs(values[CREMA_GRID_EVENT_RATE][1] - 100) < 1e-9);   /* 300 events in 3 s */
    assert_true(fabs(values[CREMA_GRID_BYTES_RATE][1] - 100000) < 1e-6);
    assert_true(isnan(values[CREMA_GRID_CPU_PCT][3])); /* nobody sampled */
    double events = 0, sums[10];
    for (size_t i = 0; i < 20; i++)
        events += isnan(values[CREMA_GRID_EVENT_RATE][i]) ? 0 : values[CREMA_GRID_EVENT_RATE][i];
    assert_true(fabs(events - 1100) < 1e-6);
    sink_grid_sum(d.facts, &axis, CREMA_GRID_EVENT_RATE_TOTAL, sums);
    for (size_t i = 0, n = 0; i < 10; i++, n++)
        events -= sums[i];
    assert_true(fabs(events) < 1e-6);
    const double threads[10] = {1, 1, 2, 2, 2, 2, 2, 2, 1, 1};
    sink_axis_t tenths = sink_axis(d.facts->t0_ns, d.facts->t1_ns);
    double fine[100];
    assert_int_equal(tenths.n, 100);
    sink_grid_sum(d.facts, &tenths, CREMA_GRID_N_THREADS, fine);
    for (size_t i = 0; i < 100; i++)
        assert_true(fabs(fine[i] - threads[i / 10]) < 1e-9);
    sink_grid_sum(d.facts, &tenths, CREMA_GRID_BUSY_THREADS_TOTAL, fine);
    for (size_t i = 20; i < 30; i++)
        assert_true(fabs(fine[i] - (i < 25 ? 1 : 2)) < 1e-9);
    for (size_t i = 90; i < 100; i++)
        assert_true(fabs(fine[i] - (i < 98 ? 1 : 0)) < 1e-9);
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        free(values[v]);
    decoded_close(&d);
}

/* Steps of 3 s: the fourth is 1 s long, in which A computes for 0.8 s. */
static void
must_average_the_last_step_over_its_part_of_the_run(void **state)
{
    (void)state;
    const char *dir = scratch_dir("toy");
    decoded_t d;
    fixture_toy(dir, 1);
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_axis_t axis = {d.facts->t0_ns, 3 * S, 4};
    double lines[CREMA_GRID_PER_WORKER][4], *values[CREMA_GRID_PER_WORKER], rate[4];
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        values[v] = lines[v];
    sink_grid_workers(d.facts, &axis, 0, 1, values);
    sink_grid_sum(d.facts, &axis, CREMA_GRID_EVENT_RATE_TOTAL, rate);
    assert_true(fabs(lines[CREMA_GRID_BUSY_THREADS][3] - 0.8) < 1e-9);
    assert_true(fabs(lines[CREMA_GRID_SLOT_BUSY_PCT][3] - 80) < 1e-9);
    assert_true(fabs(lines[CREMA_GRID_EVENT_RATE][3] - 50) < 1e-6);
    assert_true(fabs(rate[3] - 50) < 1e-6);
    assert_true(fabs(lines[CREMA_GRID_EVENT_RATE][0] - 200.0 / 3) < 1e-6); /* 2 of 3 s */
    decoded_close(&d);
}

static void
must_average_samples_within_a_step(void **state)
{
    (void)state;
    const char *dir = scratch_dir("busy");
    decoded_t d;
    fixture_busy(dir, 1, 3, 60);
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_axis_t axis = {d.facts->t0_ns, 100 * S, 1}; /* all in one */
    double one[CREMA_GRID_PER_WORKER][1], *values[CREMA_GRID_PER_WORKER];
    for (int v = 0; v < CREMA_GRID_PER_WORKER; v++)
        values[v] = one[v];
    double sum = 0, n = 0;
    for (size_t i = 0; i < d.facts->n_samples; i++) {
        if (d.facts->samples[i].worker == 1) {
            sum += d.facts->samples[i].cpu_pct;
            n++;
        }
    }
    sink_grid_workers(d.facts, &axis, 1, 1, values);
    assert_true(n > 5 && fabs(one[CREMA_GRID_CPU_PCT][0] - sum / n) < 1e-9);
    assert_true(fabs(one[CREMA_GRID_EXECUTING][0] - 2) < 1e-9);
    assert_true(one[CREMA_GRID_MEMORY_PCT][0] > 25 && one[CREMA_GRID_MEMORY_PCT][0] < 26);
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_choose_round_steps),
        cmocka_unit_test(must_spread_the_toy_run),
        cmocka_unit_test(must_average_the_last_step_over_its_part_of_the_run),
        cmocka_unit_test(must_average_samples_within_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
