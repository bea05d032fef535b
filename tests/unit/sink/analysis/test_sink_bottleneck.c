/* sink_bottleneck on made-up facts: one worker whose threads compute, wait, or take turns. */
#include "must.h"

#include <math.h>
#include <string.h>

#include "sink_bottleneck.h"

#define S 1000000000LL

typedef struct {
    const char *what;
    double threads, cpu_s, proc_cpu_s; /* of each attempt of 10 s */
    double wait_s, contention;         /* of the worker; NaN unknown */
    crema_bottleneck_t first;
    double gil_s;
    int also; /* of the first; -1 it is sure */
} case_t;

static double s_open_s; /* of each attempt's 10 s */
static size_t s_looks = 100;

/* `threads` attempts side by side, 10 s each, that fill the run. */
static sink_diagnosis_t
s_find(const case_t *c, sink_bottleneck_t *ret_found)
{
    sink_chunk_t chunks[8] = {0};
    double score[8], predicted[8];
    size_t n = (size_t)c->threads;
    for (size_t i = 0; i < 8; i++)
        score[i] = predicted[i] = NAN;
    for (size_t i = 0; i < n; i++)
        chunks[i] = (sink_chunk_t){.t_end_ns = 10 * S,
                                   .wall_s = 10 - s_open_s,
                                   .open_s = s_open_s,
                                   .cpu_s = c->cpu_s,
                                   .gc_s = 0,
                                   .proc_cpu_s = c->proc_cpu_s,
                                   .counted = true};
    sink_load_t load = {10, 10 * c->threads, 10 * c->threads, 10};
    sink_worker_t worker = {.cpu_wait_s = c->wait_s, .gil = c->contention, .gil_looks = s_looks};
    sink_facts_t facts = {.chunks = chunks,
                          .n_chunks = n,
                          .n_workers = 1,
                          .workers = &worker,
                          .sweep = {.workers = &load}};
    sink_model_t model = {.score = score, .predicted_s = predicted};
    double all_s = 10 * c->threads, cpu_s = c->cpu_s * c->threads;
    sink_budget_t budget = {.wall_s = 10,
                            .cap_s = all_s,
                            .alloc_s = all_s,
                            .all = {.cpu_s = cpu_s, .noncpu_s = all_s - cpu_s, .metered = true}};
    must(sink_bottleneck_measure(&facts, &model, ret_found));
    return sink_diagnosis_make(&ret_found->measured, &budget);
}

/* Seconds behind the GIL follow from the machine repairman (test_sink_queue): the waiting share of k threads at the utilization
 * (100 held + 1/6) / (100 + 1/3). */
static void
must_name_the_right_one_first(void **state)
{
    (void)state;
    const crema_bottleneck_t COMPUTE = CREMA_BOTTLENECK_COMPUTE, INPUT = CREMA_BOTTLENECK_INPUT,
                             GIL = CREMA_BOTTLENECK_GIL, CORES = CREMA_BOTTLENECK_CORES;
    const case_t cases[] = {
        {"busy threads in parallel", 4, 9.5, 38, NAN, NAN, COMPUTE, 0, -1},
        {"one thread that waits", 1, 1, 1, NAN, NAN, INPUT, 0, -1},
        {"threads that wait", 4, 0.5, 2, NAN, NAN, INPUT, 0.3327, -1},
        {"threads that take turns", 4, 2.5, 10, NAN, NAN, GIL, 30, (int)INPUT},
        {"turns, and the GIL was always held", 4, 2.5, 10, 0, 1, GIL, 24.9527, -1},
        {"turns, and whose turn it is waits for a core", 5, 2, 10, 8, 0.85, INPUT, 12.0813,
         (int)GIL},
        {"eight threads that read mostly", 8, 0.96, 7.64, 0, 0.7644, INPUT, 11.158, -1},
        {"turns, but not on the GIL", 4, 2.5, 10, 0, 0.05, INPUT, 0.02041, -1},
        {"turns on a busy machine", 4, 2, 8, 2, NAN, INPUT, 8.4385, -1},
        {"turns, and the kernel does not count", 2, 4.5, 9, NAN, 1, GIL, 9.4238, -1},
        {"no core for busy threads", 4, 4, 16, 24, NAN, CORES, 0, (int)GIL},
        {"no core for native threads", 4, 4, 16, 24, 0, CORES, 0, -1},
        {"no core, and a little Python", 4, 2, 8, 32, 0.3, CORES, 0.7953, -1},
        {"threads that wait, and a little Python", 4, 0.5, 2, 0, 0.3, INPUT, 0.7953, -1},
        {"busy threads and the GIL held by one", 4, 9.5, 38, 0, 1, COMPUTE, 2, -1},
        {"one thread holds it", 1, 9.5, 9.5, 0, 1, COMPUTE, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_bottleneck_t found;
        sink_diagnosis_t d = s_find(&cases[i], &found);
        const sink_cause_t *first = &d.causes[d.order[0]], *gil = &d.causes[GIL];
        double sum = 0, threads = cases[i].threads;
        if (d.order[0] != cases[i].first)
            fail_msg("%s: %s comes first", cases[i].what, crema_bottleneck_words[d.order[0]].name);
        if (fabs(gil->s - cases[i].gil_s) > 2e-4 * gil->s + 2e-4)
            fail_msg("%s: %g s behind the GIL", cases[i].what, gil->s);
        if (first->also != cases[i].also)
            fail_msg("%s: %s explains it as well", cases[i].what,
                     first->also < 0 ? "nothing" : crema_bottleneck_words[first->also].name);
        assert_true(gil->lo <= gil->saving_s && gil->saving_s <= gil->hi);
        assert_true(fabs(gil->saving_s - gil->s / threads) < 1e-9);
        for (int k = 0; k < CREMA_BOTTLENECK_COUNT; k++) {
            sum += d.causes[k].s;
            assert_true(d.causes[k].saving_s <= d.causes[k].s / threads + 1e-9);
        }
        assert_true(fabs(sum - 10 * threads) < 1e-9);
    }
}

/* Eight threads that compute for 1 s and read for 8 s: 14 % of 10.47 s wait for the GIL, and reading in no time would leave them to wait for it. */
static void
must_say_what_less_waiting_saves_where_the_gil_is_next(void **state)
{
    (void)state;
    const double round = 10.4653, wait = 1.4653; /* seconds, by the recursion on paper */
    const case_t c = {"", 8, 10 / round, 80 / round, 0, 8 / round, 0, 0, -1};
    sink_bottleneck_t found;
    sink_diagnosis_t d = s_find(&c, &found);
    const sink_cause_t *input = &d.causes[CREMA_BOTTLENECK_INPUT],
                       *gil = &d.causes[CREMA_BOTTLENECK_GIL];
    assert_true(fabs(gil->saving_s - 10 * wait / round) < 0.05);
    assert_true(gil->lo < 10 * wait / round && gil->hi > 10 * wait / round);
    assert_true(fabs(input->s - 80 * 8 / round) < 0.5);
    assert_true(fabs(input->saving_s - 10 * (round - 8) / round) < 0.1); /* 8 x 1 s, one by one */
}

static void
must_put_compute_behind_losses_that_matter_only(void **state)
{
    (void)state;
    const struct {
        double waits; /* of 10 s */
        crema_bottleneck_t first;
    } cases[] = {{1.9, CREMA_BOTTLENECK_COMPUTE}, {2.1, CREMA_BOTTLENECK_INPUT}};
    for (size_t i = 0; i < 2; i++) {
        const case_t c = {"", 1, 10 - cases[i].waits, 10 - cases[i].waits, NAN, NAN, 0, 0, -1};
        sink_bottleneck_t found;
        assert_int_equal(s_find(&c, &found).order[0], cases[i].first);
    }
}

/* Two threads that both compute for half of the time and were seen to hold the GIL 10 times of 10 may read for some of the rest, or not. */
static void
must_be_in_doubt_after_few_looks(void **state)
{
    (void)state;
    const case_t c = {"", 2, 4.5, 9, NAN, 1, 0, 0, -1};
    sink_bottleneck_t found;
    s_looks = 10;
    sink_diagnosis_t d = s_find(&c, &found);
    s_looks = 100;
    assert_int_equal(d.order[0], CREMA_BOTTLENECK_GIL);
    assert_int_equal(d.causes[CREMA_BOTTLENECK_GIL].also, CREMA_BOTTLENECK_INPUT);
    assert_int_equal(d.causes[CREMA_BOTTLENECK_INPUT].also, CREMA_BOTTLENECK_GIL);
    assert_true(d.causes[CREMA_BOTTLENECK_GIL].lo < 2);
    assert_true(d.causes[CREMA_BOTTLENECK_GIL].hi > 4.9);
}

/* What building events costs is paid for every chunk, turns on the GIL too. */
static void
must_put_what_opening_waits_for_the_gil_with_the_chunks(void **state)
{
    (void)state;
    const case_t turns = {"turns", 4, 2.5, 10, 0, 1, 0, 0, -1};
    const struct {
        double open_s; /* of 10 s */
        crema_bottleneck_t first;
        double gil_s;
    } cases[] = {{1, CREMA_BOTTLENECK_GIL, 0.9}, {9, CREMA_BOTTLENECK_CHUNKS, 0.1}};
    for (size_t i = 0; i < 2; i++) {
        sink_bottleneck_t found;
        s_open_s = cases[i].open_s;
        sink_diagnosis_t d = s_find(&turns, &found);
        s_open_s = 0;
        assert_int_equal(d.order[0], cases[i].first);
        double want = cases[i].gil_s * found.measured.gil_s.value;
        assert_true(fabs(d.causes[CREMA_BOTTLENECK_GIL].s - want) < 1e-9);
    }
}

/* Opening waits, process() computes: seven chunks are too few to see it and are divided in proportion; eight are enough. */
static void
must_tell_waiting_in_opening_from_waiting_in_process(void **state)
{
    (void)state;
    const double open_s[] = {1, 2, 3, 4, 2, 3, 1, 2}, wall_s[] = {4, 3, 6, 5, 2, 7, 3, 4};
    sink_chunk_t chunks[8] = {0};
    double score[8], predicted[8], open = 0, wall = 0, shared = 0, most = 0;
    sink_worker_t worker = {.cpu_wait_s = NAN, .gil = NAN};
    for (size_t i = 0; i < 8; i++) {
        score[i] = predicted[i] = NAN;
        chunks[i] = (sink_chunk_t){.open_s = open_s[i],
                                   .wall_s = wall_s[i],
                                   .cpu_s = 0.2 * open_s[i] + 0.9 * wall_s[i],
                                   .gc_s = 0.1,
                                   .counted = true};
        most += i < 7 ? fmin(open_s[i], 0.8 * open_s[i] + 0.1 * wall_s[i]) : 0;
        open += i < 7 ? open_s[i] : 0;
        wall += i < 7 ? wall_s[i] : 0;
        shared +=
            i < 7 ? open_s[i] / (open_s[i] + wall_s[i]) * (0.8 * open_s[i] + 0.1 * wall_s[i]) : 0;
    }
    sink_load_t load = {10, 10, 10, 10};
    sink_facts_t facts = {.chunks = chunks,
                          .n_chunks = 7,
                          .n_workers = 1,
                          .workers = &worker,
                          .sweep = {.workers = &load}};
    sink_model_t model = {.score = score, .predicted_s = predicted};
    sink_bottleneck_t found;
    must(sink_bottleneck_measure(&facts, &model, &found));
    const sink_measured_t *m = &found.measured;
    assert_true(fabs(m->open_s - open) < 1e-9);
    assert_true(fabs(m->chunk_s - open - wall) < 1e-9);
    assert_true(fabs(m->chunk_noncpu_s - 0.8 * open - 0.1 * wall) < 1e-9);
    assert_true(fabs(m->gc_s - 0.7) < 1e-9);
    assert_true(fabs(m->opening_share.value * m->chunk_noncpu_s - shared) < 1e-9);
    assert_true(m->opening_share.lo < 1e-9); /* CPU may have been in process() alone */
    assert_true(fabs(m->opening_share.hi * m->chunk_noncpu_s - most) < 1e-9);
    facts.n_chunks = 8;
    must(sink_bottleneck_measure(&facts, &model, &found));
    assert_true(fabs(m->opening_share.value * m->chunk_noncpu_s - 0.8 * (open + 2)) < 1e-9);
    assert_true(fabs(m->opening_share.hi - m->opening_share.lo) < 1e-6); /* no scatter at all */
}

/* Threads wait for a core in whatever task they run: chunks have the part that they have of the busy time. */
static void
must_leave_other_tasks_what_they_waited_for_a_core(void **state)
{
    (void)state;
    const double busy_s[] = {5, 10, 20, 40}; /* task events may miss some; the chunks took 10 s */
    const double cores_s[] = {4, 4, 2, 1};
    for (size_t i = 0; i < 4; i++) {
        sink_chunk_t chunk = {.t_end_ns = 10 * S, .wall_s = 10, .cpu_s = 2, .counted = true};
        sink_load_t load = {10, 40, busy_s[i], 10};
        double score = NAN;
        sink_worker_t worker = {.cpu_wait_s = 4, .gil = 0}; /* never held */
        sink_facts_t facts = {.chunks = &chunk,
                              .n_chunks = 1,
                              .n_workers = 1,
                              .workers = &worker,
                              .sweep = {.workers = &load}};
        sink_model_t model = {.score = &score, .predicted_s = &score};
        sink_bottleneck_t found;
        must(sink_bottleneck_measure(&facts, &model, &found));
        assert_true(fabs(found.measured.cores_s.hi - cores_s[i]) < 1e-9);
    }
}

static void
must_say_how_it_came_by_what_it_says_of_the_gil(void **state)
{
    (void)state;
    const case_t c = {"", 4, 2.5, 10, 0, 0.75, 0, 0, -1};
    sink_bottleneck_t found;
    s_find(&c, &found);
    assert_int_equal(found.n_gil, 1);
    assert_true(fabs(found.tasks_at_once - 4) < 1e-9);
    assert_true(fabs(found.gil_held - 0.75) < 1e-9);
    assert_int_equal(found.gil_looks, 100);
    assert_true(found.measured.cores_known);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_the_right_one_first),
        cmocka_unit_test(must_say_what_less_waiting_saves_where_the_gil_is_next),
        cmocka_unit_test(must_be_in_doubt_after_few_looks),
        cmocka_unit_test(must_put_compute_behind_losses_that_matter_only),
        cmocka_unit_test(must_put_what_opening_waits_for_the_gil_with_the_chunks),
        cmocka_unit_test(must_tell_waiting_in_opening_from_waiting_in_process),
        cmocka_unit_test(must_leave_other_tasks_what_they_waited_for_a_core),
        cmocka_unit_test(must_say_how_it_came_by_what_it_says_of_the_gil),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
