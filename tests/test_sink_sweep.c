/* sink_sweep: step integrals, idle classes, the steady window. */
#include <math.h>

#include "must.h"
#include "sink_sweep.h"

#define S 1000000000LL
#define T0 (1000 * S)
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)
#define AT(s) (T0 + (int64_t)((s)*1e9 + 0.5))

static void
must_integrate_steps_exactly(void **state)
{
    (void)state;
    /* 100 workers join 30.5 s into 600 s: 94.917 on average; a trapezoid would say more. */
    sink_presence_t presence[100];
    for (uint32_t i = 0; i < 100; i++)
        presence[i] = (sink_presence_t){AT(30.5), AT(600), i, 1};
    sink_sweep_in_t in = {
        .t0_ns = T0, .t1_ns = AT(600), .n_workers = 100, .presence = presence, .n_presence = 100};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.alloc_s / 600, 94.91666666666667);
    NEAR(out.worker_s / 600, 94.91666666666667);
    assert_int_equal(out.threads_peak, 100);
    NEAR(sink_sweep_integral_s(&out, SINK_STEP_WORKERS, AT(30), AT(31), AT(600)), 50);
    sink_sweep_clear(&out);
    sink_sweep_clear(&out);
}

/* {0 s: 2, 1 s: 4, 2 s: 4} is 3.0 over two seconds. */
static void
must_hold_a_value_until_the_next(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {{AT(0), AT(2), 0, 2}, {AT(1), AT(2), 1, 2}};
    sink_sweep_in_t in = {
        .t0_ns = T0, .t1_ns = AT(2), .n_workers = 2, .presence = presence, .n_presence = 2};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.alloc_s / 2, 3.0);
    NEAR(out.worker_s / 2, 1.5);
    sink_sweep_clear(&out);
}

static void
must_class_idle_threads(void **state)
{
    (void)state;
    /* The toy run of the formulas. */
    const sink_presence_t presence[] = {{AT(0), AT(10), 0, 1}, {AT(2), AT(8), 1, 1}};
    const sink_busy_t busy[] = {{AT(1), AT(4), 0, true},
                                {AT(2.5), AT(5.5), 1, true},
                                {AT(4.5), AT(9), 0, true},
                                {AT(6), AT(8), 1, true},
                                {AT(9), AT(9.8), 0, true}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 2,
                          .presence = presence,
                          .n_presence = 2,
                          .busy = busy,
                          .n_busy = 5};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.alloc_s, 16);
    NEAR(out.busy_s, 13.3);
    NEAR(out.idle_s[SINK_IDLE_STARTUP], 1.0);
    NEAR(out.idle_s[SINK_IDLE_JOIN], 0.5);
    NEAR(out.idle_s[SINK_IDLE_STARVED], 1.0);
    NEAR(out.idle_s[SINK_IDLE_DRAINED], 0.2);
    NEAR(out.idle_s[SINK_IDLE_TAIL], 0);
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 0);
    assert_int_equal(out.threads_peak, 2);
    assert_int_equal(out.t_steady0_ns, AT(1));
    assert_int_equal(out.t_steady1_ns, AT(9.8));
    NEAR(out.steady_thread_s / 8.8, 1.6818181818181817);
    assert_int_equal(out.t_last_start_ns, AT(9));
    assert_int_equal(out.t_last_end_ns, AT(9.8));
    NEAR(out.workers[0].busy_s, 8.3);
    NEAR(out.workers[1].present_s, 6);

    /* The same with tasks that wait on some worker from 4.2 to 5.8. */
    const sink_ready_t ready[] = {{AT(4.2), AT(4.5)}, {AT(4.4), AT(5.8)}};
    in.ready = ready;
    in.n_ready = 2;
    sink_sweep_clear(&out);
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 0.6); /* A 4.2-4.5, B 5.5-5.8 */
    NEAR(out.idle_s[SINK_IDLE_STARVED], 0.4);
    sink_sweep_clear(&out);
}

static void
must_see_the_tail(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {{AT(0), AT(10), 0, 4}};
    const sink_busy_t busy[] = {{AT(0), AT(2), 0, false},
                                {AT(0), AT(3), 0, false},
                                {AT(0), AT(8), 0, false},
                                {AT(1), AT(3), 0, false}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          .busy = busy,
                          .n_busy = 4};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_STARVED], 1);      /* the fourth slot until 1 s */
    NEAR(out.idle_s[SINK_IDLE_TAIL], 1 + 3 * 5); /* 2-3 s one, 3-8 s three */
    NEAR(out.tail_free_s, 16);
    NEAR(out.idle_s[SINK_IDLE_DRAINED], 8);
    double idle = 0;
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        idle += out.idle_s[i];
    NEAR(idle + out.busy_s, out.alloc_s);
    sink_sweep_clear(&out);
}

static void
must_end_the_tail_with_the_last_chunk(void **state)
{
    (void)state;
    /* A long chunk beside a short one, then a merge that could not begin before. */
    const sink_presence_t presence[] = {{AT(0), AT(10), 0, 2}};
    const sink_busy_t busy[] = {
        {AT(0), AT(2), 0, true}, {AT(1), AT(8), 0, true}, {AT(8), AT(9), 0, false}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          .busy = busy,
                          .n_busy = 3};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_TAIL], 6);
    NEAR(out.tail_free_s, 6);
    NEAR(out.idle_s[SINK_IDLE_STARVED], 1 + 1); /* before the second chunk, beside the merge */
    NEAR(out.idle_s[SINK_IDLE_DRAINED], 2);
    NEAR(out.workers[0].active_s, 9);
    sink_sweep_clear(&out);
}

static void
must_never_count_more_busy_than_there_are(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {{AT(2), AT(6), 0, 1}};
    const sink_busy_t busy[] = {
        {AT(-5), AT(20), 0, false}, {AT(3), AT(4), 0, false}, {AT(30), AT(40), 0, false}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          .busy = busy,
                          .n_busy = 3};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.busy_s, 4);
    NEAR(out.alloc_s, 4);
    assert_int_equal(out.t_last_end_ns, AT(10)); /* cut to the window */
    sink_sweep_clear(&out);
    in.t1_ns = in.t0_ns;
    assert_int_equal(sink_sweep_run(&in, &out), CREMA_EINVAL);
}

static void
must_do_without_anybody(void **state)
{
    (void)state;
    sink_sweep_in_t in = {.t0_ns = T0, .t1_ns = AT(1)};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.alloc_s, 0);
    assert_int_equal(out.n_steps, 1);
    assert_int_equal(out.t_steady0_ns, 0);
    sink_sweep_clear(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_integrate_steps_exactly),
        cmocka_unit_test(must_hold_a_value_until_the_next),
        cmocka_unit_test(must_class_idle_threads),
        cmocka_unit_test(must_see_the_tail),
        cmocka_unit_test(must_end_the_tail_with_the_last_chunk),
        cmocka_unit_test(must_never_count_more_busy_than_there_are),
        cmocka_unit_test(must_do_without_anybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
