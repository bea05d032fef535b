/* sink_offset: whose clock is corrected, and by how much. */
#include "message_parts.h"
#include "must.h"
#include "row_cell.h"
#include "sink_offset.h"

#define MS 1000000LL

static const crema_id_t s_good = {{1}}, s_late = {{2}}, s_nobody = {{3}}, s_noisy = {{4}};

static crema_limits_t s_limits;

static void
s_add(sink_offset_t *self, const crema_id_t *agent, int64_t t, int64_t offset, int64_t uncertainty)
{
    Crema__ClockSample sample = {
        .agent_id = body_id(*agent), .t_ns = t, .offset_ns = offset, .uncertainty_ns = uncertainty};
    must(sink_offset_add(self, &sample));
}

static sink_offset_t *
s_make(void)
{
    sink_offset_t *self;
    s_limits = crema_limits();
    must(sink_offset_new(&s_limits, &self));
    s_add(self, &s_late, 2000 * MS, 300 * MS, 2 * MS);
    s_add(self, &s_good, 1000 * MS, MS, 2 * MS);
    s_add(self, &s_good, 3000 * MS, -MS, 2 * MS);
    s_add(self, &s_late, 1000 * MS, 100 * MS, MS);
    s_add(self, &s_late, 1500 * MS, 9999 * MS, 500 * MS); /* a bad measurement */
    s_add(self, &s_noisy, 1000 * MS, 80 * MS, 100 * MS);
    sink_offset_settle(self);
    return self;
}

static void
must_interpolate_between_good_samples(void **state)
{
    (void)state;
    sink_offset_t *self = s_make();
    const struct {
        int64_t t, want;
    } cases[] = {
        {0, 0}, /* unknown stays unknown */
        {500 * MS, 400 * MS},
        {1000 * MS, 900 * MS},
        {1500 * MS, 1300 * MS},
        {2000 * MS, 1700 * MS},
        {9000 * MS, 8700 * MS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sink_offset_correct(self, &s_late, cases[i].t), cases[i].want);
    assert_true(sink_offset_applies(self));
    sink_offset_destroy(&self);
    assert_null(self);
}

static void
must_leave_clocks_alone_that_are_right_within_what_is_known(void **state)
{
    (void)state;
    sink_offset_t *self = s_make();
    assert_int_equal(sink_offset_correct(self, &s_good, 1000 * MS), 1000 * MS);
    assert_int_equal(sink_offset_correct(self, &s_noisy, 1000 * MS), 1000 * MS);
    assert_int_equal(sink_offset_correct(self, &s_nobody, 1000 * MS), 1000 * MS);
    assert_true(sink_offset_known(self, &s_good));
    assert_false(sink_offset_known(self, &s_nobody));
    sink_offset_destroy(&self);
}

static void
must_correct_every_time_of_a_row_but_its_arrival(void **state)
{
    (void)state;
    const crema_table_t *t = crema_table(CREMA_TABLE_MEMBERSHIP);
    sink_offset_t *self = s_make();
    uint8_t row[CREMA_ROW_BYTES_MAX];
    crema_row_clear(t, row);
    cell_set(t, row, "t_ns", 1000 * MS);
    cell_set(t, row, "t_uncertainty_ns", 1000 * MS);
    cell_set(t, row, "t_recv_ns", 1000 * MS);
    sink_offset_correct_row(self, &s_late, t, row);
    assert_int_equal(cell_int(t, row, "t_ns"), 900 * MS);
    assert_int_equal(cell_int(t, row, "t_uncertainty_ns"), 1000 * MS);
    assert_int_equal(cell_int(t, row, "t_recv_ns"), 1000 * MS);
    const crema_table_t *c = crema_table(CREMA_TABLE_CHUNKS);
    crema_row_clear(c, row);
    cell_set(c, row, "t_start_ns", 1000 * MS);
    cell_set(c, row, "t_end_ns", 2000 * MS);
    cell_set(c, row, "task_key", 1000 * MS);
    sink_offset_correct_row(self, &s_late, c, row);
    assert_int_equal(cell_int(c, row, "t_start_ns"), 900 * MS);
    assert_int_equal(cell_int(c, row, "t_end_ns"), 1700 * MS);
    assert_int_equal(cell_int(c, row, "task_key"), 1000 * MS);
    sink_offset_destroy(&self);
}

/* A day of samples, each second, of a clock whose error grows with the square of time: what is
 * kept follows it evenly, whatever the number. */
static void
must_thin_many_samples_evenly(void **state)
{
    (void)state;
    enum { SAMPLES = 86400 };
    sink_offset_t *self;
    s_limits = crema_limits();
    must(sink_offset_new(&s_limits, &self));
    for (int64_t i = 1; i <= SAMPLES; i++)
        s_add(self, &s_late, i * 1000 * MS, i * i, i % 7 == 0 ? 10 : 15);
    sink_offset_settle(self);
    for (int64_t i = 1000; i < SAMPLES; i += 1000) {
        int64_t off = i * 1000 * MS - sink_offset_correct(self, &s_late, i * 1000 * MS);
        int64_t step = SAMPLES / (SINK_OFFSET_SAMPLES_MAX / 4); /* a quarter is left at least */
        assert_in_range(off, i * i - step * step, i * i + step * step);
    }
    assert_int_equal(s_limits.met[CREMA_LIMIT_AGENTS], 0);
    sink_offset_destroy(&self);
}

/* One that cannot be true would make arithmetic on times overflow. */
static void
must_ignore_samples_that_cannot_be(void **state)
{
    (void)state;
    const int64_t most = (int64_t)1 << 61;
    const struct {
        int64_t t, offset, uncertainty;
        bool known;
    } cases[] = {
        {-1, 0, 1, false},      {INT64_MAX, 0, 1, false}, {1, most, 1, false},
        {1, -most, 1, false},   {1, INT64_MIN, 1, false}, {1, 0, -1, false},
        {1, 0, most, false},    {1, most - 1, 1, true},   {1, 1 - most, 1, true},
        {1, 0, most - 1, true}, {1, 0, 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sink_offset_t *self;
        s_limits = crema_limits();
        must(sink_offset_new(&s_limits, &self));
        s_add(self, &s_late, cases[i].t, cases[i].offset, cases[i].uncertainty);
        sink_offset_settle(self);
        if (sink_offset_known(self, &s_late) != cases[i].known)
            fail_msg("case %zu", i);
        sink_offset_destroy(&self);
    }
}

static void
must_count_agents_beyond_the_limit_and_go_on_with_the_others(void **state)
{
    (void)state;
    sink_offset_t *self;
    s_limits = crema_limits();
    s_limits.limit[CREMA_LIMIT_AGENTS] = 1;
    must(sink_offset_new(&s_limits, &self));
    s_add(self, &s_late, 1000 * MS, 100 * MS, MS);
    s_add(self, &s_noisy, 1000 * MS, 80 * MS, MS);
    s_add(self, &s_late, 2000 * MS, 300 * MS, MS);
    sink_offset_settle(self);
    assert_int_equal(s_limits.met[CREMA_LIMIT_AGENTS], 1);
    assert_false(sink_offset_known(self, &s_noisy));
    assert_int_equal(sink_offset_correct(self, &s_late, 2000 * MS), 1700 * MS);
    sink_offset_destroy(&self);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_interpolate_between_good_samples),
        cmocka_unit_test(must_leave_clocks_alone_that_are_right_within_what_is_known),
        cmocka_unit_test(must_correct_every_time_of_a_row_but_its_arrival),
        cmocka_unit_test(must_thin_many_samples_evenly),
        cmocka_unit_test(must_ignore_samples_that_cannot_be),
        cmocka_unit_test(must_count_agents_beyond_the_limit_and_go_on_with_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
