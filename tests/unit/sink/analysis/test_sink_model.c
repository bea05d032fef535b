/* sink_model: lines by dataset, and who is far off them. */
#include <math.h>
#include <stdlib.h>

#include "must.h"
#include "sink_attempt.h"
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

/* On ten threads, without the fixed cost of the last chunk. */
static double
s_makespan(const sink_dataset_model_t *d, const double *events, double x, double y)
{
    const double n[2] = {x, y};
    double s = 0, last_s = 0;
    for (int k = 0; k < 2; k++) {
        s += events[k] / 10 * (d[k].line.a / n[k] + d[k].line.b);
        last_s = d[k].line.b * n[k] > last_s ? d[k].line.b * n[k] : last_s;
    }
    return s + last_s;
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
            flagged += model->whole.score[i] > SINK_MODEL_STRAGGLER;
        assert_int_equal(flagged, 1);
        assert_true(model->whole.score[7] > SINK_MODEL_STRAGGLER);
        assert_true(isnan(model->whole.score[10]));
        assert_true(model->excess_s > 4 * model->whole.predicted_s[7] * 0.8);
        assert_int_equal(model->datasets[0].is_measured, one_size);
        if (one_size) { /* no line: opening took 0.2 s, process() 3.9 and 1.3 s of 1,000 events */
            assert_true(fabs(model->datasets[0].line.a - 0.2) < 1e-12);
            assert_true(fabs(model->datasets[0].line.b - 3.9e-3) < 1e-4);
            assert_true(fabs(model->datasets[1].line.b - 1.3e-3) < 1e-4);
            assert_true(isnan(model->datasets[0].line.b_lo));
            assert_true(model->datasets[0].n_opt_events > 0);
            assert_true(fabs(model->whole.predicted_s[7] - 1.5) < 0.05);
        } else {
            assert_true(fabs(model->datasets[0].line.b - 4e-3) < 2e-4);
            assert_true(fabs(model->datasets[1].line.a - 0.5) < 0.1);
            assert_true(fabs(model->datasets[0].memory.b - 50) < 1e-6);
            const sink_dataset_model_t *d = model->datasets;
            double events[2] = {0};
            for (int i = 0; i < N; i++)
                events[i % 2] += chunks[i].counted ? (double)chunks[i].n_events : 0;
            double work = 0;
            for (int k = 0; k < 2; k++)
                work += events[k] * d[k].line.a * d[k].line.b;
            for (int k = 0; k < 2; k++)
                assert_true(fabs(d[k].n_opt_events - sqrt(work / 10) / d[k].line.b) < 1e-6);
            /* No other pair of sizes ends earlier by the model. */
            const double best[2] = {d[0].n_opt_events, d[1].n_opt_events};
            for (int x = 5; x < 20; x++)
                for (int y = 5; y < 20; y++)
                    assert_true(s_makespan(d, events, best[0], best[1]) <=
                                s_makespan(d, events, x * 0.1 * best[0], y * 0.1 * best[1]) + 1e-9);
        }
        sink_model_destroy(&model);
        assert_null(model);
    }
}

/* Opening takes 1 to 9 s, process() 0.3 s, of one chunk 3.5 s: it stands out there alone. */
static void
must_judge_process_alone_too(void **state)
{
    (void)state;
    sink_chunk_t chunks[N];
    for (int i = 0; i < N; i++)
        chunks[i] = (sink_chunk_t){.n_events = 1000,
                                   .open_s = 1 + i * 37 % 41 * 0.2,
                                   .wall_s = i == 7 ? 3.5 : 0.3 + 0.002 * (i % 5),
                                   .counted = true};
    sink_facts_t facts = {.chunks = chunks, .n_chunks = N};
    sink_model_t *model;
    must(sink_model_new(&facts, 10, &model));
    for (int i = 0; i < N; i++) {
        assert_true(model->whole.score[i] < SINK_MODEL_STRAGGLER);
        assert_int_equal(model->process.score[i] > SINK_MODEL_STRAGGLER, i == 7);
        assert_true(fabs(model->process.predicted_s[i] - 0.304) < 0.005);
    }
    sink_model_destroy(&model);
}

/* Without times of their own for opening and process() nothing is known about sizes. */
static void
must_not_guess_what_opening_took(void **state)
{
    (void)state;
    for (int with_opening = 0; with_opening < 2; with_opening++) {
        sink_chunk_t chunks[N];
        s_fill(chunks, true);
        for (int i = 0; i < N; i++) {
            chunks[i].open_s = with_opening ? 0.2 : NAN;
            chunks[i].quality = with_opening ? SINK_QUALITY_WITH_OPENING : 0;
        }
        sink_facts_t facts = {.chunks = chunks, .n_chunks = N};
        sink_model_t *model;
        must(sink_model_new(&facts, 10, &model));
        assert_false(model->datasets[0].is_measured);
        assert_true(isnan(model->datasets[0].line.a) && isnan(model->datasets[0].line.b));
        assert_true(isnan(model->datasets[0].n_opt_events));
        sink_model_destroy(&model);
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
        cmocka_unit_test(must_judge_process_alone_too),
        cmocka_unit_test(must_not_guess_what_opening_took),
        cmocka_unit_test(must_do_without_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
