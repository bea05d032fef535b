/* sink_bottleneck on made-up facts: what chunks waited for, as looks found it, and what less of it
 * would save. */
#include "must.h"

#include <math.h>
#include <string.h>

#include "rows_fixture.h"
#include "sink_bottleneck.h"

#define S 1000000000LL
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

typedef struct {
    sink_facts_t facts;
    sink_chunk_t chunks[8];
    double score[8], predicted[8];
    sink_load_t load;
    sink_worker_t worker;
    sink_look_t look;
    sink_tables_t *tables;
} run_t;

/* `n` attempts side by side, 10 s each, that fill the run; `n_looks` found them blocked. */
static void
s_begin(run_t *self, size_t n, double cpu_s, size_t n_looks)
{
    *self = (run_t){.load = {10, 10 * (double)n, 10 * (double)n, 10}};
    must(sink_tables_new(scratch_dir("bottleneck"), &self->tables));
    for (size_t i = 0; i < 8; i++)
        self->score[i] = self->predicted[i] = NAN;
    for (size_t i = 0; i < n; i++) {
        sink_chunk_t *chunk = &self->chunks[i];
        *chunk = (sink_chunk_t){.t_end_ns = 10 * S,
                                .wall_s = 10,
                                .cpu_s = cpu_s,
                                .proc_cpu_s = cpu_s,
                                .n_requests = -1,
                                .counted = true};
        for (int state = 0; n_looks == 0 && state < CREMA_LOOK_COUNT; state++)
            chunk->wait_s[state] = NAN;
    }
    self->look = (sink_look_t){.phase = CREMA_LOOK_PHASE_PROCESS,
                               .state = CREMA_LOOK_INPUT,
                               .stack = UINT32_MAX,
                               .place = UINT32_MAX,
                               .n = n_looks};
    self->facts = (sink_facts_t){.chunks = self->chunks,
                                 .n_chunks = n,
                                 .n_workers = 1,
                                 .workers = &self->worker,
                                 .looks = &self->look,
                                 .n_looks = 1,
                                 .sweep = {.workers = &self->load}};
}

static sink_diagnosis_t
s_diagnose(run_t *self, sink_measured_t *ret_found)
{
    double all_s = 10 * (double)self->facts.n_chunks, cpu_s = 0;
    for (size_t i = 0; i < self->facts.n_chunks; i++)
        cpu_s += self->chunks[i].cpu_s;
    sink_budget_t budget = {.wall_s = 10,
                            .cap_s = all_s,
                            .alloc_s = all_s,
                            .all = {.cpu_s = cpu_s, .noncpu_s = all_s - cpu_s, .metered = true}};
    sink_model_t model = {.whole = {self->score, self->predicted}};
    must(sink_bottleneck_measure(&self->facts, &model, self->tables, ret_found));
    sink_tables_destroy(&self->tables);
    return sink_diagnosis_make(ret_found, &budget);
}

/* Each state is a cause, and nothing but what was seen comes first. */
static void
must_name_what_was_seen(void **state)
{
    (void)state;
    const struct {
        crema_look_state_t state;
        crema_bottleneck_t cause;
    } cases[] = {
        {CREMA_LOOK_GIL, CREMA_BOTTLENECK_GIL},
        {CREMA_LOOK_INPUT, CREMA_BOTTLENECK_INPUT},
        {CREMA_LOOK_SERVICE, CREMA_BOTTLENECK_SERVICE},
        {CREMA_LOOK_FILE, CREMA_BOTTLENECK_FILE},
        {CREMA_LOOK_LOCK, CREMA_BOTTLENECK_LOCK},
        {CREMA_LOOK_SLEEP, CREMA_BOTTLENECK_SLEEP},
        {CREMA_LOOK_NATIVE, CREMA_BOTTLENECK_NATIVE},
        {CREMA_LOOK_CHILD, CREMA_BOTTLENECK_CHILDREN},
        {CREMA_LOOK_PAGE_FAULT, CREMA_BOTTLENECK_PAGE_FAULT},
        {CREMA_LOOK_UNKNOWN, CREMA_BOTTLENECK_WAITING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_t run;
        sink_measured_t found;
        s_begin(&run, 4, 2, 600);
        for (size_t c = 0; c < 4; c++) {
            run.chunks[c].wait_s[cases[i].state] = 7;
            run.chunks[c].cpu_wait_s = 1;
        }
        sink_diagnosis_t d = s_diagnose(&run, &found);
        assert_int_equal(d.order[0], cases[i].cause);
        NEAR(d.causes[cases[i].cause].s, 28);
        NEAR(d.causes[CREMA_BOTTLENECK_CORES].s, 4);
        NEAR(d.causes[CREMA_BOTTLENECK_COMPUTE].s, 8);
        assert_int_equal(d.causes[d.order[0]].also, -1);
        double sum = 0;
        for (int k = 0; k < CREMA_BOTTLENECK_COUNT; k++)
            sum += d.causes[k].s;
        NEAR(sum, 40);
    }
}

static void
must_say_that_nothing_was_seen_where_nobody_looked(void **state)
{
    (void)state;
    run_t run;
    sink_measured_t found;
    s_begin(&run, 2, 1, 0);
    run.chunks[0].cpu_wait_s = run.chunks[1].cpu_wait_s = NAN;
    sink_diagnosis_t d = s_diagnose(&run, &found);
    assert_int_equal(d.order[0], CREMA_BOTTLENECK_WAITING);
    NEAR(d.causes[CREMA_BOTTLENECK_WAITING].s, 18);
    assert_false(found.seen);
    assert_false(d.causes[CREMA_BOTTLENECK_CORES].known);
}

/* Waiting before process() is opening; turns on the GIL there are a cost of chunks. */
static void
must_tell_opening_from_process(void **state)
{
    (void)state;
    run_t run;
    sink_measured_t found;
    s_begin(&run, 1, 2, 200);
    sink_chunk_t *chunk = &run.chunks[0];
    chunk->open_s = 6;
    chunk->wall_s = 4;
    chunk->open_cpu_s = 1;
    chunk->open_gil_s = 0.5;
    chunk->open_input_s = 4;
    chunk->wait_s[CREMA_LOOK_GIL] = 1;
    chunk->wait_s[CREMA_LOOK_INPUT] = 5;
    chunk->wait_s[CREMA_LOOK_LOCK] = 2; /* half a second of it in opening */
    sink_diagnosis_t d = s_diagnose(&run, &found);
    assert_true(found.opening_known);
    NEAR(d.causes[CREMA_BOTTLENECK_OPENING].s, 4.5);
    NEAR(d.causes[CREMA_BOTTLENECK_INPUT].s, 1);
    NEAR(d.causes[CREMA_BOTTLENECK_LOCK].s, 1.5);
    NEAR(d.causes[CREMA_BOTTLENECK_GIL].s, 0.5);
    NEAR(d.causes[CREMA_BOTTLENECK_CHUNKS].s, 1 + 0.5);
    NEAR(d.causes[CREMA_BOTTLENECK_COMPUTE].s, 1);
    assert_int_equal(d.order[0], CREMA_BOTTLENECK_OPENING);
}

/* 5 of 10 looks are a share between 24 % and 76 %, 500 of 1000 one between 47 % and 53 %. */
static void
must_be_as_sure_as_there_are_looks(void **state)
{
    (void)state;
    const size_t looks[] = {10, 1000};
    for (size_t i = 0; i < 2; i++) {
        run_t run;
        sink_measured_t found;
        s_begin(&run, 1, 0, looks[i]);
        run.chunks[0].wait_s[CREMA_LOOK_SERVICE] = 5.5;
        run.chunks[0].wait_s[CREMA_LOOK_SLEEP] = 4.5;
        sink_diagnosis_t d = s_diagnose(&run, &found);
        sink_range_t want = sink_queue_share(0.55, looks[i]);
        NEAR(found.waits[CREMA_LOOK_SERVICE].lo, 10 * want.lo);
        NEAR(found.waits[CREMA_LOOK_SERVICE].hi, 10 * want.hi);
        const sink_cause_t *service = &d.causes[CREMA_BOTTLENECK_SERVICE];
        assert_int_equal(d.order[0], CREMA_BOTTLENECK_SERVICE);
        assert_int_equal(service->also, looks[i] == 10 ? (int)CREMA_BOTTLENECK_SLEEP : -1);
        assert_true(service->lo <= service->saving_s && service->saving_s <= service->hi);
    }
}

/* Eight threads that compute for 1 s and read for 8 s: 14 % of 10.47 s wait for the GIL, and
 * reading in no time would leave them to wait for it. */
static void
must_say_what_less_waiting_saves_where_the_gil_is_next(void **state)
{
    (void)state;
    const double round = 10.4653, wait = 1.4653; /* seconds, by the recursion on paper */
    run_t run;
    sink_measured_t found;
    s_begin(&run, 8, 10 / round, 1500);
    for (size_t i = 0; i < 8; i++) {
        run.chunks[i].wait_s[CREMA_LOOK_GIL] = 10 * wait / round;
        run.chunks[i].wait_s[CREMA_LOOK_INPUT] = 80 / round;
    }
    sink_diagnosis_t d = s_diagnose(&run, &found);
    const sink_cause_t *input = &d.causes[CREMA_BOTTLENECK_INPUT];
    NEAR(d.causes[CREMA_BOTTLENECK_GIL].saving_s, 10 * wait / round);
    NEAR(input->s, 80 * 8 / round);
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
        run_t run;
        sink_measured_t found;
        s_begin(&run, 1, 10 - cases[i].waits, 40);
        run.chunks[0].wait_s[CREMA_LOOK_INPUT] = cases[i].waits;
        assert_int_equal(s_diagnose(&run, &found).order[0], cases[i].first);
    }
}

/* Opening takes most of the CPU time, and none or all of the garbage collection. */
static void
must_tell_garbage_of_opening_from_that_of_process(void **state)
{
    (void)state;
    const struct {
        double open_gc_s, garbage_s; /* of one chunk */
    } cases[] = {{0, 1}, {0.75, 0.25}, {1, 0}, {NAN, 0.2} /* by the share of CPU time */};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_t run;
        sink_measured_t found;
        s_begin(&run, 2, 10, 40);
        for (size_t c = 0; c < 2; c++) {
            sink_chunk_t *chunk = &run.chunks[c];
            chunk->wall_s = 2;
            chunk->open_s = chunk->open_cpu_s = 8;
            chunk->gc_s = 1;
            chunk->open_gc_s = cases[i].open_gc_s;
        }
        sink_diagnosis_t d = s_diagnose(&run, &found);
        NEAR(d.causes[CREMA_BOTTLENECK_GARBAGE].s, 2 * cases[i].garbage_s);
        NEAR(d.causes[CREMA_BOTTLENECK_CHUNKS].s, 16);
        NEAR(d.causes[CREMA_BOTTLENECK_COMPUTE].s, 4 - 2 * cases[i].garbage_s);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_what_was_seen),
        cmocka_unit_test(must_say_that_nothing_was_seen_where_nobody_looked),
        cmocka_unit_test(must_tell_opening_from_process),
        cmocka_unit_test(must_be_as_sure_as_there_are_looks),
        cmocka_unit_test(must_say_what_less_waiting_saves_where_the_gil_is_next),
        cmocka_unit_test(must_tell_garbage_of_opening_from_that_of_process),
        cmocka_unit_test(must_put_compute_behind_losses_that_matter_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
