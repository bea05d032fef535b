/* sink_verdict: COMPLETE only when nothing is missing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_json.h"
#include "crema_note.h"
#include "journal_fixture.h"
#include "message_parts.h"
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
    Crema__Reason reasons[] = {crema_reason("agent_lost", "node7", "it is silent", 0)};
    s_end(w);
    fixture_seal(f, T(10), reasons, 1);
}

/* The aggregator waited in vain; then the stream's end came after all. */
static void
s_came_late(fixture_t *f, fixture_stream_t *w)
{
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    Crema__Reason reasons[] = {
        crema_reason("stream_not_closed", crema_id_hex(&id, hex), "no end", 3)};
    fixture_seal(f, T(10), reasons, 1);
    fixture_late(f);
    s_end(w);
}

static void
s_told_and_seen(fixture_t *f, fixture_stream_t *w)
{
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    Crema__Reason reasons[] = {
        crema_reason("stream_not_closed", crema_id_hex(&id, hex), "no end", 3)};
    (void)w;
    fixture_seal(f, T(10), reasons, 1);
}

static void
s_never_ended(fixture_t *f, fixture_stream_t *w)
{
    (void)f;
    s_end(w);
}

/* One writer beside the stream 2, which has a StreamInfo, a name and an END: numbers 1 to 3. */
static Crema__Writer
s_writer(uint8_t stream, uint64_t last, crema_writer_state_t how)
{
    return (Crema__Writer){.stream_id =
                               body_id(stream ? fixture_stream_id(stream) : (crema_id_t){{0}}),
                           .last = last,
                           .state = how,
                           .name = "tcp://A",
                           .uuid = "uuid-tcp://A",
                           .text = "why"};
}

static void
s_listed(fixture_t *f, fixture_stream_t *w, Crema__Writer writer)
{
    fixture_writers(f, 0, 1, &writer, 1);
    s_clean(f, w);
}

static void
s_listed_whole(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(2, fixture_last(w) + 1, CREMA_WRITER_ENDED));
}

static void
s_listed_short(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(2, fixture_last(w) + 1 + 30, CREMA_WRITER_ENDED));
}

static void
s_listed_never_came(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(9, 80, CREMA_WRITER_ENDED));
}

static void
s_listed_left(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(2, 0, CREMA_WRITER_LEFT));
}

static void
s_listed_left_never_came(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(9, 0, CREMA_WRITER_LEFT));
}

static void
s_listed_left_by_uuid(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(0, 0, CREMA_WRITER_LEFT));
}

static void
s_listed_left_by_uuid_never_came(fixture_t *f, fixture_stream_t *w)
{
    Crema__Writer writer = s_writer(0, 0, CREMA_WRITER_LEFT);
    writer.uuid = "another";
    s_listed(f, w, writer);
}

static void
s_listed_unknown(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(0, 0, CREMA_WRITER_UNKNOWN));
}

static void
s_listed_silent(fixture_t *f, fixture_stream_t *w)
{
    s_listed(f, w, s_writer(0, 0, CREMA_WRITER_SILENT));
}

static void
s_listed_killed(fixture_t *f, fixture_stream_t *w)
{
    Crema__Writer writer = s_writer(2, 0, CREMA_WRITER_LEFT);
    fixture_writers(f, 0, 1, &writer, 1);
    fixture_end(w, CREMA_END_WRITER_GONE, T(9), 0, 0);
    fixture_seal(f, T(10), NULL, 0);
}

static void
s_half_a_list(fixture_t *f, fixture_stream_t *w)
{
    Crema__Writer writer = s_writer(2, fixture_last(w) + 1, CREMA_WRITER_ENDED);
    fixture_writers(f, 0, 2, &writer, 1);
    s_clean(f, w);
}

/* The aggregator waited in vain for what is here by now. */
static void
s_listed_came_late(fixture_t *f, fixture_stream_t *w)
{
    crema_id_t id = fixture_stream_id(2);
    char hex[CREMA_ID_HEX_CHARS + 1];
    Crema__Reason reasons[] = {crema_reason("records_missing", crema_id_hex(&id, hex), "short", 3),
                               crema_reason("writer_unknown", "run", "no list", 0)};
    fixture_seal(f, T(10), reasons, 2);
    Crema__Writer writer = s_writer(2, fixture_last(w) + 1, CREMA_WRITER_ENDED);
    fixture_writers(f, 0, 1, &writer, 1);
    fixture_late(f);
    s_end(w);
}

/* A collector that makes no list: its aggregator says so, and nobody else can. */
static void
s_told_without_list(fixture_t *f, fixture_stream_t *w)
{
    Crema__Reason reasons[] = {crema_reason("writer_unknown", "run", "no list", 0)};
    s_end(w);
    fixture_seal(f, T(10), reasons, 1);
}

/* The sink's disk was changed after the list had come. */
static void
s_list_is_gone(fixture_t *f, fixture_stream_t *w)
{
    fixture_run_end(f, T(10), 1);
    s_clean(f, w);
}

static void
s_another_list(fixture_t *f, fixture_stream_t *w)
{
    Crema__Writer writer = s_writer(2, fixture_last(w) + 1, CREMA_WRITER_ENDED);
    fixture_run_end(f, T(10), 2);
    fixture_writers(f, 0, 1, &writer, 1);
    s_clean(f, w);
}

/* The collector ended it, and no aggregator lived to judge it. */
static void
s_never_judged(fixture_t *f, fixture_stream_t *w)
{
    s_end(w);
    fixture_run_end(f, T(10), 0);
}

/* It dropped records on a full disk, and could not write its END either: its agent did, and counts
 * none. */
static void
s_listed_could_not_end(fixture_t *f, fixture_stream_t *w)
{
    fixture_stream_t *client = fixture_stream(f, 7, 1, CREMA_STREAM_CLIENT, "", 0, T(0));
    Crema__Writer writer = s_writer(7, fixture_last(client), CREMA_WRITER_ENDED);
    fixture_writers(f, 0, 1, &writer, 1);
    fixture_end(client, CREMA_END_WRITER_GONE, T(9), 0, 0);
    s_clean(f, w);
}

/* The list says how many, for a worker as for a client. */
static void
s_listed_dropped(fixture_t *f, fixture_stream_t *w)
{
    fixture_stream_t *client = fixture_stream(f, 7, 1, CREMA_STREAM_CLIENT, "", 0, T(0));
    Crema__Writer writers[] = {s_writer(7, fixture_last(client), CREMA_WRITER_ENDED),
                               s_writer(2, fixture_last(w), CREMA_WRITER_ENDED)};
    writers[0].dropped = 12;
    writers[1].dropped = 30;
    fixture_writers(f, 0, 1, writers, 2);
    fixture_end(client, CREMA_END_WRITER_GONE, T(9), 0, 0);
    fixture_end(w, CREMA_END_WRITER_GONE, T(9), 0, 0);
    fixture_seal(f, T(10), NULL, 0);
}

/* Its own END says the same: it counts once. */
static void
s_listed_dropped_and_ended(fixture_t *f, fixture_stream_t *w)
{
    Crema__Writer writer = s_writer(2, fixture_last(w) + 1, CREMA_WRITER_ENDED);
    writer.dropped = 7;
    fixture_writers(f, 0, 1, &writer, 1);
    fixture_end(w, CREMA_END_FINISHED, T(9), 0, 7);
    fixture_seal(f, T(10), NULL, 0);
}

static const case_t s_cases[] = {
    {"listed, what could not be kept",
     s_listed_dropped,
     0,
     {"writer_killed", "records_lost", "records_lost"},
     42},
    {"listed, what could not be kept, and its end",
     s_listed_dropped_and_ended,
     0,
     {"records_lost"},
     7},
    {"never judged", s_never_judged, 0, {"no_verdict"}, 0},
    {"listed, could not write its end", s_listed_could_not_end, 0, {"records_lost"}, 0},
    {"the list is gone", s_list_is_gone, 0, {"writer_unknown"}, 0},
    {"a list of fewer parts", s_another_list, 0, {"writer_unknown"}, 0},
    {"listed, whole", s_listed_whole, 0, {NULL}, 0},
    {"listed, short", s_listed_short, 0, {"records_missing"}, 30},
    {"listed, never came", s_listed_never_came, 0, {"records_missing"}, 80},
    {"left", s_listed_left, 0, {NULL}, 0},
    {"left, never came", s_listed_left_never_came, 0, {"records_missing"}, 1},
    {"left, known by its uuid", s_listed_left_by_uuid, 0, {NULL}, 0},
    {"left, by its uuid nothing came",
     s_listed_left_by_uuid_never_came,
     0,
     {"worker_without_stream"},
     0},
    {"could not be asked", s_listed_unknown, 0, {"writer_unknown"}, 0},
    {"could not record", s_listed_silent, 0, {"worker_without_stream"}, 0},
    {"left, and its agent ended it", s_listed_killed, 0, {"writer_killed"}, 0},
    {"half a list", s_half_a_list, 0, {"writer_unknown"}, 0},
    {"listed, came late", s_listed_came_late, 0, {NULL}, 0},
    {"no list", s_told_without_list, 0, {"writer_unknown"}, 0},
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
    /* What they recorded may have been in the damage. */
    {"a worker of which a damaged journal has nothing",
     s_member,
     99,
     {"records_lost", "records_lost"},
     0},
    {"left, and a damaged journal has nothing of it",
     s_listed_left_by_uuid_never_came,
     99,
     {"records_lost", "records_lost"},
     0},
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
        must(sink_verdict_new(d.run, d.facts,
                              &(sink_damage_t){.bytes = c->damaged, .is_before_seal = true},
                              &verdict));
        const Crema__Reason *reasons;
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

/* A store that was put in place of another: all it was told is the verdict. */
static void
must_not_be_complete_without_any_stream(void **state)
{
    (void)state;
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_verdict_t *verdict;
    must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
    const Crema__Reason *reasons;
    assert_int_equal(sink_verdict_reasons(verdict, &reasons), 1);
    assert_string_equal(reasons[0].code, "agent_never_seen");
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
}

static void
must_say_that_the_budget_does_not_close(void **state)
{
    (void)state;
    const double residuals_s[] = {-1.63, -0.011, -0.009, 0, 0.009, 0.011};
    for (size_t i = 0; i < sizeof residuals_s / sizeof *residuals_s; i++) {
        const char *dir = scratch_dir("verdict");
        fixture_t *f = fixture_new(dir, 1);
        s_clean(f, fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0)));
        fixture_close(&f);
        decoded_t d;
        decoded_open(&d, dir);
        decoded_facts(&d);
        sink_verdict_t *verdict;
        must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
        const sink_budget_t budget = {.cap_s = 20, .residual_s = 20 * residuals_s[i]};
        must(sink_verdict_take_budget(verdict, &budget));
        const Crema__Reason *notes;
        const bool is_open = fabs(residuals_s[i]) > 0.01;
        assert_int_equal(sink_verdict_notes(verdict, &notes), is_open);
        if (is_open)
            assert_string_equal(notes[0].code, "budget_open");
        sink_verdict_destroy(&verdict);
        decoded_close(&d);
    }
}

/* A chunk of file `file` in the one stream; status as in /chunks. */
static void
s_chunk(fixture_stream_t *w, const char *file, int64_t chunk, int64_t key, int64_t status)
{
    int64_t dataset = fixture_name(w, CREMA_DICT_DATASET, "data");
    int64_t file_id = fixture_file(w, file, "uuid", dataset);
    fixture_row(w, CREMA_TABLE_CHUNKS);
    fixture_set(w, "t_start_ns", T(chunk));
    fixture_set(w, "t_end_ns", T(chunk + 1));
    fixture_set(w, "chunk_id", chunk);
    fixture_set(w, "task_key", key);
    fixture_set(w, "attempt_ref", chunk * 10 + status);
    fixture_set(w, "file_id", file_id);
    fixture_set(w, "entry_start", 0);
    fixture_set(w, "entry_stop", 40);
    fixture_set(w, "status", status);
    fixture_put(w, 0);
}

static bool s_has_no_end; /* the journal: records are missing */

static sink_verdict_t *
s_judge(const char *count, const char *reported, const char *exception, int cached, decoded_t *d)
{
    enum { OK = 0, ERROR = 1 };
    const char *keys[] = {count, exception ? "exception" : "run_label", NULL};
    const char *values[] = {reported, exception ? exception : "x", NULL};
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), keys, values, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    s_chunk(w, "good.root", 1, 0, OK);
    s_chunk(w, "mended.root", 2, 7, ERROR);
    s_chunk(w, "mended.root", 2, 7, OK);
    s_chunk(w, "bad.root", 3, 0, ERROR);
    s_chunk(w, "bad.root", 4, 0, ERROR);
    for (int i = 0; i < abs(cached); i++) {
        const char *name = cached < 0 ? "crema.tasks_again" : "crema.cached_chunks";
        int64_t metric = fixture_name(w, CREMA_DICT_METRIC, name);
        fixture_row(w, CREMA_TABLE_CUSTOM);
        fixture_set(w, "chunk_id", 7 + i); /* 7 is the task of a chunk */
        fixture_set(w, "t_ns", T(5));
        fixture_real(w, "value", 1);
        fixture_set(w, "metric_id", metric);
        fixture_put(w, 0);
    }
    if (!s_has_no_end)
        s_clean(f, w);
    fixture_close(&f);
    decoded_open(d, dir);
    decoded_facts(d);
    sink_verdict_t *verdict;
    must(sink_verdict_new(d->run, d->facts, &(sink_damage_t){0}, &verdict));
    return verdict;
}

static void
must_advise_about_checkpointers_only_where_no_records_are_missing(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        decoded_t d;
        const Crema__Reason *reasons;
        const char *text = NULL;
        s_has_no_end = cut == 1;
        sink_verdict_t *verdict = s_judge("coffea.chunks", "6", NULL, 0, &d);
        s_has_no_end = false;
        size_t n = sink_verdict_reasons(verdict, &reasons);
        for (size_t i = 0; i < n; i++)
            if (strcmp(reasons[i].code, "chunks_unseen") == 0)
                text = reasons[i].text;
        assert_non_null(text);
        assert_int_equal(strstr(text, "checkpointer=mc.checkpointer") != NULL, cut == 0);
        assert_int_equal(strstr(text, "records of this run are missing") != NULL, cut == 1);
        sink_verdict_destroy(&verdict);
        decoded_close(&d);
    }
}

static void
must_miss_chunks_that_coffea_counted(void **state)
{
    (void)state;
    const struct {
        const char *count, *reported;
        int cached;    /* -n: n tasks submitted again, one of them a chunk */
        uint64_t want; /* missing */
    } cases[] = {
        {"coffea.chunks", "4", 0, 0},           {"coffea.chunks", "6", 0, 2},
        {"coffea.chunks", "6", 2, 0},           {"coffea.chunks", "3", 0, 0},
        {"coffea.chunks", "many", 0, 0},        {"coffea.processed_chunks", "2", 0, 0},
        {"coffea.processed_chunks", "4", 0, 2}, {"coffea.processed_chunks", "4", 2, 0},
        {"coffea.chunks", "5", -2, 0},          {"coffea.processed_chunks", "4", -3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        decoded_t d;
        const Crema__Reason *reasons, *notes;
        sink_verdict_t *verdict =
            s_judge(cases[i].count, cases[i].reported, NULL, cases[i].cached, &d);
        assert_int_equal(sink_verdict_reasons(verdict, &reasons), cases[i].want > 0);
        assert_string_equal(sink_verdict_word(verdict), cases[i].want ? "PARTIAL" : "COMPLETE");
        if (cases[i].want) {
            assert_string_equal(reasons[0].code, "chunks_unseen");
            assert_int_equal(reasons[0].count, cases[i].want);
            char counts[64];
            snprintf(counts, sizeof counts, "%s chunks, of which %llu", cases[i].reported,
                     strtoull(cases[i].reported, NULL, 10) - (unsigned long long)cases[i].want);
            assert_non_null(strstr(reasons[0].text, counts));
        }
        size_t n = sink_verdict_notes(verdict, &notes);
        bool reused = false;
        for (size_t k = 0; k < n; k++)
            reused |= strcmp(notes[k].code, "result_reused") == 0 && notes[k].count == 1;
        assert_int_equal(reused, cases[i].cached < 0);
        sink_verdict_destroy(&verdict);
        decoded_close(&d);
    }
}

static void
must_name_input_that_was_dropped(void **state)
{
    (void)state;
    decoded_t d;
    const Crema__Reason *notes;
    sink_verdict_t *verdict = s_judge("coffea.chunks", "4", NULL, 0, &d);
    assert_string_equal(sink_verdict_word(verdict), "COMPLETE");
    assert_int_equal(sink_verdict_notes(verdict, &notes), 1);
    assert_string_equal(notes[0].code, "input_dropped");
    assert_string_equal(notes[0].subject, "bad.root");
    assert_int_equal(notes[0].count, 80);
    assert_true(crema_note(notes[0].code));
    assert_non_null(
        strstr(notes[0].text, "80 events of this file are not in the result: 2 of its chunks"));
    char *json;
    must(sink_verdict_json(verdict, SINK_VERDICT_ALL, 4096, &json));
    assert_non_null(strstr(json, "\"input_dropped\""));
    free(json);
    must(sink_verdict_json(verdict, SINK_VERDICT_REASONS, 4096, &json));
    assert_string_equal(json, "[]");
    free(json);
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
    verdict = s_judge("coffea.chunks", "4", "OSError: gone", 0,
                      &d); /* it raised: nobody went on without them */
    assert_int_equal(sink_verdict_notes(verdict, &notes), 0);
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
}

static void
must_note_columns_that_could_not_be_recorded(void **state)
{
    (void)state;
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    for (uint32_t i = 1; i <= 2; i++) { /* both workers name it: it is one note */
        char name[] = "tcp://A";
        name[6] = (char)('@' + i);
        fixture_stream_t *w = fixture_stream(f, i + 1, 1, CREMA_STREAM_WORKER, name, 1, T(0));
        (void)fixture_name(w, CREMA_DICT_METRIC, "crema.unavailable.worker_samples.managed_b");
        (void)fixture_name(w, CREMA_DICT_METRIC, "unavailable.of.the.user");
        s_end(w);
    }
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_verdict_t *verdict;
    const Crema__Reason *notes;
    must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
    assert_int_equal(sink_verdict_notes(verdict, &notes), 1);
    assert_string_equal(notes[0].code, "columns_unavailable");
    assert_string_equal(notes[0].subject, "worker_samples.managed_b");
    assert_true(crema_note(notes[0].code));
    assert_int_equal(sink_verdict_reasons(verdict, &notes), 0);
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
}

static void
must_note_attributes_that_were_refused(void **state)
{
    (void)state;
    const char *keys[] = {"format", "coffea.dropped_files", NULL};
    const char *values[] = {"NanoAODv9", "[\"root://a/b.root\", \"c.root\"]", NULL};
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), keys, values, NULL);
    s_clean(f, fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0)));
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_verdict_t *verdict;
    const Crema__Reason *notes;
    must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
    assert_string_equal(sink_verdict_word(verdict), "COMPLETE");
    assert_int_equal(sink_verdict_notes(verdict, &notes), 3);
    assert_string_equal(notes[0].code, "attribute_refused");
    assert_string_equal(notes[0].subject, "format");
    assert_string_equal(notes[1].code, "input_dropped");
    assert_string_equal(notes[1].subject, "root://a/b.root");
    assert_string_equal(notes[2].subject, "c.root");
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
}

/* Ten thousand writers in ten parts, of which one wrote more than is here. */
static void
must_find_the_one_of_ten_thousand(void **state)
{
    (void)state;
    enum { N = 10000, A_PART = 1000 };
    static Crema__Writer writers[A_PART];
    const char *dir = scratch_dir("verdict");
    fixture_t *f = fixture_new(dir, 1);
    fixture_open(f, T(0), NULL, NULL, NULL);
    fixture_stream_t *w = fixture_stream(f, 2, 1, CREMA_STREAM_WORKER, "tcp://A", 1, T(0));
    s_end(w);
    for (uint32_t i = 0; i < N; i++) {
        writers[i % A_PART] = s_writer(2, i == 7777 ? 80 : fixture_last(w), CREMA_WRITER_ENDED);
        if (i % A_PART == A_PART - 1)
            fixture_writers(f, i / A_PART, N / A_PART, writers, A_PART);
    }
    fixture_seal(f, T(10), NULL, 0);
    fixture_close(&f);
    decoded_t d;
    decoded_open(&d, dir);
    decoded_facts(&d);
    sink_verdict_t *verdict;
    must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
    const Crema__Reason *reasons;
    char text[128];
    assert_int_equal(sink_verdict_reasons(verdict, &reasons), 1);
    assert_string_equal(reasons[0].code, "records_missing");
    assert_int_equal(reasons[0].count, 80 - sink_decoder_stream(d.run, 0)->next_seq + 1);
    snprintf(text, sizeof text, "tcp://A wrote 80 records; the last %d of them are missing",
             (int)reasons[0].count);
    assert_string_equal(reasons[0].text, text);
    sink_verdict_destroy(&verdict);
    decoded_close(&d);
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
    must(sink_verdict_new(d.run, d.facts, &(sink_damage_t){0}, &verdict));
    const struct {
        size_t size;
        int want;
    } cases[] = {{1 << 20, 40}, {1000, 6}, {3, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json;
        int n = 0;
        bool said = false;
        must(sink_verdict_json(verdict, SINK_VERDICT_ALL, cases[i].size, &json));
        assert_true(strlen(json) < cases[i].size);
        assert_int_equal(json[strlen(json) - 1], ']');
        for (const char *at = crema_json_first(json); at; at = crema_json_after(at)) {
            char code[64];
            must(crema_json_get_text(crema_json_find(at, "code"), code, sizeof code));
            if (strcmp(code, "more") != 0) {
                assert_string_equal(code, "stream_not_closed");
                n++;
                continue;
            }
            int64_t more; /* the last one says how many are missing */
            must(crema_json_get_int(crema_json_find(at, "count"), &more));
            assert_int_equal(n + more, 40);
            assert_null(crema_json_after(at));
            said = true;
        }
        assert_true(said == (i == 1));
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
        cmocka_unit_test(must_not_be_complete_without_any_stream),
        cmocka_unit_test(must_say_that_the_budget_does_not_close),
        cmocka_unit_test(must_advise_about_checkpointers_only_where_no_records_are_missing),
        cmocka_unit_test(must_miss_chunks_that_coffea_counted),
        cmocka_unit_test(must_name_input_that_was_dropped),
        cmocka_unit_test(must_note_attributes_that_were_refused),
        cmocka_unit_test(must_note_columns_that_could_not_be_recorded),
        cmocka_unit_test(must_find_the_one_of_ten_thousand),
        cmocka_unit_test(must_write_reasons_as_json_that_is_cut_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
