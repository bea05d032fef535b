/* The clock offset: right within its bound, whatever the network does. */
#include "must.h"

#include <math.h>
#include <stdlib.h>

#include "crema_offset.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

static crema_offset_t *s_offset;

static int
s_set_up(void **state)
{
    (void)state;
    must(crema_offset_new(&s_offset));
    return 0;
}

static int
s_tear_down(void **state)
{
    (void)state;
    crema_offset_destroy(&s_offset);
    assert_null(s_offset);
    crema_offset_destroy(&s_offset);
    return 0;
}

/* An exchange that begins at `at` here: ways of `out` and `back`, 1 ms over there, clock there
 * ahead by `ahead`. */
static crema_err_t
s_exchange(int64_t at, int64_t ahead, int64_t out, int64_t back)
{
    return crema_offset_take(s_offset, at, at + out + ahead, at + out + MS + ahead,
                             at + out + MS + back);
}

static crema_offset_estimate_t
s_estimate(int64_t now)
{
    crema_offset_estimate_t estimate;
    assert_true(crema_offset_estimate(s_offset, now, &estimate));
    return estimate;
}

static void
test_nothing_is_known_at_first(void **state)
{
    (void)state;
    crema_offset_estimate_t estimate;
    assert_false(crema_offset_estimate(s_offset, 0, &estimate));
    must(s_exchange(0, 5 * S, MS, MS));
    assert_true(crema_offset_estimate(s_offset, 3 * MS, &estimate));
    crema_offset_reset(s_offset);
    assert_false(crema_offset_estimate(s_offset, 3 * MS, &estimate));
}

static void
test_equal_ways_give_the_offset(void **state)
{
    (void)state;
    must(s_exchange(100 * S, -7 * S, 2 * MS, 2 * MS));
    crema_offset_estimate_t estimate = s_estimate(100 * S + 5 * MS);
    assert_int_equal(estimate.offset_ns, -7 * S);
    assert_int_equal(estimate.rtt_ns, 4 * MS);
    assert_in_range(estimate.uncertainty_ns, 2 * MS, 2 * MS + 2);
    assert_int_equal(estimate.samples, 1);
    assert_true(isnan(estimate.drift_ppb));
}

static void
test_unequal_ways_stay_within_the_bound(void **state)
{
    (void)state;
    must(s_exchange(0, S, 9 * MS, MS));
    crema_offset_estimate_t estimate = s_estimate(11 * MS);
    assert_int_equal(estimate.offset_ns, S + 4 * MS);
    assert_true(llabs(estimate.offset_ns - S) <= estimate.uncertainty_ns);
}

/* A way of 2 ms is good for 1 ms, and 10 s of age cost another: young samples with a longer way
 * win in the end. */
static void
test_age_counts(void **state)
{
    (void)state;
    must(s_exchange(0, S, MS, MS));
    must(s_exchange(9 * S, S + MS, 2 * MS, 2 * MS));
    assert_int_equal(s_estimate(9 * S + 5 * MS).rtt_ns, 2 * MS);
    assert_int_equal(s_estimate(11 * S).rtt_ns, 2 * MS);
    must(s_exchange(20 * S, S + MS, 3 * MS / 2, 3 * MS / 2));
    assert_int_equal(s_estimate(20 * S + 4 * MS).rtt_ns, 3 * MS);
    assert_in_range(s_estimate(30 * S).uncertainty_ns, 2 * MS + 499000, 2 * MS + 500002);
}

static void
test_samples_leave_the_window(void **state)
{
    (void)state;
    crema_offset_estimate_t estimate;
    must(s_exchange(0, S, MS, MS));
    must(s_exchange(30 * S, S, MS, MS));
    assert_int_equal(s_estimate(60 * S + 3 * MS).samples, 2);
    assert_int_equal(s_estimate(60 * S + 3 * MS + 1).samples, 1);
    assert_false(crema_offset_estimate(s_offset, 91 * S, &estimate));
}

static void
test_at_most_64_are_kept(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 200; i++)
        must(s_exchange(i * 100 * MS, S, MS, MS));
    assert_int_equal(s_estimate(20 * S).samples, CREMA_OFFSET_SAMPLES);
}

static void
test_drift_is_seen(void **state)
{
    (void)state;
    for (int64_t i = 0; i <= 30; i++)
        must(s_exchange(i * S, S + i * 50000, MS, MS)); /* 50 us a second */
    crema_offset_estimate_t estimate = s_estimate(30 * S + 3 * MS);
    assert_true(fabs(estimate.drift_ppb - 50000) < 1);
}

static void
test_stamps_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t t1, t2, t3, t4;
        crema_err_t want;
    } steps[] = {
        {10, 1000, 1001, 20, CREMA_OK},
        {10, 1000, 1001, 20, CREMA_EREPEAT},
        {11, 1000, 1001, 19, CREMA_EINVAL}, /* arrived before the last one */
        {30, 1000, 999, 40, CREMA_EINVAL},  /* answered before it was asked */
        {30, 1000, 1011, 40, CREMA_EINVAL}, /* longer over there than it was away */
        {30, 1000, 1010, 40, CREMA_OK},     /* no time on the way at all */
        {50, 1000, 1001, 45, CREMA_EINVAL},
        {INT64_MIN, INT64_MAX, INT64_MAX, 60, CREMA_EINVAL},
        {50, INT64_MAX, INT64_MAX, 60, CREMA_EINVAL},
        {50, 1000, 1001, INT64_MAX, CREMA_EINVAL},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        assert_int_equal(
            crema_offset_take(s_offset, steps[i].t1, steps[i].t2, steps[i].t3, steps[i].t4),
            steps[i].want);
    assert_int_equal(s_estimate(60).samples, 2);
}

static uint64_t
s_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* An hour of heartbeats over a bad network: each way 50 us and mostly little more, at times up to
 * 200 ms; the clock there runs up to 100 ppm off and changes its mind each minute. */
static void
test_the_bound_holds_on_a_bad_network(void **state)
{
    (void)state;
    uint64_t seed = 20260301;
    double ahead = 3.0 * (double)S, drift = 0;
    int64_t far_off = 0, asked = 0;
    for (int64_t i = 0; i < 3600; i++) {
        if (i % 60 == 0)
            drift = ((double)(s_random(&seed) % 200) - 100) * 1e-6;
        int64_t way[2];
        for (int k = 0; k < 2; k++) {
            way[k] = 50000 + (int64_t)(s_random(&seed) % 300000);
            if (s_random(&seed) % 10 == 0)
                way[k] += (int64_t)(s_random(&seed) % 200) * MS;
        }
        int64_t at = i * S;
        must(s_exchange(at, (int64_t)ahead, way[0], way[1]));
        int64_t now = at + way[0] + MS + way[1];
        crema_offset_estimate_t estimate = s_estimate(now);
        int64_t error = llabs(estimate.offset_ns - (int64_t)ahead);
        assert_true(error <= estimate.uncertainty_ns);
        asked++;
        far_off += error > MS;
        ahead += drift * (double)S;
    }
    assert_int_equal(asked, 3600);
    assert_true(far_off < 36); /* p99 within a millisecond */
}

int
main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, s_set_up, s_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_known_at_first),
        TEST(test_equal_ways_give_the_offset),
        TEST(test_unequal_ways_stay_within_the_bound),
        TEST(test_age_counts),
        TEST(test_samples_leave_the_window),
        TEST(test_at_most_64_are_kept),
        TEST(test_drift_is_seen),
        TEST(test_stamps_that_cannot_be_are_refused),
        TEST(test_the_bound_holds_on_a_bad_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
