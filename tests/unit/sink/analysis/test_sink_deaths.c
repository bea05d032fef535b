/* sink_deaths: why a worker went, and what ran on it, as sentences. */
#include "must.h"

#include <stdio.h>
#include <string.h>

#include "journal_fixture.h"
#include "rows_fixture.h"
#include "sink_deaths.h"

#define MB 1000000

enum { WORKERS = 3 };

/* A run without any name, whose facts each test makes. */
typedef struct {
    decoded_t decoded;
    sink_worker_t workers[WORKERS];
    sink_chunk_t chunks[8];
    sink_sample_t sample;
    sink_facts_t facts;
} run_t;

static int
set_up(void **state)
{
    static run_t run;
    run = (run_t){0};
    const char *dir = scratch_dir("deaths");
    fixture_t *f = fixture_new(dir, 1);
    fixture_seal(f, FIXTURE_T0, NULL, 0);
    fixture_close(&f);
    decoded_open(&run.decoded, dir);
    for (int w = 0; w < WORKERS; w++)
        run.workers[w] = (sink_worker_t){.exit_status = -1, .signal = -1, .has_stream = true};
    run.facts = (sink_facts_t){.workers = run.workers, .n_workers = WORKERS, .chunks = run.chunks};
    *state = &run;
    return 0;
}

static int
tear_down(void **state)
{
    decoded_close(&((run_t *)*state)->decoded);
    return 0;
}

static void
add_chunk(run_t *run, int64_t chunk_id, uint32_t worker, bool lost)
{
    run->chunks[run->facts.n_chunks++] =
        (sink_chunk_t){.chunk_id = chunk_id,
                       .worker = worker,
                       .file = UINT32_MAX,
                       .entry_start = 200 * chunk_id,
                       .n_entries = 200,
                       .status = lost ? CREMA_CHUNK_LOST : CREMA_CHUNK_OK,
                       .counted = !lost};
}

static void
must_tell(run_t *run, const char *want)
{
    sink_deaths_t *deaths;
    char text[2048];
    must(sink_deaths_new(&run->facts, run->decoded.run, &deaths));
    sink_deaths_tell(deaths, 0, "tcp://A", text, sizeof text);
    char *end = strstr(text, "; what it did after its last record is not known");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(text, want);
    sink_deaths_destroy(&deaths);
    sink_deaths_destroy(&deaths);
}

static void
test_each_cause_has_its_sentence(void **state)
{
    run_t *run = *state;
    const struct {
        sink_worker_t worker;
        const char *want;
    } cases[] = {
        {{.cause = CREMA_DEATH_UNKNOWN}, "tcp://A was killed; by whom is not known"},
        {{.cause = CREMA_DEATH_EXITED, .exit_status = 7}, "tcp://A exited with status 7"},
        {{.cause = CREMA_DEATH_SIGNAL, .signal = 11}, "tcp://A was killed by signal 11 (SIGSEGV)"},
        {{.cause = CREMA_DEATH_SIGNAL, .signal = 40}, "tcp://A was killed by signal 40 (unnamed)"},
        {{.cause = CREMA_DEATH_SIGNAL, .signal = 9, .was_retired = true},
         "tcp://A was retired, and then was killed by signal 9 (SIGKILL)"},
        {{.cause = CREMA_DEATH_MEMORY_NANNY, .death_rss_b = 668 * MB, .death_limit_b = 700 * MB},
         "tcp://A was killed; memory: 668 of 700 MB, ended by its nanny"},
        {{.cause = CREMA_DEATH_MEMORY_KERNEL, .death_limit_b = 900 << 20},
         "tcp://A was killed; memory: the kernel ended it, limit 900 MiB of its cgroup"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run->workers[0] = cases[i].worker;
        must_tell(run, cases[i].want);
    }
}

static void
test_memory_near_its_limit_is_said_where_the_cause_is_unknown(void **state)
{
    run_t *run = *state;
    run->sample = (sink_sample_t){.rss_b = 880 * MB, .memory_limit_b = 900 * MB};
    run->facts.samples = &run->sample;
    run->facts.n_samples = 1;
    must_tell(run,
              "tcp://A was killed; by whom is not known; when last seen it held 880 of 900 MB");
    run->sample.rss_b = 300 * MB;
    must_tell(run, "tcp://A was killed; by whom is not known");
}

static void
test_what_ran_on_it_is_named(void **state)
{
    run_t *run = *state;
    run->workers[0].cause = CREMA_DEATH_EXITED;
    run->workers[0].exit_status = 1;
    add_chunk(run, 1, 0, true);
    must_tell(run, "tcp://A exited with status 1; it ran events 200 to 400 of an unknown file, "
                   "of which 0 of 1 count elsewhere");
    add_chunk(run, 1, 1, false);
    must_tell(run, "tcp://A exited with status 1; it ran events 200 to 400 of an unknown file, "
                   "which counts elsewhere");
    add_chunk(run, 2, 0, true);
    add_chunk(run, 3, 0, true);
    must_tell(run, "tcp://A exited with status 1; it ran events 200 to 400 of an unknown file and "
                   "events 400 to 600 of an unknown file and 1 more chunks, of which 1 of 3 count "
                   "elsewhere");
}

static void
test_a_chunk_on_which_several_workers_ended_is_named(void **state)
{
    run_t *run = *state;
    for (uint32_t w = 0; w < WORKERS; w++) {
        run->workers[w].cause = CREMA_DEATH_MEMORY_NANNY;
        add_chunk(run, 3, w, true);
    }
    add_chunk(run, 4, 0, true);
    add_chunk(run, 4, 0, true); /* twice on one worker */
    sink_deaths_t *deaths;
    const char *file;
    size_t workers;
    char text[512];
    must(sink_deaths_new(&run->facts, run->decoded.run, &deaths));
    assert_true(sink_deaths_deadly(deaths, 0, &file, &workers, text, sizeof text));
    assert_int_equal(workers, 3);
    assert_string_equal(
        text, "3 workers ended while they ran events 600 to 800 of an unknown file: memory");
    assert_false(sink_deaths_deadly(deaths, 1, &file, &workers, text, sizeof text));
    char small[20];
    assert_true(sink_deaths_deadly(deaths, 0, &file, &workers, small, sizeof small));
    assert_string_equal(small, "3 workers ended whi");
    sink_deaths_destroy(&deaths);
}

static void
test_a_worker_that_was_killed_after_its_end_is_told_apart(void **state)
{
    run_t *run = *state;
    sink_deaths_t *deaths;
    must(sink_deaths_new(&run->facts, run->decoded.run, &deaths));
    run->workers[0].has_left = run->workers[1].has_left = run->workers[2].has_left = true;
    run->workers[0].signal = run->workers[1].signal = 9;
    run->workers[1].killed = true; /* its stream has no end */
    assert_true(sink_deaths_killed_after(deaths, 0));
    assert_false(sink_deaths_killed_after(deaths, 1));
    assert_false(sink_deaths_killed_after(deaths, 2));
    sink_deaths_destroy(&deaths);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_cause_has_its_sentence),
        TEST(test_memory_near_its_limit_is_said_where_the_cause_is_unknown),
        TEST(test_what_ran_on_it_is_named),
        TEST(test_a_chunk_on_which_several_workers_ended_is_named),
        TEST(test_a_worker_that_was_killed_after_its_end_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
