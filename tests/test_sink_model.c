/* sink_model: lines by dataset, and who is far off them. */
#include <math.h>
#include <stdlib.h>

#include "must.h"
#include "sink_model.h"

#define N 60

/* Chunks of two datasets; `noise` makes them differ a little. */
static void
s_fill(sink_chunk_t *chunks, bool one_size)
{
    for (int i = 0; i < N; i++) {
        double events = one_size ? 1000 : 500 + 100 * (i / 2 % 10);
        double a = i % 2 ? 0.5 : 0.1, b = i % 2 ? 1e-3 : 4e-3;
        double noise = 1 + 0.01 * ((i * 7 % 11) - 5);
        chunks[i] = (sink_chunk_t){.dataset = (uint32_t)(i % 2),
                                   .n_events = (int64_t)events,
                                   .open_s = 0.2,
                                   .wall_s = (a + b * events) * noise - 0.2,
                                   .rss_peak_b = 1000000 + (int64_t)(50 * events),
                                   .counted = true};
    }
    chunks[7].wall_s *= 5;
    chunks[10].counted = false; /* not ok: takes no part */
    chunks[10].wall_s *= 50;
}

static void
must_fit_each_dataset_and_find_the_straggler(void **state)
{
    (void)state;
    for (int one_size = 0; one_size < 2; one_size++) {
        sink_chunk_t chunks[N];
        sink_facts_t facts = {.chunks = chunks, .n_chunks = N};
        sink_model_t *model;
        s_fill(chunks, one_size);
        must(sink_model_new(&facts, 10, &model));
        assert_int_equal(model->n_datasets, 2);
        int flagged = 0;
        for (int i = 0; i < N; i++)
            flagged += model->score[i] > SINK_MODEL_STRAGGLER;
        assert_int_equal(flagged, 1);
        assert_true(model->score[7] > SINK_MODEL_STRAGGLER);
        assert_true(isnan(model->score[10]));
        assert_true(model->excess_s > 4 * model->predicted_s[7] * 0.8);
        if (one_size) { /* no line, and so no best size */
            assert_true(isnan(model->datasets[0].line.b));
            assert_true(isnan(model->datasets[0].n_opt_events));
            assert_true(fabs(model->predicted_s[7] - 1.5) < 0.05);
        } else {
            assert_true(fabs(model->datasets[0].line.b - 4e-3) < 2e-4);
            assert_true(fabs(model->datasets[1].line.a - 0.5) < 0.1);
            assert_true(fabs(model->datasets[0].memory.b - 50) < 1e-6);
            double events = 0;
            for (int i = 0; i < N; i += 2)
                events += chunks[i].counted ? (double)chunks[i].n_events : 0;
            double want =
                sqrt(events * model->datasets[0].line.a / (10 * model->datasets[0].line.b));
            assert_true(fabs(model->datasets[0].n_opt_events - want) < 1e-6);
        }
        sink_model_destroy(&model);
        assert_null(model);
    }
}

static void
must_do_without_chunks(void **state)
{
    (void)state;
    sink_facts_t facts = {0};
    sink_model_t *model;
    must(sink_model_new(&facts, 0, &model));
    assert_int_equal(model->n_datasets, 0);
    assert_true(isnan(model->memory.b));
    sink_model_destroy(&model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_fit_each_dataset_and_find_the_straggler),
        cmocka_unit_test(must_do_without_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
