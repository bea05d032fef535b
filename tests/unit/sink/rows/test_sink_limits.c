/* Every limit of a run: what does not fit is counted, named in the verdict and in the file, and
 * the run is sealed all the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_summary.h"
#include "sink_verdict.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

/* Four workers under three agents: names, totals, provisional and final chunks, attributes,
 * prefixes, clocks. */
static void
s_make(const char *dir)
{
    static const char *const keys[] = {"a", "b", "c", NULL}, *const values[] = {"1", "2", "3"};
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), keys, values, "MyProcessor");
    fixture_open(f, T(0), keys, values, "MyOtherProcessor");
    for (uint8_t w = 1; w <= 4; w++) {
        char name[32];
        snprintf(name, sizeof name, "tcp://w%u", w);
        uint8_t agent = w < 4 ? w : 3;
        fixture_clock(f, agent, T(1), 0, 1000);
        fixture_clock(f, agent, T(2), 0, 1000);
        fixture_stream_t *s = fixture_stream(f, w, agent, CREMA_STREAM_WORKER, name, 1, T(0));
        for (int i = 0; i < 8; i++) {
            snprintf(name, sizeof name, "name-%u-%d", w, i);
            fixture_row(s, CREMA_TABLE_ACTIVITIES);
            fixture_set(s, "t1_ns", T(i + 1));
            fixture_real(s, "total", 1);
            fixture_set(s, "activity_id", fixture_name(s, CREMA_DICT_ACTIVITY, name));
            fixture_put(s, 0);
        }
        for (int i = 0; i < 16; i++) {
            fixture_row(s, CREMA_TABLE_CHUNKS);
            fixture_set(s, "t_start_ns", T(i % 8 + 1));
            fixture_set(s, "t_end_ns", T(i % 8 + 2));
            fixture_set(s, "chunk_id", 10 * w + i % 8 + 1);
            fixture_set(s, "task_key", 10 * w + i % 8 + 1);
            fixture_set(s, "attempt_ref", i % 8);
            fixture_put(s, i < 8 ? CREMA_BATCH_PROVISIONAL : 0);
        }
        fixture_end(s, CREMA_END_FINISHED, T(20), 0, 0);
    }
    fixture_seal(f, T(30), NULL, 0);
    fixture_close(&f);
}

/* A verdict of one run whose limits are the table's but for one. */
typedef struct {
    decoded_t d;
    sink_verdict_t *verdict;
} judged_t;

static void
s_judge(judged_t *self, const char *dir, crema_limit_id_t id, uint64_t limit)
{
    crema_limits_t limits = crema_limits();
    if (id < CREMA_LIMIT_COUNT)
        limits.limit[id] = limit;
    decoded_open_limited(&self->d, dir, &limits);
    decoded_facts(&self->d);
    must(sink_verdict_new(self->d.run, self->d.facts, &(sink_damage_t){0}, &self->verdict));
    const sink_summary_t summary = {.tables = self->d.tables,
                                    .run = self->d.run,
                                    .facts = self->d.facts,
                                    .budget = self->d.budget,
                                    .model = self->d.model};
    must(sink_summary_fill(&summary));
}

static void
s_close(judged_t *self)
{
    sink_verdict_destroy(&self->verdict);
    decoded_close(&self->d);
}

static void
must_be_complete_while_no_limit_is_met(void **state)
{
    (void)state;
    const char *dir = scratch_dir("limits");
    judged_t j;
    s_make(dir);
    s_judge(&j, dir, CREMA_LIMIT_COUNT, 0);
    assert_string_equal(sink_verdict_word(j.verdict), "COMPLETE");
    assert_int_equal(decoded_count(&j.d, CREMA_TABLE_LIMITS), CREMA_LIMIT_COUNT);
    for (size_t i = 0; i < CREMA_LIMIT_COUNT; i++) {
        assert_int_equal(decoded_int(&j.d, CREMA_TABLE_LIMITS, i, "met"), 0);
        assert_int_equal(decoded_int(&j.d, CREMA_TABLE_LIMITS, i, "limit"),
                         crema_limit((crema_limit_id_t)i)->limit);
    }
    s_close(&j);
}

static void
must_name_each_limit_that_was_met_and_go_on(void **state)
{
    (void)state;
    const struct {
        crema_limit_id_t id;
        uint64_t limit, met; /* met 0: any number */
    } cases[] = {
        {CREMA_LIMIT_NAMES, 1000, 0},
        {CREMA_LIMIT_NAME_NUMBERS, 64, 3 * 8}, /* sixteen numbers: one stream's */
        {CREMA_LIMIT_STREAMS, 3, 34},          /* first record, names, rows, end */
        {CREMA_LIMIT_AGENTS, 2, 0},
        {CREMA_LIMIT_CLOCK_SAMPLES, 1, 7},
        {CREMA_LIMIT_ACTIVITY_KEYS, 30, 2},
        {CREMA_LIMIT_OPEN_ATTEMPTS, 7, 4}, /* of eight at a time */
        {CREMA_LIMIT_CHUNK_TASKS, 31, 2},
        {CREMA_LIMIT_PREFIXES, 1, 1},
        {CREMA_LIMIT_ATTRIBUTES, 2, 0},
    };
    const char *dir = scratch_dir("limits");
    s_make(dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = crema_limit(cases[i].id)->name;
        const Crema__Reason *reasons;
        judged_t j;
        s_judge(&j, dir, cases[i].id, cases[i].limit);
        assert_string_equal(sink_verdict_word(j.verdict), "PARTIAL");
        size_t n = sink_verdict_reasons(j.verdict, &reasons), at = 0;
        while (at < n && strcmp(reasons[at].code, "limit_met") != 0)
            at++;
        if (at == n)
            fail_msg("%s: no reason limit_met", name);
        assert_string_equal(reasons[at].subject, name);
        assert_non_null(strstr(reasons[at].text, crema_limit(cases[i].id)->lost));
        if (cases[i].met && reasons[at].count != cases[i].met)
            fail_msg("%s: met %llu times", name, (unsigned long long)reasons[at].count);
        assert_int_equal(decoded_int(&j.d, CREMA_TABLE_LIMITS, cases[i].id, "met"),
                         reasons[at].count);
        assert_string_equal(decoded_text(&j.d, CREMA_TABLE_LIMITS, cases[i].id, "name"), name);
        if (cases[i].id == CREMA_LIMIT_STREAMS)
            assert_int_equal(sink_verdict_loss(j.verdict), cases[i].met);
        s_close(&j);
    }
}

/* A writer's own limits come as records. */
static void
must_believe_writers_about_their_limits(void **state)
{
    (void)state;
    const char *dir = scratch_dir("limits");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *s = fixture_stream(f, 1, 1, CREMA_STREAM_WORKER, "tcp://w", 1, T(0));
    (void)fixture_name(s, CREMA_DICT_SECTION, "__overflow__");
    for (int i = 0; i < 3; i++) {
        static const char *const metrics[] = {CREMA_LIMIT_METRIC "writer_arrivals",
                                              CREMA_LIMIT_METRIC "of_later_writers"};
        fixture_row(s, CREMA_TABLE_CUSTOM);
        fixture_set(s, "t_ns", T(1));
        fixture_real(s, "value", 7);
        fixture_set(s, "metric_id", fixture_name(s, CREMA_DICT_METRIC, metrics[i / 2]));
        fixture_put(s, 0);
    }
    fixture_end(s, CREMA_END_FINISHED, T(2), 0, 0);
    fixture_seal(f, T(3), NULL, 0);
    fixture_close(&f);
    judged_t j;
    s_judge(&j, dir, CREMA_LIMIT_COUNT, 0);
    const Crema__Reason *reasons;
    assert_int_equal(sink_verdict_reasons(j.verdict, &reasons), 2);
    assert_string_equal(reasons[0].subject, "writer_names");
    assert_int_equal(reasons[0].count, 1);
    assert_string_equal(reasons[1].subject, "writer_arrivals");
    assert_int_equal(reasons[1].count, 14);
    s_close(&j);
}

/* A number far beyond all others may not cost memory, nor the names of others. */
static void
must_refuse_an_absurd_number_and_keep_the_others(void **state)
{
    (void)state;
    crema_limits_t limits = crema_limits();
    const crema_id_t id = {{1}};
    uint64_t held_b = 0;
    sink_stream_t *stream;
    must(sink_stream_new(&id, 0, &stream));
    must(sink_stream_name(stream, CREMA_DICT_FILE, UINT32_MAX, 5, &limits, &held_b));
    assert_int_equal(limits.met[CREMA_LIMIT_NAME_NUMBERS], 1);
    assert_int_equal(held_b, 0);
    for (uint32_t i = 0; i < 1000000; i++) /* far more than any dictionary held before */
        must(sink_stream_name(stream, CREMA_DICT_FILE, i, i + 1, &limits, &held_b));
    assert_int_equal(limits.met[CREMA_LIMIT_NAME_NUMBERS], 1);
    assert_int_equal(sink_stream_id(stream, CREMA_DICT_FILE, 999999), 1000000);
    sink_stream_destroy(&stream);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_complete_while_no_limit_is_met),
        cmocka_unit_test(must_name_each_limit_that_was_met_and_go_on),
        cmocka_unit_test(must_believe_writers_about_their_limits),
        cmocka_unit_test(must_refuse_an_absurd_number_and_keep_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
