/* sink_seal of runs of many workers: the file is complete, and sealing takes hardly more than in
 * proportion. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_h5.h"
#include "sink_seal.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))
enum { JOIN = 0, LEAVE = 1 };

/* What the scheduler says of a worker. */
static void
s_member(fixture_stream_t *scheduler, int64_t worker, int event, int64_t t_ns)
{
    fixture_row(scheduler, CREMA_TABLE_MEMBERSHIP);
    fixture_set(scheduler, "t_ns", t_ns);
    fixture_set(scheduler, "worker_id", worker);
    fixture_set(scheduler, "event", event);
    fixture_set(scheduler, "nthreads", 1);
    fixture_put(scheduler, 0);
}

/* One chunk in its own task. */
static void
s_work(fixture_stream_t *stream, const char *name, uint32_t number, int64_t t_ns)
{
    int64_t worker = fixture_name(stream, CREMA_DICT_WORKER, name);
    int64_t prefix = fixture_name(stream, CREMA_DICT_TASK_PREFIX, "MyProcessor");
    int64_t dataset = fixture_name(stream, CREMA_DICT_DATASET, "data");
    fixture_row(stream, CREMA_TABLE_CHUNKS);
    fixture_set(stream, "t_start_ns", t_ns);
    fixture_set(stream, "t_end_ns", t_ns + FIXTURE_S);
    fixture_real(stream, "wall_s", 1);
    fixture_set(stream, "n_events", 1000);
    fixture_set(stream, "chunk_id", number + 1);
    fixture_set(stream, "task_key", number + 1);
    fixture_set(stream, "task_prefix_id", prefix);
    fixture_set(stream, "dataset_id", dataset);
    fixture_set(stream, "worker_id", worker);
    fixture_set(stream, "attempt_ref", 1);
    fixture_put(stream, 0);
    fixture_row(stream, CREMA_TABLE_TASK_EVENTS);
    fixture_set(stream, "t_start_ns", t_ns);
    fixture_set(stream, "t_stop_ns", t_ns + FIXTURE_S);
    fixture_set(stream, "task_key", number + 1);
    fixture_set(stream, "task_prefix_id", prefix);
    fixture_set(stream, "worker_id", worker);
    fixture_set(stream, "action", 0);
    fixture_set(stream, "status", 0);
    fixture_put(stream, 0);
}

/* `places` workers at a time; each is followed `generations` - 1 times by another one. */
static void
s_make(const char *dir, uint32_t places, uint32_t generations)
{
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, "MyProcessor");
    fixture_stream_t *scheduler = fixture_stream(f, 0, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    uint32_t number = 0;
    for (uint32_t g = 0; g < generations; g++)
        for (uint32_t i = 0; i < places; i++) {
            char name[64];
            number++;
            snprintf(name, sizeof name, "tcp://10.0.%u.%u:%u", i / 250, i % 250, 40000 + g);
            int64_t t_ns = T(10.0 * g) + number * 1000;
            int64_t worker = fixture_name(scheduler, CREMA_DICT_WORKER, name);
            s_member(scheduler, worker, JOIN, t_ns);
            fixture_stream_t *stream = fixture_stream(f, number, (uint8_t)(number % 200),
                                                      CREMA_STREAM_WORKER, name, 1, t_ns);
            s_work(stream, name, number, t_ns + FIXTURE_S);
            fixture_end(stream, CREMA_END_FINISHED, t_ns + 5 * FIXTURE_S, 0, 0);
            s_member(scheduler, worker, LEAVE, t_ns + 5 * FIXTURE_S);
        }
    fixture_end(scheduler, CREMA_END_FINISHED, T(10.0 * generations), 0, 0);
    fixture_seal(f, T(10.0 * generations), NULL, 0);
    fixture_close(&f);
}

/* CPU seconds that sealing takes. */
static double
s_seal(uint32_t places, uint32_t generations)
{
    const char *dir = scratch_dir("many");
    char file[512], why[512];
    sink_seal_result_t result;
    snprintf(file, sizeof file, "%s.h5", dir);
    s_make(dir, places, generations);
    clock_t began = clock();
    crema_err_t err = sink_seal_journal(dir, file, &result, why, sizeof why);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    if (err != CREMA_OK)
        fail_msg("%s", why);
    assert_string_equal(result.verdict, "COMPLETE");
    assert_string_equal(result.reasons_json, "[]");
    sink_h5_t *h5;
    uint64_t rows;
    must(sink_h5_open(file, &h5, why));
    must(sink_h5_table(h5, crema_table(CREMA_TABLE_DICT_WORKER), &rows, why));
    assert_int_equal(rows, places * generations);
    must(sink_h5_table(h5, crema_table(CREMA_TABLE_CHUNKS), &rows, why));
    assert_int_equal(rows, places * generations);
    must(sink_h5_close(&h5, NULL));
    unlink(file);
    return seconds;
}

static void
must_seal_ten_thousand_workers(void **state)
{
    (void)state;
    double few_s = s_seal(2500, 1), many_s = s_seal(10000, 1);
    printf("2500 workers: %.2f s, 10000: %.2f s\n", few_s, many_s);
    assert_true(many_s < 8 * few_s); /* in proportion is 4, n log n 4.7, the square 16 */
}

static void
must_seal_five_thousand_workers_that_were_replaced(void **state)
{
    (void)state;
    printf("5000 workers replaced: %.2f s\n", s_seal(5000, 2));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_seal_ten_thousand_workers),
        cmocka_unit_test(must_seal_five_thousand_workers_that_were_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
