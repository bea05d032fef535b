/* sink_input: chunks that failed while the analysis went on, by file in whatever order they
 * came. */
#include "journal_fixture.h"
#include "must.h"
#include "rows_fixture.h"
#include "sink_attempt.h"
#include "sink_input.h"

static crema_err_t
s_on_rows(void *context, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    (void)context;
    (void)table;
    (void)rows;
    (void)n;
    return CREMA_OK;
}

static sink_chunk_t
s_chunk(uint32_t id, uint32_t file, uint8_t status)
{
    return (sink_chunk_t){.chunk_id = id,
                          .file = file,
                          .status = status,
                          .n_entries = 10 * (id + 1),
                          .counted = status == CREMA_CHUNK_OK};
}

static void
must_count_what_was_dropped_by_file(void **state)
{
    (void)state;
    sink_chunk_t chunks[] = {
        s_chunk(0, 2, CREMA_CHUNK_ERROR), s_chunk(1, 0, CREMA_CHUNK_ERROR),
        s_chunk(2, 2, CREMA_CHUNK_ERROR), s_chunk(3, 0, CREMA_CHUNK_ERROR),
        s_chunk(4, 1, CREMA_CHUNK_OK),    s_chunk(5, 1, CREMA_CHUNK_ERROR),
        s_chunk(5, 1, CREMA_CHUNK_OK), /* tried again */
        s_chunk(6, 2, CREMA_CHUNK_ERROR),
    };
    const sink_facts_t facts = {
        .chunks = chunks, .n_chunks = sizeof chunks / sizeof *chunks, .n_cached = 3};
    static const sink_dropped_t want[] = {{0, 2, 20 + 40}, {2, 3, 10 + 30 + 70}};
    sink_decoder_t *run;
    sink_input_t input;
    must(sink_decoder_new(s_on_rows, NULL, &run));
    must(sink_input_take(&input, &facts, run));
    assert_int_equal(input.reported, -1);
    assert_int_equal(input.recorded, 2 + 3); /* returned, or cached */
    assert_int_equal(input.n_dropped, 2);
    for (size_t i = 0; i < input.n_dropped; i++) {
        assert_int_equal(input.dropped[i].file, want[i].file);
        assert_int_equal(input.dropped[i].chunks, want[i].chunks);
        assert_int_equal(input.dropped[i].events, want[i].events);
    }
    sink_input_clear(&input);
    sink_decoder_destroy(&run);
}

/* Chunk `id` that began `t_s` seconds after the run. */
static sink_chunk_t
s_began(uint32_t id, uint16_t pass, int64_t task_key, uint8_t status, int t_s)
{
    sink_chunk_t chunk = s_chunk(id, 0, status);
    chunk.pass = pass;
    chunk.task_key = task_key;
    chunk.t_start_ns = FIXTURE_T0 + (int64_t)t_s * 1000000000;
    return chunk;
}

/* Of two calls with the same input, a result that Dask kept counts twice, as one that it computed
 * again does. */
static void
must_count_results_that_were_used_again(void **state)
{
    (void)state;
    enum { OK = CREMA_CHUNK_OK };
    sink_chunk_t chunks[] = {
        s_began(1, 1, 71, OK, 1), s_began(2, 1, 72, OK, 1), s_began(2, 2, 72, OK, 5),
        s_began(3, 1, 0, OK, 2),  s_began(4, 1, 73, OK, 2),
    };
    int64_t again[] = {71, 71, 72, 99};
    const sink_facts_t facts = {.chunks = chunks,
                                .n_chunks = sizeof chunks / sizeof *chunks,
                                .again = again,
                                .n_again = sizeof again / sizeof *again};
    sink_decoder_t *run;
    sink_input_t input;
    must(sink_decoder_new(s_on_rows, NULL, &run));
    must(sink_input_take(&input, &facts, run));
    assert_int_equal(input.reused, 2);
    assert_int_equal(input.recorded, 5 + 2);
    sink_input_clear(&input);
    sink_decoder_destroy(&run);
}

/* A call from second 1 on fails after chunks 1 to 4, the next one, at second 3, has 1, 2 and 5. */
static void
must_not_take_chunks_of_a_failed_call_for_those_of_another(void **state)
{
    (void)state;
    enum { OK = CREMA_CHUNK_OK, ERROR = CREMA_CHUNK_ERROR };
    sink_chunk_t chunks[] = {
        s_began(1, 1, 0, OK, 1),  s_began(2, 1, 71, OK, 1), s_began(3, 1, 0, OK, 2),
        s_began(4, 1, 72, OK, 2), s_began(1, 2, 0, OK, 3),  s_began(2, 2, 73, ERROR, 4),
        s_began(5, 1, 0, OK, 4),
    };
    const sink_facts_t facts = {.chunks = chunks, .n_chunks = sizeof chunks / sizeof *chunks};
    static const struct {
        const char *spans, *stepped, *count;
        int64_t recorded;
    } cases[] = {
        /* of the failed call only 4 counts: Dask may have kept its result */
        {"[1000000000, 3000000000]", NULL, "coffea.chunks", 4},
        {"[1000000000, 3000000000]", NULL, "coffea.processed_chunks", 3},
        {"[1000000000, 2000000000, 2000000000, 3000000000]", NULL, "coffea.chunks", 4},
        {"[1000000000, 3000000000]", "-7200.0", "coffea.chunks", 7},
        {"[1000000000]", NULL, "coffea.chunks", 7},
        {"[3000000000, 1000000000]", NULL, "coffea.chunks", 7},
        {"[\"a\", null]", NULL, "coffea.chunks", 7},
        {"what a user wrote", NULL, "coffea.chunks", 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *keys[] = {cases[i].count, "coffea.without_result_ns",
                              cases[i].stepped ? "clock_stepped_s" : "run_label", NULL};
        const char *values[] = {"10", cases[i].spans, cases[i].stepped ? cases[i].stepped : "x",
                                NULL};
        const char *dir = scratch_dir("input");
        fixture_t *f = fixture_new(dir, 1);
        fixture_open(f, FIXTURE_T0, keys, values, NULL);
        fixture_close(&f);
        decoded_t d;
        sink_input_t input;
        decoded_open(&d, dir);
        must(sink_input_take(&input, &facts, d.run));
        assert_int_equal(input.reported, 10);
        if (input.recorded != cases[i].recorded)
            fail_msg("%s: %lld chunks", cases[i].spans, (long long)input.recorded);
        sink_input_clear(&input);
        decoded_close(&d);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_count_what_was_dropped_by_file),
        cmocka_unit_test(must_count_results_that_were_used_again),
        cmocka_unit_test(must_not_take_chunks_of_a_failed_call_for_those_of_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
