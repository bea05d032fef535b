/* sink_sweep: step integrals, idle classes, the steady window. */
#include <math.h>

#include "crema_columns.h"
#include "must.h"
#include "sink_sweep.h"

#define S 1000000000LL
#define T0 (1000 * S)
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)
#define AT(s) (T0 + (int64_t)((s)*1e9 + 0.5))

/* Tasks in order of their begin. */
typedef struct {
    const sink_busy_t *busy;
    size_t n, next;
} tasks_t;

#define TASKS(array, count)                                                                        \
    .cursor = &(tasks_t){array, count, 0}, .next = s_next, .rewind = s_rewind

static bool
s_next(void *cursor, sink_busy_t *ret_busy)
{
    tasks_t *self = cursor;
    if (self->next == self->n)
        return false;
    *ret_busy = self->busy[self->next++];
    return true;
}

static void
s_rewind(void *cursor)
{
    ((tasks_t *)cursor)->next = 0;
}

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
    assert_int_equal(out.n_counts, 2);
    assert_int_equal(out.counts[0].workers, 0);
    assert_int_equal(out.counts[1].t_ns, AT(30.5));
    assert_int_equal(out.counts[1].workers, 100);
    NEAR(sink_sweep_thread_s(&out, AT(30), AT(31)), 50);
    NEAR(sink_sweep_thread_s(&out, AT(0), AT(600)), out.alloc_s);
    NEAR(sink_sweep_thread_s(&out, AT(10), AT(20)), 0);
    NEAR(out.worker_ns[30] * 1e-9, 50); /* in the second from 30 s on */
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
    const sink_busy_t busy[] = {{AT(1), AT(4), 0, 0, true, 0},
                                {AT(2.5), AT(5.5), 0, 1, true, 0},
                                {AT(4.5), AT(9), 0, 0, true, 0},
                                {AT(6), AT(8), 0, 1, true, 0},
                                {AT(9), AT(9.8), 0, 0, true, 0}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 2,
                          .presence = presence,
                          .n_presence = 2,
                          TASKS(busy, 5)};
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
    const sink_busy_t waiting[] = {{AT(1), AT(4), 0, 0, true, 0},
                                   {AT(2.5), AT(5.5), 0, 1, true, 0},
                                   {AT(4.5), AT(9), AT(4.2), 0, true, 0},
                                   {AT(5.8), AT(5.8), AT(4.4), 0, true, 0}, /* it takes no time */
                                   {AT(6), AT(8), 0, 1, true, 0},
                                   {AT(9), AT(9.8), 0, 0, true, 0}};
    in.cursor = &(tasks_t){waiting, 6, 0};
    sink_sweep_clear(&out);
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 0.3);   /* A 4.2-4.5 */
    NEAR(out.idle_s[SINK_IDLE_IMBALANCE], 0.3); /* B 5.5-5.8, while A has a queue */
    NEAR(out.idle_s[SINK_IDLE_STARVED], 0.4);

    /* B's last chunk arrives at 5.7 s only: it could have been there at 5.5 s. */
    const int64_t arrivals[] = {AT(4.4), AT(5.7)};
    in.last_arrival_ns = arrivals;
    sink_sweep_clear(&out);
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 0.3 + 0.2 + 0.2); /* A from 4 s on, B 5.5-5.7 */
    NEAR(out.idle_s[SINK_IDLE_IMBALANCE], 0.1);
    NEAR(out.idle_s[SINK_IDLE_STARVED], 0.2);
    sink_sweep_clear(&out);
}

/* Three workers were there from the start, a fourth came later; tasks wait at the first one. */
static void
must_call_only_those_late_that_came_late(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {
        {AT(0), AT(20), 0, 1}, {AT(0), AT(20), 1, 1}, {AT(0), AT(20), 2, 1}, {AT(2), AT(20), 3, 1}};
    const sink_busy_t busy[] = {
        {AT(1), AT(5), 0, 0, true, 0},      {AT(4), AT(8), AT(1), 1, true, 0},
        {AT(5), AT(9), AT(1), 0, true, 0},  {AT(6), AT(9), AT(1), 3, true, 0},
        {AT(9), AT(12), AT(1), 0, true, 0},
    };
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(20),
                          .n_workers = 4,
                          .presence = presence,
                          .n_presence = 4,
                          TASKS(busy, 5)};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_JOIN], (4 - 1) + (9 - 1) + (6 - 2));
    /* The second had a task from 1 s on, and began it at 4 s: nobody knows why. */
    NEAR(out.punctual_s[SINK_IDLE_LATENCY], 4 - 1);
    /* The third had none. Two waited for the first until 5 s, one until 9 s, and from 8 s on the
     * second was free for that one. */
    NEAR(out.punctual_s[SINK_IDLE_IMBALANCE], 8 - 1);
    NEAR(out.punctual_s[SINK_IDLE_STARVED], 9 - 8);
    sink_sweep_clear(&out);

    /* Its last chunk arrived at 3 s: until then it could have been there. */
    const int64_t arrivals[] = {AT(0), AT(0), AT(3), AT(0)};
    in.last_arrival_ns = arrivals;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_JOIN], (4 - 1) + (9 - 1) + (6 - 2));
    NEAR(out.punctual_s[SINK_IDLE_LATENCY], 4 - 1 + (3 - 1));
    NEAR(out.punctual_s[SINK_IDLE_IMBALANCE], 8 - 3);
    sink_sweep_clear(&out);

    /* Nothing waits: there was nothing to do. */
    const sink_busy_t alone[] = {{AT(1), AT(5), 0, 0, true, 0}, {AT(5), AT(9), 0, 0, true, 0}};
    in.cursor = &(tasks_t){alone, 2, 0};
    in.last_arrival_ns = NULL;
    must(sink_sweep_run(&in, &out));
    NEAR(out.punctual_s[SINK_IDLE_STARVED], 2 * (5 - 1));
    NEAR(out.idle_s[SINK_IDLE_JOIN], 2 * (5 - 1) + (5 - 2));
    sink_sweep_clear(&out);
}

/* Four workers of two threads; the second has a queue of four that nobody takes from it. */
static void
must_blame_latency_only_on_the_worker_that_has_a_task(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {
        {AT(0), AT(20), 0, 2}, {AT(0), AT(20), 1, 2}, {AT(0), AT(20), 2, 2}};
    const sink_busy_t busy[] = {
        {AT(0), AT(2), 0, 0, true, 0},      {AT(0), AT(2), 0, 2, true, 0},
        {AT(0), AT(4), 0, 1, true, 0},      {AT(0), AT(4), 0, 1, true, 0},
        {AT(4), AT(8), AT(0), 1, true, 0},  {AT(4), AT(8), AT(0), 1, true, 0},
        {AT(8), AT(12), AT(0), 1, true, 0}, {AT(8), AT(12), AT(0), 1, true, 0},
    };
    const int64_t arrivals[] = {AT(0), AT(0), AT(0)};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(20),
                          .n_workers = 3,
                          .presence = presence,
                          .n_presence = 3,
                          TASKS(busy, 8),
                          .last_arrival_ns = arrivals};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 0);
    /* Two threads are free until 2 s, then four; four tasks wait until 4 s, two until 8 s. */
    NEAR(out.idle_s[SINK_IDLE_IMBALANCE], 2 * 2 + 4 * 2 + 2 * 4);
    NEAR(out.idle_s[SINK_IDLE_STARVED], 2 * 4);
    NEAR(out.idle_s[SINK_IDLE_TAIL], 4 * 4);
    sink_sweep_clear(&out);

    /* The queue's own worker leaves a thread free from 4 to 8 s: that is latency. */
    sink_busy_t late[8];
    for (size_t i = 0; i < 8; i++)
        late[i] = busy[i];
    late[5] = (sink_busy_t){AT(8), AT(12), AT(0), 1, true, 0};
    in.cursor = &(tasks_t){late, 7, 0};
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_LATENCY], 4);
    sink_sweep_clear(&out);
}

static void
must_tell_pauses_preprocessing_and_merging_apart(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {{AT(0), AT(20), 0, 1}, {AT(0), AT(20), 1, 1}};
    const sink_busy_t busy[] = {{AT(0), AT(3), 0, 0, false, CREMA_SIDE_PREPROCESS},
                                {AT(3), AT(6), 0, 0, true, 0},
                                {AT(3), AT(4), 0, 1, true, 0},
                                {AT(6), AT(9), 0, 0, true, 0},
                                {AT(9), AT(14), 0, 1, false, CREMA_SIDE_MERGE}};
    const sink_spell_t paused[] = {{AT(4), AT(5.5), 1}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(14),
                          .n_workers = 2,
                          .presence = presence,
                          .n_presence = 2,
                          TASKS(busy, 5),
                          .paused = paused,
                          .n_paused = 1};
    sink_sweep_t out;
    must(sink_sweep_run(&in, &out));
    NEAR(out.idle_s[SINK_IDLE_PREPROCESS], 3);
    NEAR(out.idle_s[SINK_IDLE_PAUSED], 1.5);
    NEAR(out.idle_s[SINK_IDLE_STARVED], 0.5);
    NEAR(out.idle_s[SINK_IDLE_TAIL], 3);
    NEAR(out.idle_s[SINK_IDLE_MERGE], 5);
    double idle = 0;
    for (int i = 0; i < SINK_IDLE_COUNT; i++)
        idle += out.idle_s[i];
    NEAR(idle + out.busy_s, out.alloc_s);
    sink_sweep_clear(&out);
}

static void
must_see_the_tail(void **state)
{
    (void)state;
    const sink_presence_t presence[] = {{AT(0), AT(10), 0, 4}};
    const sink_busy_t busy[] = {{AT(0), AT(2), 0, 0, false, 0},
                                {AT(0), AT(3), 0, 0, false, 0},
                                {AT(0), AT(8), 0, 0, false, 0},
                                {AT(1), AT(3), 0, 0, false, 0}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          TASKS(busy, 4)};
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
    const sink_busy_t busy[] = {{AT(0), AT(2), 0, 0, true, 0},
                                {AT(1), AT(8), 0, 0, true, 0},
                                {AT(8), AT(9), 0, 0, false, 0}};
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          TASKS(busy, 3)};
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
        {AT(-5), AT(20), 0, 0, false, 0},
        {AT(3), AT(4), 0, 0, false, 0},
        {AT(9), AT(10), AT(1), 1, true, 0}, /* of nobody */
        {AT(9), AT(10), AT(1), UINT32_MAX, true, 0},
        {AT(30), AT(40), 0, 0, false, 0},
    };
    sink_sweep_in_t in = {.t0_ns = T0,
                          .t1_ns = AT(10),
                          .n_workers = 1,
                          .presence = presence,
                          .n_presence = 1,
                          TASKS(busy, 5)};
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
    assert_int_equal(out.n_counts, 1);
    assert_int_equal(out.n_tail, 0);
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
        cmocka_unit_test(must_call_only_those_late_that_came_late),
        cmocka_unit_test(must_blame_latency_only_on_the_worker_that_has_a_task),
        cmocka_unit_test(must_tell_pauses_preprocessing_and_merging_apart),
        cmocka_unit_test(must_see_the_tail),
        cmocka_unit_test(must_end_the_tail_with_the_last_chunk),
        cmocka_unit_test(must_never_count_more_busy_than_there_are),
        cmocka_unit_test(must_do_without_anybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
