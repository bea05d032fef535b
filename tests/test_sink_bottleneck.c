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
} case_t;

static double s_open_s; /* of each attempt's 10 s */

/* `threads` attempts side by side, 10 s each, that fill the run. */
static sink_bottleneck_t
s_find(const case_t *c)
{
    sink_chunk_t chunks[8] = {0};
    size_t n = (size_t)c->threads;
    for (size_t i = 0; i < n; i++)
        chunks[i] = (sink_chunk_t){.t_end_ns = 10 * S,
                                   .wall_s = 10 - s_open_s,
                                   .open_s = s_open_s,
                                   .cpu_s = c->cpu_s,
                                   .gc_s = 0,
                                   .proc_cpu_s = c->proc_cpu_s,
                                   .counted = true};
    sink_load_t load = {10, 10 * c->threads, 10 * c->threads, 10};
    double wait_s = c->wait_s, contention = c->contention;
    sink_facts_t facts = {.chunks = chunks,
                          .n_chunks = n,
                          .n_workers = 1,
                          .cpu_wait_s = &wait_s,
                          .gil = &contention,
                          .sweep = {.workers = &load}};
    double all_s = 10 * c->threads, cpu_s = c->cpu_s * c->threads;
    sink_budget_t budget = {.wall_s = 10,
                            .cap_s = all_s,
                            .alloc_s = all_s,
                            .all = {.cpu_s = cpu_s, .noncpu_s = all_s - cpu_s, .metered = true}};
    sink_bottleneck_t found;
    must(sink_bottleneck_find(&facts, &budget, &found));
    return found;
}

static void
must_name_the_right_one_first(void **state)
{
    (void)state;
    const case_t cases[] = {
        {"busy threads in parallel", 4, 9.5, 38, NAN, NAN, CREMA_BOTTLENECK_COMPUTE, 0},
        {"one thread that waits", 1, 1, 1, NAN, NAN, CREMA_BOTTLENECK_INPUT, 0},
        {"threads that wait", 4, 0.5, 2, NAN, NAN, CREMA_BOTTLENECK_INPUT, 6},
        {"threads that take turns", 4, 2.5, 10, NAN, NAN, CREMA_BOTTLENECK_GIL, 30},
        {"turns, and the GIL was always held", 4, 2.5, 10, 0, 1, CREMA_BOTTLENECK_GIL, 30},
        {"turns, and it was held mostly", 4, 2.5, 10, 0, 0.9, CREMA_BOTTLENECK_GIL, 27},
        {"turns, but not on the GIL", 4, 2.5, 10, 0, 0.05, CREMA_BOTTLENECK_INPUT, 0},
        {"turns on a busy machine", 4, 2, 8, 2, NAN, CREMA_BOTTLENECK_GIL, 24},
        {"turns, and those who ask find no core", 4, 1, 4, 20, 0.9, CREMA_BOTTLENECK_GIL, 27},
        {"turns, and the kernel does not count", 2, 4.5, 9, NAN, 1, CREMA_BOTTLENECK_GIL, 10},
        {"no core for busy threads", 4, 4, 16, 24, NAN, CREMA_BOTTLENECK_CORES, 0},
        {"no core for native threads", 4, 4, 16, 24, 0, CREMA_BOTTLENECK_CORES, 0},
        {"no core, and a little Python", 4, 2, 8, 32, 0.3, CREMA_BOTTLENECK_CORES, 9},
        {"threads that wait, and a little Python", 4, 0.5, 2, 0, 0.3, CREMA_BOTTLENECK_INPUT, 9},
        {"busy threads and the GIL held by one", 4, 9.5, 38, 0, 1, CREMA_BOTTLENECK_COMPUTE, 2},
        {"one thread holds it", 1, 9.5, 9.5, 0, 1, CREMA_BOTTLENECK_COMPUTE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_bottleneck_t found = s_find(&cases[i]);
        if (found.order[0] != cases[i].first)
            fail_msg("%s: %s comes first", cases[i].what,
                     crema_bottleneck_words[found.order[0]].name);
        if (fabs(found.seconds[CREMA_BOTTLENECK_GIL] - cases[i].gil_s) > 1e-9)
            fail_msg("%s: %g s behind the GIL", cases[i].what, found.seconds[CREMA_BOTTLENECK_GIL]);
        double sum = 0;
        for (int k = 0; k < CREMA_BOTTLENECK_COUNT; k++)
            sum += found.seconds[k];
        assert_true(fabs(sum - 10 * cases[i].threads) < 1e-9);
    }
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
        const case_t c = {"", 1, 10 - cases[i].waits, 10 - cases[i].waits, NAN, NAN, 0, 0};
        sink_bottleneck_t found = s_find(&c);
        assert_int_equal(found.order[0], cases[i].first);
    }
}

/* What building events costs is paid for every chunk, turns on the GIL too. */
static void
must_put_what_opening_waits_for_the_gil_with_the_chunks(void **state)
{
    (void)state;
    const case_t turns = {"turns", 4, 2.5, 10, 0, 1, 0, 0};
    const struct {
        double open_s; /* of 10 s */
        crema_bottleneck_t first;
        double gil_s;
    } cases[] = {{1, CREMA_BOTTLENECK_GIL, 27}, {9, CREMA_BOTTLENECK_CHUNKS, 3}};
    for (size_t i = 0; i < 2; i++) {
        s_open_s = cases[i].open_s;
        sink_bottleneck_t found = s_find(&turns);
        s_open_s = 0;
        assert_int_equal(found.order[0], cases[i].first);
        assert_true(fabs(found.seconds[CREMA_BOTTLENECK_GIL] - cases[i].gil_s) < 1e-9);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_the_right_one_first),
        cmocka_unit_test(must_put_compute_behind_losses_that_matter_only),
        cmocka_unit_test(must_put_what_opening_waits_for_the_gil_with_the_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
