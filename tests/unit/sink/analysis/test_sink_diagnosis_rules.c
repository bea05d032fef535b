/* sink_diagnosis: each rule on numbers worked out by hand. */
#include "must.h"

#include <math.h>
#include <string.h>

#include "sink_diagnosis.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)
#define S(name) d.causes[CREMA_BOTTLENECK_##name].s

/* Ten threads for 100 s: 600 s of CPU, 300 s without, 100 s idle in some way. */
static sink_budget_t
s_budget(void)
{
    return (sink_budget_t){.wall_s = 100,
                           .cap_s = 1000,
                           .alloc_s = 1000,
                           .all = {.cpu_s = 600, .noncpu_s = 300, .metered = true}};
}

static sink_measured_t
s_measured(void)
{
    sink_measured_t m = {
        .chunk_s = 900, .n_chunks = 90, .chunk_noncpu_s = 300, .wait_pays = 1, .n_tasks = 100};
    m.waits[CREMA_LOOK_INPUT] = (sink_range_t){300, 300, 300};
    return m;
}

static void
must_divide_waiting_between_gil_cores_opening_and_input(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    m.waits[CREMA_LOOK_GIL] = (sink_range_t){100, 80, 120};
    m.waits[CREMA_LOOK_CORE] = (sink_range_t){40, 40, 40};
    m.waits[CREMA_LOOK_INPUT] = (sink_range_t){120, 90, 130};
    m.opening_s = 40;
    m.open_gil_s = 25;
    m.open_cpu_s = 60;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(GIL), 100 - 25); /* turns in opening are a cost of chunks */
    NEAR(S(CORES), 40);
    NEAR(S(OPENING), 40);
    NEAR(S(INPUT), 120);
    NEAR(S(WAITING), 0);
    NEAR(S(CHUNKS), 60 + 25);
    NEAR(S(COMPUTE), 540);
    /* No tail: ten seconds of threads are one of the run. */
    NEAR(d.causes[CREMA_BOTTLENECK_GIL].saving_s, 7.5);
    NEAR(d.causes[CREMA_BOTTLENECK_GIL].lo, 6);
    NEAR(d.causes[CREMA_BOTTLENECK_GIL].hi, 9);
    NEAR(d.causes[CREMA_BOTTLENECK_INPUT].saving_s, 12);
    NEAR(d.causes[CREMA_BOTTLENECK_INPUT].lo, 9);
    NEAR(d.causes[CREMA_BOTTLENECK_INPUT].hi, 13);
    NEAR(d.causes[CREMA_BOTTLENECK_TAIL].lo, 0); /* nothing to save */
    NEAR(d.causes[CREMA_BOTTLENECK_TAIL].hi, 0);
    assert_int_equal(d.order[0], CREMA_BOTTLENECK_COMPUTE); /* no loss is a fifth */
}

/* Rounding leaves 1e-13 s of garbage collection where opening took all of the chunks' CPU, and of
 * a difference of idle times. */
static void
must_state_nothing_below_what_is_measurable(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    m.gc_s = 250;
    m.open_cpu_s = 600 * (1 - 1e-15);
    m.waits[CREMA_LOOK_INPUT] = (sink_range_t){300, 300, 300};
    m.waits[CREMA_LOOK_LOCK] = (sink_range_t){2e-14, 0, 3e-14};
    b.idle_s[SINK_IDLE_STARVED] = 4e-13;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(CHUNKS), 600 + 0);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++) {
        const sink_cause_t *cause = &d.causes[i];
        const double stated[] = {cause->s, cause->saving_s, cause->hi};
        for (int k = 0; k < 3; k++)
            assert_true(stated[k] == 0 || fabs(stated[k]) >= 1e-6);
    }
    assert_true(S(GARBAGE) == 0 && S(LOCK) == 0 && S(STARVED) == 0);
}

static void
must_charge_a_task_its_price_and_call_the_rest_latency(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.idle_s[SINK_IDLE_LATENCY] = 100;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(CHUNKS), 2); /* 100 tasks, 20 ms each */
    NEAR(S(LATENCY), 98);
    NEAR(d.causes[CREMA_BOTTLENECK_LATENCY].hi, 0.1 * 100 + 5); /* and half a chunk */
    b.idle_s[SINK_IDLE_STARVED] = 50; /* which the scheduler may have caused */
    d = sink_diagnosis_make(&m, &b);
    NEAR(d.causes[CREMA_BOTTLENECK_LATENCY].hi, 0.1 * (100 + 50) + 5);
    m.n_tasks = 1000000;
    d = sink_diagnosis_make(&m, &b);
    NEAR(S(CHUNKS), 100);
    NEAR(S(LATENCY), 0);
}

static void
must_give_each_idle_second_its_cause(void **state)
{
    (void)state;
    const struct {
        sink_idle_t idle;
        crema_bottleneck_t cause;
    } cases[] = {
        {SINK_IDLE_STARTUP, CREMA_BOTTLENECK_STARTUP},
        {SINK_IDLE_DRAINED, CREMA_BOTTLENECK_DRAINED},
        {SINK_IDLE_TAIL, CREMA_BOTTLENECK_TAIL},
        {SINK_IDLE_JOIN, CREMA_BOTTLENECK_SCALING},
        {SINK_IDLE_STARVED, CREMA_BOTTLENECK_STARVED},
        {SINK_IDLE_IMBALANCE, CREMA_BOTTLENECK_IMBALANCE},
        {SINK_IDLE_PREPROCESS, CREMA_BOTTLENECK_PREPROCESS},
        {SINK_IDLE_MERGE, CREMA_BOTTLENECK_MERGE},
        {SINK_IDLE_PAUSED, CREMA_BOTTLENECK_SPILL},
    };
    assert_int_equal(sizeof cases / sizeof *cases, SINK_IDLE_COUNT - 1); /* and latency */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_budget_t b = s_budget();
        sink_measured_t m = s_measured();
        b.idle_s[cases[i].idle] = 100;
        sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
        NEAR(d.causes[cases[i].cause].s, 100);
        NEAR(d.causes[cases[i].cause].saving_s, 10);
    }
}

/* A worker that was there before the first task did not come late, whatever it waited for. */
static void
must_not_call_a_worker_late_that_was_there(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.idle_s[SINK_IDLE_JOIN] = 100;
    b.idle_s[SINK_IDLE_STARVED] = 1;
    b.punctual_s[SINK_IDLE_LATENCY] = 30;
    b.punctual_s[SINK_IDLE_IMBALANCE] = 20;
    b.punctual_s[SINK_IDLE_STARVED] = 10;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(SCALING), 100 - 60);
    NEAR(S(CHUNKS) + S(LATENCY), 30);
    NEAR(S(IMBALANCE), 20);
    NEAR(S(STARVED), 11);
}

static void
must_take_what_is_slow_from_where_it_was_counted(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.idle_s[SINK_IDLE_TAIL] = 60;
    b.idle_s[SINK_IDLE_IMBALANCE] = 40;
    m.workers = (sink_slow_t){.n = 1, .cpu_s = 50, .noncpu_s = 30, .queue_share = 0.5};
    m.files = (sink_slow_t){.n = 1, .cpu_s = 10, .noncpu_s = 1000, .tail_s = 45};
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(SLOW_WORKERS), 50 + 30 + 20);
    NEAR(S(IMBALANCE), 20);
    NEAR(S(SLOW_FILES), 10 + 270 + 45); /* no more than there was */
    NEAR(S(INPUT), 0);
    NEAR(S(COMPUTE), 540);
    NEAR(S(TAIL), 15);
    assert_int_equal(d.order[0], CREMA_BOTTLENECK_SLOW_FILES);
}

static void
must_count_killed_workers_as_waste(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.all.wasted_s = 20;
    b.absent_s = 70;
    m.missing_s = 50;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(WASTED), 70);
    NEAR(S(SCALING), 20);
    m.missing_s = 500; /* others came in their place */
    d = sink_diagnosis_make(&m, &b);
    NEAR(S(WASTED), 90);
    NEAR(S(SCALING), 0);
}

/* What an executor's processes cost before they work is its start; none of them came late. */
static void
must_call_the_start_of_an_executor_its_start(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.outside_dask = true;
    b.absent_s = 100;
    b.absent_before_s = 60;
    b.absent_after_s = 10;
    b.idle_s[SINK_IDLE_JOIN] = 5;
    b.idle_s[SINK_IDLE_STARTUP] = 7;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(STARTUP), 60 + 5 + 7);
    NEAR(S(DRAINED), 10);
    NEAR(S(STARVED), 30);
    NEAR(S(SCALING), 0);
    m.missing_s = 35; /* one was killed: no second is counted twice */
    d = sink_diagnosis_make(&m, &b);
    NEAR(S(WASTED), 35);
    NEAR(S(STARTUP) + S(DRAINED) + S(STARVED), 60 + 5 + 7 + 5);
    NEAR(S(SCALING), 0);
    b.outside_dask = false;
    d = sink_diagnosis_make(&m, &b);
    NEAR(S(SCALING), 65 + 5);
}

/* Tasks that are a tenth shorter have a tail that is a tenth shorter. */
static void
must_shorten_the_tail_with_the_tasks(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.idle_s[SINK_IDLE_TAIL] = 90;
    m.gc_s = 100;
    m.wait_pays = 0.5;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(d.causes[CREMA_BOTTLENECK_GARBAGE].saving_s, 10 * 1.1);
    NEAR(d.causes[CREMA_BOTTLENECK_INPUT].saving_s, 30 * 1.1 / 2);
    NEAR(d.causes[CREMA_BOTTLENECK_TAIL].saving_s, 9);
}

/* Ten threads, chunks of 10 s. */
static void
must_bound_every_saving_by_half_a_chunk_and_by_the_tail(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    b.idle_s[SINK_IDLE_STARTUP] = 200;
    b.idle_s[SINK_IDLE_LATENCY] = 80;
    b.idle_s[SINK_IDLE_MERGE] = 10;
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    const sink_cause_t *c = d.causes;
    NEAR(c[CREMA_BOTTLENECK_STARTUP].lo, 20 - 5);
    NEAR(c[CREMA_BOTTLENECK_STARTUP].saving_s, 20);
    NEAR(c[CREMA_BOTTLENECK_STARTUP].hi, 20 + 5);
    NEAR(c[CREMA_BOTTLENECK_MERGE].lo, 0); /* no more than was there moves the end */
    NEAR(c[CREMA_BOTTLENECK_MERGE].hi, 2);
    NEAR(c[CREMA_BOTTLENECK_LATENCY].saving_s, 7.8); /* what it is by a rule may be otherwise */
    NEAR(c[CREMA_BOTTLENECK_LATENCY].lo, 7.6 - 5);
    NEAR(c[CREMA_BOTTLENECK_LATENCY].hi, 8 + 5);
    NEAR(c[CREMA_BOTTLENECK_CHUNKS].lo, 0);
    /* 0.2 s as the rule has it; with all latency and the opening 8 s and 0 s, and as much again
     * below half a chunk */
    NEAR(c[CREMA_BOTTLENECK_CHUNKS].hi, 8 + 5);
    b.idle_s[SINK_IDLE_TAIL] = 90;
    d = sink_diagnosis_make(&m, &b);
    NEAR(c[CREMA_BOTTLENECK_STARTUP].hi, 20 + 9); /* the tail goes too */
    NEAR(c[CREMA_BOTTLENECK_TAIL].lo, 9 - 5);
    NEAR(c[CREMA_BOTTLENECK_TAIL].hi, 9 + 5);
    for (int i = 0; i < CREMA_BOTTLENECK_COUNT; i++)
        assert_true(c[i].lo >= 0 && c[i].lo <= c[i].saving_s && c[i].saving_s <= c[i].hi);
    m.n_chunks = 0; /* nobody recorded how long they take */
    d = sink_diagnosis_make(&m, &b);
    assert_true(isnan(c[CREMA_BOTTLENECK_STARTUP].lo) && isnan(c[CREMA_BOTTLENECK_STARTUP].hi));
}

static void
must_doubt_only_what_matters(void **state)
{
    (void)state;
    const struct {
        double lo, value, hi;
        int also;
    } cases[] = {
        {100, 140, 160, CREMA_BOTTLENECK_INPUT}, /* of 300: input from 130 to 170 */
        {120, 200, 220, CREMA_BOTTLENECK_INPUT},
        {180, 200, 220, -1}, /* input at most 170 */
        {0, 20, 100, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_budget_t b = s_budget();
        sink_measured_t m = s_measured();
        m.waits[CREMA_LOOK_GIL] = (sink_range_t){cases[i].value, cases[i].lo, cases[i].hi};
        m.waits[CREMA_LOOK_INPUT] = (sink_range_t){150, 130, 170};
        b.cap_s = 700;
        sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
        assert_int_equal(d.causes[CREMA_BOTTLENECK_GIL].also, cases[i].also);
        b.cap_s = 10000; /* neither is a fifth */
        d = sink_diagnosis_make(&m, &b);
        assert_int_equal(d.causes[CREMA_BOTTLENECK_GIL].also, -1);
    }
}

/* A slow server loses from opening, reading and preprocessing alike; where Dask's own tasks are
 * the analysis, looks divide them. */
static void
must_divide_what_servers_and_other_tasks_took(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    m.waits[CREMA_LOOK_INPUT] = (sink_range_t){100, 100, 100};
    m.opening_s = 200;
    b.all.side_noncpu_s[CREMA_SIDE_PREPROCESS] = 50;
    m.servers = (sink_slow_t){.n = 1, .noncpu_s = 150, .preprocess_s = 20};
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    NEAR(S(SLOW_SERVERS), 170);
    NEAR(S(INPUT), 0);
    NEAR(S(OPENING), 150);
    NEAR(S(PREPROCESS), 30);
    sink_budget_t plain = {.wall_s = 10, .cap_s = 100, .alloc_s = 100};
    plain.all.side_noncpu_s[CREMA_SIDE_OVERHEAD] = 80;
    sink_measured_t looked = {.n_tasks = 1};
    looked.others_s[CREMA_LOOK_CPU] = 10;
    looked.others_s[CREMA_LOOK_SERVICE] = 30;
    d = sink_diagnosis_make(&looked, &plain);
    NEAR(S(COMPUTE), 20);
    NEAR(S(SERVICE), 60);
    NEAR(S(OVERHEAD), 0);
}

static void
must_know_what_it_does_not_know(void **state)
{
    (void)state;
    sink_budget_t b = s_budget();
    sink_measured_t m = s_measured();
    sink_diagnosis_t d = sink_diagnosis_make(&m, &b);
    assert_false(d.causes[CREMA_BOTTLENECK_CORES].known);
    m.cores_known = true;
    d = sink_diagnosis_make(&m, &b);
    assert_true(d.causes[CREMA_BOTTLENECK_CORES].known);
    assert_true(d.causes[CREMA_BOTTLENECK_INPUT].estimated);
    assert_false(d.causes[CREMA_BOTTLENECK_WASTED].estimated);
    assert_true(strncmp(SINK_DIAGNOSIS_RULES, "crema-diagnosis/", 16) == 0);
    const sink_budget_t nothing = {0};
    const sink_measured_t unknown = {0};
    d = sink_diagnosis_make(&unknown, &nothing);
    assert_true(isnan(d.causes[CREMA_BOTTLENECK_INPUT].saving_s));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_divide_waiting_between_gil_cores_opening_and_input),
        cmocka_unit_test(must_state_nothing_below_what_is_measurable),
        cmocka_unit_test(must_charge_a_task_its_price_and_call_the_rest_latency),
        cmocka_unit_test(must_give_each_idle_second_its_cause),
        cmocka_unit_test(must_not_call_a_worker_late_that_was_there),
        cmocka_unit_test(must_take_what_is_slow_from_where_it_was_counted),
        cmocka_unit_test(must_count_killed_workers_as_waste),
        cmocka_unit_test(must_call_the_start_of_an_executor_its_start),
        cmocka_unit_test(must_shorten_the_tail_with_the_tasks),
        cmocka_unit_test(must_bound_every_saving_by_half_a_chunk_and_by_the_tail),
        cmocka_unit_test(must_doubt_only_what_matters),
        cmocka_unit_test(must_divide_what_servers_and_other_tasks_took),
        cmocka_unit_test(must_know_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
