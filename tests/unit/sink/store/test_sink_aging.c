/* A store that has seen many runs is as quick and as small as a new one: CREMA_AGE_RUNS of
 * CREMA_AGE_STREAMS streams (300 of 50, `./dev age` 20,000 of 5,000) live, are sealed and freed,
 * and every so often the store is opened again. */
#include "must.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crema_clock.h"
#include "message_parts.h"
#include "record_frames.h"
#include "sink_fs.h"
#include "sink_store.h"
#include "store_opened.h"

#define SECOND_NS INT64_C(1000000000)
#define RETAINED 20 /* sealed runs whose journal is kept */
#define STEPS 10
#define STARTS 10   /* timed at each step */
#define COMMITS 200 /* timed at each step */

static char *s_dir;
static frames_t s_frames;
static int64_t s_mono_ns = SECOND_NS;

static int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make_in_memory(32);
    return 0;
}

static int
s_teardown(void **state)
{
    (void)state;
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

static size_t
s_number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : otherwise;
}

static crema_id_t
s_id(uint64_t run, uint64_t stream)
{
    crema_id_t id = {{0}};
    memcpy(id.bytes, &run, sizeof run);
    memcpy(id.bytes + 8, &stream, sizeof stream);
    return id;
}

static sink_store_t *
must_open(uint64_t run_limit)
{
    sink_store_t *store;
    char why[512];
    sink_store_config_t config = {.dir = s_dir,
                                  .run_limit_bytes = (int64_t)run_limit,
                                  .streams_max = 1 << 20,
                                  .runs_max = 1 << 20,
                                  .on_event = store_events_anew()};
    if (sink_store_open(&config, why, sizeof why, &store) != CREMA_OK)
        fail_msg("%s", why);
    sink_store_tick(store, s_mono_ns);
    must(sink_store_commit(store)); /* what comes to rest has done so */
    return store;
}

static sink_put_t
must_put(sink_store_t *store, uint64_t run, uint64_t stream, uint64_t first, uint64_t last)
{
    sink_store_put_t answer;
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, last);
    Crema__Put put = frames_put(&s_frames, 1, 1, first);
    put.run_id = body_id(s_id(run, UINT64_MAX));
    put.stream_id = body_id(s_id(run, stream));
    crema_err_t err = sink_store_put(store, &put, 5000, &answer);
    if (err == CREMA_ELIMIT) {
        must_commit(store);
        err = sink_store_put(store, &put, 5000, &answer);
    }
    must(err);
    return answer.decision;
}

static void
must_seal_at(sink_store_t *store, uint64_t run, int64_t t_real_ns)
{
    bool is_new;
    const crema_id_t run_id = s_id(run, UINT64_MAX);
    const crema_msg_t msg = {.type = CREMA_MSG_RUN_SEAL, .run_id = crema_id_field(&run_id)};
    sink_journal_sealed_t sealed = {.revision = 1};
    must(sink_store_run_msg(store, &msg, NULL, 5000, &is_new));
    must(sink_store_sealed(store, &run_id, &sealed, t_real_ns));
    must_commit(store);
}

static void
must_seal(sink_store_t *store, uint64_t run)
{
    must_seal_at(store, run, 6000);
}

static void
must_live(sink_store_t *store, uint64_t run, size_t streams)
{
    for (size_t i = 0; i < streams; i++)
        must_put(store, run, i, 1, 1);
    must_commit(store);
    must_seal(store, run);
}

static void
must_age(sink_store_t *store, int64_t s)
{
    s_mono_ns += s * SECOND_NS;
    sink_store_tick(store, s_mono_ns);
    must(sink_store_commit(store)); /* what comes to rest has done so */
}

static size_t
s_descriptors(void)
{
    size_t n = 0;
    DIR *stream = opendir("/proc/self/fd");
    while (readdir(stream))
        n++;
    closedir(stream);
    return n;
}

/* A sanitizer holds back what was freed: there the process's memory says nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool c_keeps_freed = true;
#else
static const bool c_keeps_freed = false;
#endif

static size_t
s_memory_kib(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static int
s_ascending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* ---- what a sealed run costs */

static void
test_a_sealed_run_has_no_descriptor_and_no_stream_in_memory(void **state)
{
    (void)state;
    sink_store_t *store = must_open(0);
    size_t before = s_descriptors();
    for (uint64_t run = 1; run <= 3; run++)
        must_live(store, run, 10);
    assert_int_equal(s_descriptors(), before + 3);
    must_age(store, 10);
    assert_int_equal(s_descriptors(), before);
    assert_int_equal(sink_store_live(store), 0);
    assert_int_equal(sink_commit_stats(sink_store_watermarks(store)).streams, 0);
    assert_int_equal(must_put(store, 2, 5, 1, 1), SINK_PUT_REPEAT); /* and is known all the same */
    assert_int_equal(must_put(store, 2, 5, 2, 2), SINK_PUT_APPEND);
    must_commit(store);
    sink_store_close(&store);

    store = must_open(0);
    assert_int_equal(sink_store_report(store).unread, 3);
    must_examine(store);
    assert_int_equal(sink_store_live(store), 1); /* the one that something came late for */
    assert_int_equal(sink_commit_stats(sink_store_watermarks(store)).streams, 10);
    assert_int_equal(sink_store_report(store).frames, 4); /* two heads, and what followed them */
    sink_store_close(&store);
}

static void
test_the_oldest_sealed_run_goes_first_and_no_clock_matters(void **state)
{
    (void)state;
    int64_t age_ns;
    sink_store_t *store = must_open(0);
    assert_null(sink_store_oldest(store, &age_ns));
    for (uint64_t run = 1; run <= 3; run++) {
        must_live(store, run, 4);
        must_age(store, 20);
    }
    uint64_t bytes = sink_store_resting_bytes(store);
    assert_true(bytes > 0);
    assert_int_equal(bytes, sink_store_bytes(store));
    sink_store_close(&store);

    s_mono_ns = 5 * SECOND_NS; /* another boot */
    store = must_open(0);
    must_examine(store);
    assert_int_equal(sink_store_resting_bytes(store), bytes);
    const sink_run_t *oldest = sink_store_oldest(store, &age_ns);
    const crema_id_t first = s_id(1, UINT64_MAX), second = s_id(2, UINT64_MAX);
    assert_true(crema_id_equal(&oldest->run_id, &first));
    assert_int_equal(age_ns, 60 * SECOND_NS);
    must(store_free(store, &first));
    assert_true(crema_id_equal(&sink_store_oldest(store, &age_ns)->run_id, &second));
    assert_int_equal(age_ns, 40 * SECOND_NS);
    must_put(store, 2, 0, 2, 2); /* something late: it is not old any more */
    const crema_id_t third = s_id(3, UINT64_MAX);
    assert_true(crema_id_equal(&sink_store_oldest(store, &age_ns)->run_id, &third));
    sink_store_close(&store);
}

/* Service time advances once per second; several runs may be sealed in one of these seconds. */
static void
test_runs_sealed_within_one_second_go_in_the_order_in_which_they_were_sealed(void **state)
{
    (void)state;
    enum { RUNS = 12 };
    static const uint64_t order[RUNS] = {7, 2, 11, 5, 1, 9, 12, 4, 3, 10, 6, 8};
    int64_t age_ns;
    bool is_complete;
    sink_store_t *store = must_open(0);
    for (int64_t i = 0; i < RUNS; i++) {
        must_put(store, order[i], 0, 1, 1);
        must_commit(store);
        must_seal_at(store, order[i], 6000 + i);
    }
    must_age(store, 20); /* they come to rest */
    for (size_t i = 0; i < RUNS; i++) {
        const crema_id_t next = s_id(order[i], UINT64_MAX);
        assert_true(crema_id_equal(&sink_store_oldest(store, &age_ns)->run_id, &next));
        assert_true(crema_id_equal(&sink_store_redundant(store, &is_complete)->run_id, &next));
        must(store_free(store, &next));
    }
    sink_store_close(&store);
}

/* Each answer is a file, which may take a moment: it is not read of thousands of runs at once. */
static void
test_verdicts_are_read_some_at_a_time(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    char dir[PATH_MAX], path[PATH_MAX];
    uint8_t *bytes;
    size_t size;
    bool is_complete = true;
    sink_store_t *store = must_open(0);
    for (uint64_t run = 1; run <= RUNS; run++) {
        const crema_id_t run_id = s_id(run, UINT64_MAX);
        const crema_msg_t answer = {.type = CREMA_MSG_SEALED,
                                    .sealed = {.run_id = crema_id_field(&run_id),
                                               .path = "x.h5",
                                               .verdict = "COMPLETE",
                                               .error = "",
                                               .revision = 1}};
        must_put(store, run, 0, 1, 1);
        must(crema_wire_encode(&answer, &bytes, &size));
        must(sink_store_keep_answer(store, &run_id, bytes, size));
        free(bytes);
        must_seal(store, run);
    }
    must_age(store, 20); /* they come to rest */
    assert_non_null(sink_store_redundant(store, &is_complete));
    assert_true(is_complete);
    for (uint64_t run = 1; run <= RUNS; run++) { /* what was not read by now is not COMPLETE */
        const crema_id_t run_id = s_id(run, UINT64_MAX);
        sink_store_run_dir(store, &run_id, dir);
        assert_int_equal(unlink(sink_fs_path(dir, SINK_STORE_ANSWER, path)), 0);
    }
    size_t n = 0;
    for (const sink_run_t *run; (run = sink_store_redundant(store, &is_complete)) && is_complete;
         n++) {
        const crema_id_t run_id = run->run_id;
        must(store_free(store, &run_id));
    }
    assert_in_range(n, 1, RUNS - 1);
    sink_store_close(&store);
}

/* Of those that were not read yet one may be COMPLETE: a PARTIAL one waits until all are known. */
static void
test_a_partial_run_gives_way_once_all_verdicts_are_known(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    bool is_complete = true;
    sink_store_t *store = must_open(0);
    for (uint64_t run = 1; run <= RUNS; run++) {
        must_put(store, run, 0, 1, 1);
        must_seal(store, run);
    }
    must_age(store, 20); /* they come to rest */
    assert_null(sink_store_redundant(store, &is_complete));
    assert_non_null(sink_store_redundant(store, &is_complete));
    assert_false(is_complete);
    sink_store_close(&store);
}

static crema_err_t
s_on_put(void *context, const sink_journal_put_t *put)
{
    uint64_t *lost = context;
    crema_frame_t frame;
    for (size_t at = 0; at < put->frames_bytes; at += crema_frame_bytes(&frame)) {
        must(crema_frame_decode(put->frames + at, put->frames_bytes - at, &frame));
        *lost += frame.type == CREMA_RECORD_LOSS;
    }
    return CREMA_OK;
}

/* Nothing of it is this store's to free, however old it looks. */
static void
test_a_sealed_journal_of_another_store_is_set_aside(void **state)
{
    (void)state;
    char moved[PATH_MAX];
    int64_t age_ns;
    const crema_id_t run_id = s_id(1, UINT64_MAX);
    sink_store_t *store = must_open(0);
    must_live(store, 1, 4);
    must_age(store, 10);
    sink_store_run_dir(store, &run_id, moved);
    sink_store_close(&store);
    char *name = strrchr(moved, '/');
    char store_file[PATH_MAX];
    snprintf(store_file, sizeof store_file, "%.*s/store", (int)(name - moved), moved);
    assert_int_equal(unlink(store_file), 0); /* the next one makes its own */
    store = must_open(0);
    must_examine(store);
    assert_null(sink_store_oldest(store, &age_ns));
    assert_int_equal(access(moved, F_OK), 0);
    sink_store_close(&store);
}

static void
test_a_run_that_meets_its_limit_loses_records_and_no_other_does(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    uint64_t lost = 0, seq = 1;
    const crema_id_t run_id = s_id(1, UINT64_MAX);
    sink_store_event_t event;
    sink_journal_report_t report;
    const sink_journal_visitor_t visitor = {.context = &lost, .put = s_on_put};
    sink_store_t *store = must_open(100 << 10);
    for (; seq < 20000; seq += 100)
        assert_int_equal(must_put(store, 1, 1, seq, seq + 99), SINK_PUT_APPEND);
    must_commit(store);
    assert_in_range(sink_store_bytes(store), 100 << 10, 130 << 10);
    assert_true(store_events_take(&event));
    assert_int_equal(event.type, SINK_STORE_RUN_FULL);
    assert_false(store_events_take(&event)); /* once */
    assert_true(sink_store_find(store, &run_id)->is_full);
    sink_store_run_dir(store, &run_id, dir);
    must(sink_journal_read(dir, &visitor, &report));
    assert_true(lost > 50);
    lost = 0;
    must_put(store, 2, 1, 1, 100);
    must_commit(store);
    const crema_id_t other = s_id(2, UINT64_MAX);
    assert_false(sink_store_find(store, &other)->is_full);
    sink_store_run_dir(store, &other, dir);
    must(sink_journal_read(dir, &visitor, &report));
    assert_int_equal(lost, 0);
    sink_store_close(&store);
}

/* ---- many of them */

typedef struct {
    double open_ms, commit_p99_ms;
    size_t memory_kib;
} figures_t;

/* A start with one commit. Times are of the processor: the store lies in memory, and others use
 * this machine too. */
static double
s_open_ms(uint64_t run, uint64_t seq, sink_store_t **ret_store)
{
    int64_t began_ns = crema_clock_cpu_ns();
    *ret_store = must_open(0);
    must_put(*ret_store, run, 0, seq, seq);
    must_commit(*ret_store);
    return (double)(crema_clock_cpu_ns() - began_ns) * 1e-6;
}

/* Some starts, of which the quickest counts, and many commits of a run that continues. */
static figures_t
s_measure(uint64_t run)
{
    static int64_t took_ns[COMMITS];
    int64_t began_ns;
    sink_store_t *store;
    figures_t figures = {.open_ms = s_open_ms(run, 1, &store)};
    for (uint64_t seq = 2; seq <= STARTS; seq++) {
        sink_store_close(&store);
        double open_ms = s_open_ms(run, seq, &store);
        figures.open_ms = open_ms < figures.open_ms ? open_ms : figures.open_ms;
    }
    must_examine(store);
    for (uint64_t i = 0; i < COMMITS; i++) {
        must_put(store, run, 0, i + STARTS + 1, i + STARTS + 1);
        began_ns = crema_clock_cpu_ns();
        must_commit(store);
        took_ns[i] = crema_clock_cpu_ns() - began_ns;
    }
    qsort(took_ns, COMMITS, sizeof *took_ns, s_ascending);
    const size_t p99 = COMMITS * 99 / 100;
    figures.commit_p99_ms = (double)took_ns[p99] * 1e-6;
    figures.memory_kib = s_memory_kib();
    const crema_id_t run_id = s_id(run, UINT64_MAX);
    must_seal(store, run);
    must(store_free(store, &run_id));
    sink_store_close(&store);
    return figures;
}

static void
test_a_store_does_not_age(void **state)
{
    (void)state;
    size_t runs = s_number("CREMA_AGE_RUNS", 300), streams = s_number("CREMA_AGE_STREAMS", 50);
    figures_t first = {0}, last = {0};
    uint64_t run = 1;
    for (size_t step = 1; step <= STEPS; step++) {
        sink_store_t *store = must_open(0);
        must_examine(store);
        for (; run <= runs * step / STEPS; run++) {
            must_live(store, run, streams);
            must_age(store, 6);
            const crema_id_t old = s_id(run - RETAINED, UINT64_MAX);
            if (run > RETAINED)
                must(store_free(store, &old));
        }
        assert_int_equal(sink_commit_stats(sink_store_watermarks(store)).streams, 0);
        sink_store_close(&store);
        last = s_measure(UINT32_MAX + step);
        print_message(
            "%7llu runs: first commit after %.1f ms of CPU, p99 of commits %.3f ms, %zu KiB\n",
            (unsigned long long)run - 1, last.open_ms, last.commit_p99_ms, last.memory_kib);
        if (step == 1)
            first = last;
    }
    assert_true(last.open_ms < 500);
    /* The id of each freed run is in memory: 16 bytes, and as much again while a file is read. */
    if (!c_keeps_freed)
        assert_true((double)last.memory_kib <
                    1.2 * (double)first.memory_kib + (double)runs * 32 / 1024);
    /* A millisecond more is noise: caches are shared. */
    assert_true(last.commit_p99_ms < 1.2 * first.commit_p99_ms + 1);
    assert_true(last.open_ms < 1.2 * first.open_ms + 1);
}

int
main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, s_setup, s_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_sealed_run_has_no_descriptor_and_no_stream_in_memory),
        T(test_the_oldest_sealed_run_goes_first_and_no_clock_matters),
        T(test_runs_sealed_within_one_second_go_in_the_order_in_which_they_were_sealed),
        T(test_verdicts_are_read_some_at_a_time),
        T(test_a_partial_run_gives_way_once_all_verdicts_are_known),
        T(test_a_sealed_journal_of_another_store_is_set_aside),
        T(test_a_run_that_meets_its_limit_loses_records_and_no_other_does),
        T(test_a_store_does_not_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
