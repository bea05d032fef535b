/* sink_slow: chunks of one file or of one worker that take longer than their size explains. */
#include "must.h"

#include <math.h>

#include "sink_diagnosis.h"

#define S 1000000000LL
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

enum { WORKERS = 4, EACH = 10, N = WORKERS * EACH };

/* Each worker reads ten chunks one after another, of files that all of them share; 2 s are
 * predicted for each. */
typedef struct {
    sink_chunk_t chunks[N];
    double score[N], predicted[N], process_score[N], process_predicted[N];
    sink_load_t loads[WORKERS];
    sink_step_t steps[8];
    sink_facts_t facts;
    sink_model_t model;
} run_t;

static void
s_fill(run_t *r, double (*ratio)(uint32_t worker, uint32_t file))
{
    *r = (run_t){0};
    for (uint32_t w = 0; w < WORKERS; w++) {
        int64_t t_ns = S;
        r->loads[w] = (sink_load_t){100, 100, 0, 0};
        for (uint32_t i = 0; i < EACH; i++) {
            size_t row = w * EACH + i;
            double times = ratio(w, i % 5);
            sink_chunk_t *chunk = &r->chunks[row];
            chunk->worker = w;
            chunk->file = i % 5;
            chunk->counted = true;
            chunk->open_s = 0.5;
            chunk->wall_s = 2 * times - 0.5;
            chunk->cpu_s = times; /* half of it */
            chunk->t_start_ns = t_ns;
            t_ns += (int64_t)(2e9 * times);
            chunk->t_end_ns = t_ns;
            r->predicted[row] = 2;
            r->process_predicted[row] = 1.5;
            r->process_score[row] = NAN;
            r->score[row] = times > 1.2 ? 30 * log(times) : i % 2 ? 0.5 : -0.5;
        }
    }
    r->facts = (sink_facts_t){.chunks = r->chunks, .n_chunks = N, .n_workers = WORKERS};
    r->facts.sweep.workers = r->loads;
    r->model = (sink_model_t){.whole = {r->score, r->predicted},
                              .process = {r->process_score, r->process_predicted}};
}

static double
s_all_alike(uint32_t worker, uint32_t file)
{
    (void)worker;
    (void)file;
    return 1;
}

static double
s_file_3(uint32_t worker, uint32_t file)
{
    (void)worker;
    return file == 3 ? 3 : 1;
}

static double
s_worker_2(uint32_t worker, uint32_t file)
{
    (void)file;
    return worker == 2 ? 2 : 1;
}

static double
s_both(uint32_t worker, uint32_t file)
{
    return worker == 2 ? 4 : file == 3 ? 3 : 1;
}

static double
s_workers_1_and_2(uint32_t worker, uint32_t file)
{
    (void)file;
    return worker == 1 || worker == 2 ? 2 : 1;
}

static double
s_a_little(uint32_t worker, uint32_t file)
{
    (void)file;
    return worker == 2 ? 1.24 : 1;
}

static void
must_name_files_and_workers_that_are_slow(void **state)
{
    (void)state;
    const struct {
        double (*ratio)(uint32_t worker, uint32_t file);
        size_t workers, files;
        double of_workers_s, of_files_s; /* beyond the prediction */
    } cases[] = {
        {s_all_alike, 0, 0, 0, 0}, {s_file_3, 0, 1, 0, 8 * 4.0}, {s_worker_2, 1, 0, 10 * 2.0, 0},
        {s_both, 1, 1, 60, 6 * 4}, {s_a_little, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_t r;
        sink_slow_t workers, servers, files;
        s_fill(&r, cases[i].ratio);
        must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
        assert_int_equal(workers.n, cases[i].workers);
        assert_int_equal(files.n, cases[i].files);
        NEAR(workers.cpu_s + workers.noncpu_s, cases[i].of_workers_s);
        NEAR(files.cpu_s + files.noncpu_s, cases[i].of_files_s);
        NEAR(workers.cpu_s, workers.noncpu_s);
        if (workers.n > 0)
            assert_int_equal(workers.worst, 2);
        if (files.n > 0) {
            assert_int_equal(files.worst, 3);
            NEAR(files.ratio, 3);
            assert_true(files.queue_share == 0);
        }
    }
}

/* Opening scatters so much that the whole time of no chunk stands out. */
static void
must_name_a_file_that_is_slow_in_process_alone(void **state)
{
    (void)state;
    const struct {
        double process_s; /* of file 3, of 1.5 predicted */
        double score;
        size_t files;
    } cases[] = {{15, 20, 1}, {15, 1, 0}, {1.9, 20, 0}, {2.1, 20, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_t r;
        sink_slow_t workers, servers, files;
        s_fill(&r, s_all_alike);
        for (size_t row = 0; row < N; row++) {
            bool slow = r.chunks[row].file == 3;
            r.process_score[row] = slow ? cases[i].score : row % 2 ? 0.5 : -0.5;
            if (slow)
                r.chunks[row].wall_s = cases[i].process_s;
        }
        must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
        assert_int_equal(workers.n, 0);
        assert_int_equal(files.n, cases[i].files);
        if (files.n > 0) {
            assert_int_equal(files.worst, 3);
            NEAR(files.ratio, (cases[i].process_s + 0.5) / 2);
        }
    }
}

static void
must_name_the_first_of_two_that_are_as_slow(void **state)
{
    (void)state;
    run_t r;
    sink_slow_t workers, servers, files;
    s_fill(&r, s_workers_1_and_2);
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    assert_int_equal(workers.n, 2);
    assert_int_equal(workers.worst, 1);
}

/* Others end at 21 s; the slow one ends at 41 s, and had ended with them: all they waited is its.
 * Had it only half of its queue by itself, half. */
static void
must_say_how_much_of_the_queue_is_the_slow_workers(void **state)
{
    (void)state;
    run_t r;
    sink_slow_t workers, servers, files;
    s_fill(&r, s_worker_2);
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 1);
    r.chunks[2 * EACH + EACH - 1].t_end_ns += 20 * S;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 0.5);
    r.loads[2].thread_s = 200; /* two threads share the excess */
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 0.25);
    for (size_t w = 0; w < WORKERS; w++) /* not the last row of a worker is the last to end */
        if (w != 2)
            r.chunks[w * EACH].t_end_ns = 41 * S;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 0.5);
    r.chunks[3 * EACH].t_end_ns = 21 * S; /* the first that has nothing to do counts */
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 0.25);
    for (size_t w = 0; w < WORKERS; w++)
        r.chunks[w * EACH].t_end_ns = 61 * S;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(workers.queue_share, 0);
}

/* The chunk of the slow file is the last; it runs alone for the last 4 s. */
static void
must_say_who_waited_at_the_end(void **state)
{
    (void)state;
    run_t r;
    sink_slow_t workers, servers, files;
    s_fill(&r, s_file_3);
    const int64_t end_ns = 100 * S;
    for (size_t i = 0; i < N; i++)
        r.chunks[i].t_end_ns = r.chunks[i].file == 3 ? 50 * S : 90 * S;
    r.chunks[3].t_end_ns = end_ns;
    r.steps[0] = (sink_step_t){0, 4, 4, 4};
    r.steps[1] = (sink_step_t){96 * S, 4, 4, 1};
    r.facts.sweep.tail = r.steps;
    r.facts.sweep.n_tail = 2;
    r.facts.sweep.t_tail0_ns = 80 * S;
    r.facts.sweep.t_tail1_ns = end_ns;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(files.tail_s, 4 * 3);
    r.chunks[0].t_end_ns = end_ns; /* another one is as late */
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    NEAR(files.tail_s, 0);
}

static void
must_say_nothing_of_few_chunks(void **state)
{
    (void)state;
    run_t r;
    sink_slow_t workers, servers, files;
    s_fill(&r, s_file_3);
    r.facts.n_chunks = SINK_SLOW_CHUNKS - 1;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    assert_int_equal(files.n, 0);
    r.facts.n_chunks = SINK_SLOW_CHUNKS;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    assert_int_equal(files.n, 1);
}

/* A worker of which all chunks are of the slow file is not slow by that. */
static void
must_not_blame_the_worker_that_reads_the_slow_file(void **state)
{
    (void)state;
    run_t r;
    sink_slow_t workers, servers, files;
    s_fill(&r, s_worker_2);
    for (size_t i = 0; i < EACH; i++)
        r.chunks[2 * EACH + i].file = 9;
    must(sink_slow_find(&r.facts, &r.model, NULL, &workers, &servers, &files));
    assert_int_equal(workers.n, 0);
    assert_int_equal(files.n, 1);
    assert_int_equal(files.worst, 9);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_files_and_workers_that_are_slow),
        cmocka_unit_test(must_name_a_file_that_is_slow_in_process_alone),
        cmocka_unit_test(must_name_the_first_of_two_that_are_as_slow),
        cmocka_unit_test(must_say_how_much_of_the_queue_is_the_slow_workers),
        cmocka_unit_test(must_say_who_waited_at_the_end),
        cmocka_unit_test(must_say_nothing_of_few_chunks),
        cmocka_unit_test(must_not_blame_the_worker_that_reads_the_slow_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
