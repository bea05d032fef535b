/* sink_growth: memory that grows from chunk to chunk, and how many more chunks fit. */
#include "must.h"

#include <math.h>

#include "sink_growth.h"

#define MB 1e6

enum { WORKERS = 3, EACH = 60, N = WORKERS * EACH };

typedef struct {
    sink_chunk_t chunks[N];
    sink_sample_t samples[WORKERS];
    sink_facts_t facts;
    sink_growth_t growth;
} run_t;

/* Resident memory after the n-th chunk of a worker. */
typedef double (*memory_fn)(uint32_t worker, int n);

/* Noise that repeats itself, within +-1. */
static int s_seed;
static double
noise(int n)
{
    return sin(12.9898 * (n + 1000 * s_seed)) * 0.9;
}

static double
leaks_2_mb(uint32_t worker, int n)
{
    return (300 + worker) * MB + 2 * MB * n + 3 * MB * noise(n + (int)worker);
}

static double
is_steady(uint32_t worker, int n)
{
    return 300 * MB + 3 * MB * noise(n + (int)worker);
}

static double
fills_up_at_first(uint32_t worker, int n)
{
    return 300 * MB + 200 * MB * (1 - exp(-n / 4.0)) + MB * noise(n + (int)worker);
}

/* After every sixth chunk all of a growing amount is released. */
static double
falls_back(uint32_t worker, int n)
{
    return 200 * MB + (n % 6 == 5 ? 0 : 1.5 * MB * n) + MB * noise(n + (int)worker);
}

static double
leaks_a_little(uint32_t worker, int n)
{
    return 300 * MB + 0.02 * MB * n + 0.01 * MB * noise(n + (int)worker);
}

static const sink_growth_t *
find(run_t *run, memory_fn memory, int each, double limit_b)
{
    *run = (run_t){0};
    for (int n = 0; n < each; n++)
        for (uint32_t w = 0; w < WORKERS; w++) {
            sink_chunk_t *chunk = &run->chunks[run->facts.n_chunks++];
            *chunk = (sink_chunk_t){.worker = w, .rss_end_b = (int64_t)memory(w, n)};
        }
    for (uint32_t w = 0; w < WORKERS; w++)
        run->samples[w] = (sink_sample_t){.worker = w, .memory_limit_b = (int64_t)limit_b};
    run->facts.chunks = run->chunks;
    run->facts.samples = run->samples;
    run->facts.n_samples = WORKERS;
    run->facts.n_workers = WORKERS;
    must(sink_growth_find(&run->facts, &run->growth));
    return &run->growth;
}

static void
test_a_leak_has_its_slope_and_the_chunks_that_are_left(void **state)
{
    (void)state;
    run_t run;
    const sink_growth_t *growth = find(&run, leaks_2_mb, EACH, 1040 * MB);
    assert_true(fabs(growth->per_chunk_b - 2 * MB) < 0.1 * MB);
    assert_true(growth->low_b > 1.7 * MB && growth->low_b < 2 * MB);
    assert_true(growth->high_b > 2 * MB && growth->high_b < 2.3 * MB);
    assert_int_equal(growth->n_workers, WORKERS);
    assert_true(fabs(growth->chunks_left - (1040 - 302 - 118) / 2.0) < 15);
    assert_true(growth->limit_b == 1040 * MB);
    assert_true(growth->matters && growth->soon);
    growth = find(&run, leaks_2_mb, EACH, 20000 * MB);
    assert_true(growth->matters && !growth->soon);
}

static void
test_a_leak_without_a_limit_is_a_share_of_the_memory(void **state)
{
    (void)state;
    run_t run;
    const sink_growth_t *growth = find(&run, leaks_2_mb, EACH, -1);
    assert_true(isnan(growth->chunks_left) && growth->soon);
    assert_int_equal(growth->worker, 2);
}

static void
test_healthy_memory_is_not_accused(void **state)
{
    (void)state;
    run_t run;
    static const memory_fn healthy[] = {is_steady, fills_up_at_first, falls_back, leaks_a_little};
    for (size_t i = 0; i < sizeof healthy / sizeof *healthy; i++)
        for (s_seed = 0; s_seed < 50; s_seed++)
            assert_false(find(&run, healthy[i], EACH, 2000 * MB)->matters);
    s_seed = 0;
}

static void
test_few_chunks_say_nothing(void **state)
{
    (void)state;
    run_t run;
    const sink_growth_t *growth = find(&run, leaks_2_mb, SINK_GROWTH_CHUNKS - 1, 1e9);
    assert_true(isnan(growth->per_chunk_b));
    assert_false(growth->matters);
    assert_int_equal(growth->worker, UINT32_MAX);
    assert_int_equal(find(&run, leaks_2_mb, 0, 1e9)->worker, UINT32_MAX);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leak_has_its_slope_and_the_chunks_that_are_left),
        cmocka_unit_test(test_a_leak_without_a_limit_is_a_share_of_the_memory),
        cmocka_unit_test(test_healthy_memory_is_not_accused),
        cmocka_unit_test(test_few_chunks_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
