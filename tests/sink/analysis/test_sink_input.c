/* sink_input: chunks that failed while the analysis went on, by file in whatever order they came. */
#include "must.h"

#include <stdlib.h>

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
    sink_dropped_t *dropped;
    int64_t seen;
    size_t n;
    must(sink_decoder_new(s_on_rows, NULL, &run));
    must(sink_input_new(&facts, run, &seen, &dropped, &n));
    assert_int_equal(seen, 7 + 3);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(dropped[i].file, want[i].file);
        assert_int_equal(dropped[i].chunks, want[i].chunks);
        assert_int_equal(dropped[i].events, want[i].events);
    }
    free(dropped);
    sink_decoder_destroy(&run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_count_what_was_dropped_by_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
