/* sink_server: servers whose chunks wait longer, by requests and by bytes. */
#include "must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rows_fixture.h"
#include "sink_server.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)
enum { FILES = 12, EACH = 2, CHUNKS = FILES * EACH };

typedef struct {
    sink_facts_t facts;
    sink_chunk_t chunks[CHUNKS];
    sink_look_t looks[3];
    sink_tables_t *tables;
    uint8_t of_slow[CHUNKS];
} run_t;

static const char *const c_places[] = {"127.0.0.1:8001", "127.0.0.2:8002", "/eos"};

static void
s_add_tables(run_t *self, const char *const urls[2])
{
    must(sink_tables_new(scratch_dir("server"), &self->tables));
    for (size_t i = 0; i < sizeof c_places / sizeof *c_places; i++) {
        crema_dict_place_row_t row = {.id = (uint32_t)i};
        snprintf(row.name, sizeof row.name, "%s", c_places[i]);
        must(sink_tables_add(self->tables, CREMA_TABLE_DICT_PLACE, &row));
        self->looks[i] = (sink_look_t){.place = (uint32_t)i, .state = CREMA_LOOK_INPUT};
    }
    for (uint32_t i = 0; i < FILES; i++) {
        crema_dict_file_row_t row = {.id = i};
        snprintf(row.name, sizeof row.name, "%s/%u.root", urls[i % 2], i);
        must(sink_tables_add(self->tables, CREMA_TABLE_DICT_FILE, &row));
    }
    crema_dict_task_prefix_row_t prefix = {.side = CREMA_SIDE_PREPROCESS};
    must(sink_tables_add(self->tables, CREMA_TABLE_DICT_TASK_PREFIX, &prefix));
}

/* Every second file is on the second server, where each of 10 requests takes `ratio` x 0.1 s; it
 * is asked for `more` times as much. */
static void
s_fill(run_t *self, const char *const urls[2], double ratio, int more)
{
    *self = (run_t){0};
    s_add_tables(self, urls);
    for (size_t i = 0; i < CHUNKS; i++) {
        uint32_t file = (uint32_t)(i / EACH);
        int times = file % 2 ? more : 1;
        double s = (file % 2 ? ratio : 1) * times * (1 + 0.01 * (double)(i % 5));
        self->chunks[i] = (sink_chunk_t){.counted = true,
                                         .file = file,
                                         .open_s = 0.5 * s,
                                         .wall_s = 2,
                                         .n_requests = 10 * times,
                                         .bytes_read_b = 1000000 * times};
        self->chunks[i].wait_s[CREMA_LOOK_INPUT] = s;
        self->chunks[i].open_input_s = 0.5 * s;
    }
    self->facts = (sink_facts_t){
        .chunks = self->chunks, .n_chunks = CHUNKS, .looks = self->looks, .n_looks = 3};
}

static void
must_name_the_server_that_makes_chunks_wait(void **state)
{
    (void)state;
    const char *const urls[][2] = {
        {"http://127.0.0.1:8001/a", "root://me@127.0.0.2:8002//b"},
        {"http://127.0.0.1:8001/a", "simplecache::http://127.0.0.2:8002/a?token=@x"},
    };
    const struct {
        double ratio;
        int more;
        size_t n;
    } cases[] = {{1, 1, 0}, {3, 1, 1}, {1.3, 1, 0}, {1, 5, 0}, {3, 5, 1}};
    for (size_t u = 0; u < 2; u++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            run_t r;
            sink_slow_t slow;
            s_fill(&r, urls[u], cases[i].ratio, cases[i].more);
            r.looks[1].seconds = 30;
            must(sink_server_find(&r.facts, r.tables, r.of_slow, 7, &slow));
            assert_int_equal(slow.n, cases[i].n);
            for (size_t c = 0; c < CHUNKS; c++)
                assert_int_equal(r.of_slow[c], slow.n > 0 && c / EACH % 2 ? 7 : 0);
            if (slow.n > 0) {
                double waited_s = 0;
                for (size_t c = 0; c < CHUNKS; c++)
                    waited_s += c / EACH % 2 ? r.chunks[c].wait_s[CREMA_LOOK_INPUT] : 0;
                assert_int_equal(slow.worst, 1);
                assert_true(fabs(slow.ratio - 3) < 0.1);
                NEAR(slow.noncpu_s, waited_s * (1 - 1 / slow.ratio));
                NEAR(slow.preprocess_s, 30 * (1 - 1 / slow.ratio));
            }
            sink_tables_destroy(&r.tables);
        }
}

/* All files of a server are one: the file may be slow. And with one server there is nothing to
 * compare. */
static void
must_not_judge_a_server_by_one_file_or_alone(void **state)
{
    (void)state;
    const char *const urls[] = {"http://127.0.0.1:8001/a", "http://127.0.0.2:8002/b"};
    run_t r;
    sink_slow_t slow;
    s_fill(&r, urls, 3, 1);
    for (size_t i = 0; i < CHUNKS; i++)
        if (i / EACH % 2)
            r.chunks[i].file = 1;
    must(sink_server_find(&r.facts, r.tables, r.of_slow, 7, &slow));
    assert_int_equal(slow.n, 0);
    sink_tables_destroy(&r.tables);
    const char *const same[] = {urls[0], urls[0]};
    s_fill(&r, same, 3, 1);
    must(sink_server_find(&r.facts, r.tables, r.of_slow, 7, &slow));
    assert_int_equal(slow.n, 0);
    sink_tables_destroy(&r.tables);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_name_the_server_that_makes_chunks_wait),
        cmocka_unit_test(must_not_judge_a_server_by_one_file_or_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
