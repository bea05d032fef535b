/* sink_verdict: COMPLETE only when nothing is missing. */
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_verdict.h"

#define T(s) (FIXTURE_T0 + (int64_t)((s)*1e9))

typedef struct {
    const char *what;
    void (*make)(fixture_t *f, fixture_stream_t *w);
    uint64_t damaged;
    const char *want[4]; /* codes */
    int64_t want_loss;
} case_t;

static void
s_end(fixture_stream_t *w)
{
    fixture_end(w, CREMA_END_FINISHED, T(9), 0, 0);
}

static void
s_clean(fixture_t *f, fixture_stream_t *w)
{
    s_end(w);
    fixture_seal(f, T(10), NULL, 0);
}

static void
s_open(fixture_t *f, fixture_stream_t *w)
{
    (void)w;
    fixture_seal(f, T(10), NULL, 0);
}

static void
s_lost(fixture_t *f, fixture_stream_t *w)
{
    fixture_lose(w, 7, CREMA_LOSS_EVICTED, T(2));
    s_clean(f, w);
}

static void
s_undecodable(fixture_t *f, fixture_stream_t *w)
{
    fixture_nonsense(w);
    s_clean(f, w);
}

static void
s_killed(fixture_t *f, fixture_stream_t *w)
{
    fixture_end(w, CREMA_END_WRITER_GONE, T(9), 12, 0);
    fixture_seal(f, T(10), NULL, 0);
}

static void
s_killed_agent(fixture_t *f, fixture_stream_t *w)
{
    fixture_stream_t *agent = fixture_stream(f, 5, 1, CREMA_STREAM_AGENT, "", 0, T(0));
    fixture_end(agent, CREMA_END_WRITER_GONE, T(9), 0, 0);
    s_clean(f, w);
}

static void
s_member(fixture_t *f, fixture_stream_t *w)
{
    fixture_stream_t *s = fixture_stream(f, 6, 1, CREMA_STREAM_SCHEDULER, "", 0, T(0));
    for (int i = 0; i < 2; i++) {
        int64_t worker = fixture_name(s, CREMA_DICT_WORKER, i == 0 ? "tcp://A" : "tcp://silent");
        fixture_row(s, CREMA_TABLE_MEMBERSHIP);
        fixture_set(s, "t_ns", T(1));
        fixture_set(s, "worker_id", worker);
        fixture_set(s, "event", 0);
        fixture_put(s, 0);
    }
    s_end(s);
    s_clean(f, w);
}

static void
s_told(fixture_t *f, fixture_stream_t *w)
{
    const crema_reason_t reasons[] = {{"agent_lost", "node7", "it is silent", 0}};
    s_end(w);
    fixture_seal(f, T(10), reasons, 1);
}

/* The aggregator waited in vain; then the stream's end came after all. */
static void
s_came_late(fixture_t *f, fixture_stream_t *w)
{
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    const crema_reason_t reasons[] = {{"stream_not_closed", crema_id_hex(&id, hex), "no end", 3}};
    fixture_seal(f, T(10), reasons, 1);
    fixture_late(f);
    s_end(w);
}

static void
s_told_and_seen(fixture_t *f, fixture_stream_t *w)
{
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    const crema_reason_t reasons[] = {{"stream_not_closed", crema_id_hex(&id, hex), "no end", 3}};
    (void)w;
    fixture_seal(f, T(10), reasons, 1);
}

static void
s_never_ended(fixture_t *f, fixture_stream_t *w)
{
    (void)f;
    s_end(w);
}

static const case_t s_cases[] = {
    {"clean", s_clean, 0, {NULL}, 0},
    {"no end", s_open, 0, {"stream_not_closed"}, 0},
    {"lost records", s_lost, 0, {"records_lost"}, 7},
    {"a record that makes no sense", s_undecodable, 0, {"records_lost"}, 1},
    {"killed, torn", s_killed, 0, {"records_lost", "writer_killed"}, 1},
    {"a killed agent loses no tasks", s_killed_agent, 0, {NULL}, 0},
    {"a worker that recorded nothing", s_member, 0, {"worker_without_stream"}, 0},
    {"told by the aggregator", s_told, 0, {"agent_lost"}, 0},
    {"came late", s_came_late, 0, {NULL}, 0},
    {"told and seen is one reason", s_told_and_seen, 0, {"stream_not_closed"}, 0},
    {"nobody ended it", s_never_ended, 0, {"run_not_ended"}, 0},
    {"a damaged journal", s_clean, 99, {"records_lost"}, 0},
};

static void
must_be_complete_only_when_nothing_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof s_cases / sizeof *s_cases; i++) {
        const case_t *c = &s_cases[i];
        const char *dir = scratch_dir("verdict");
        fixture_t *f = fixture_new(dir, 1);
        fixture_open(f, T(0), NULL, NULL, NULL);
        c->make(f, fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0)));
        fixture_close(&f);
        decoded_t d;
        decoded_open(&d, dir);
        decoded_facts(&d);
        sink_verdict_t *verdict;
        must(sink_verdict_new(d.run, d.facts, c->damaged, &verdict));
        const crema_reason_t *reasons;
        size_t n = sink_verdict_reasons(verdict, &reasons), n_want = 0;
        while (n_want < 4 && c->want[n_want])
            n_want++;
        if (n != n_want)
            fail_msg("%s: %zu reasons, the first is %s", c->what, n, n ? reasons[0].code : "none");
        for (size_t k = 0; k < n; k++)
            if (strcmp(reasons[k].code, c->want[k]) != 0)
                fail_msg("%s: %s", c->what, reasons[k].code);
        for (size_t k = 0; k < n; k++)
            if (strcmp(reasons[k].code, "writer_killed") == 0)
                assert_string_equal(reasons[k].subject, "tcp://A");
        assert_string_equal(sink_verdict_word(verdict), n_want ? "PARTIAL" : "COMPLETE");
        if (sink_verdict_loss(verdict) != c->want_loss)
            fail_msg("%s: %lld lost", c->what, (long long)sink_verdict_loss(verdict));
        sink_verdict_destroy(&verdict);
        assert_null(verdict);
        decoded_close(&d);
    }
}

static void
must_write_reasons_as_json_that_is_cut_between_them(void **state)
{
    (void)state;
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    for (uint8_t i = 2; i < 42; i++)
        fixture_stream(f, i, 1, CREMA_STREAM_WORKER, "tcp://\"quoted\"", 1, T(0));
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_verdict_t *verdict;
    must(sink_verdict_new(d.run, d.facts, 0, &verdict));
    const struct {
        size_t size;
        int want;
    } cases[] = {{1 << 20, 40}, {1000, 6}, {3, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json;
        int n = 0;
        must(sink_verdict_json(verdict, cases[i].size, &json));
        assert_true(strlen(json) < cases[i].size);
        assert_int_equal(json[strlen(json) - 1], ']');
        for (const char *at = crema_json_first(json); at; at = crema_json_after(at)) {
            char code[64];
            must(crema_json_get_text(crema_json_find(at, "code"), code, sizeof code));
            assert_string_equal(code, "stream_not_closed");
            n++;
        }
        if (i == 1)
            assert_in_range(n, 1, 39);
        else
            assert_int_equal(n, cases[i].want);
        free(json);
    }
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_be_complete_only_when_nothing_is_missing),
        cmocka_unit_test(must_write_reasons_as_json_that_is_cut_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
