/* sink_sort: the order of qsort(), in n log n whatever the input. sink_scratch: arrays on the heap
 * and in a file. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"
#include "rows_fixture.h"
#include "sink_scratch.h"
#include "sink_sort.h"

enum { N = 20000 };

typedef struct {
    int32_t key;
    char rest[23]; /* no multiple of a word */
} item_t;

static uint64_t s_compared;

static int
s_by_key(const void *a, const void *b)
{
    const item_t *left = a, *right = b;
    s_compared++;
    return (left->key > right->key) - (left->key < right->key);
}

static int
s_by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static uint32_t
s_random(uint32_t *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

/* The shapes that make a careless sort slow. */
static int32_t
s_key(int shape, int32_t i, uint32_t *state)
{
    switch (shape) {
    case 0:
        return (int32_t)(s_random(state) >> 1);
    case 1:
        return i;
    case 2:
        return -i;
    case 3:
        return 7;
    case 4:
        return (int32_t)(s_random(state) >> 30);
    case 5:
        return i < N / 2 ? i : N - i; /* up and down */
    case 6:
        return i % 2 ? i : -i;
    default:
        return i % 137;
    }
}

static void
must_order_like_the_library(void **state)
{
    (void)state;
    static item_t ours[N], theirs[N];
    uint32_t random = 1;
    for (int shape = 0; shape < 8; shape++)
        for (size_t n = 0; n <= N; n = n < 40 ? n + 1 : n * 7 + 3) {
            size_t most = n < N ? n : N;
            for (size_t i = 0; i < most; i++) {
                ours[i].key = s_key(shape, (int32_t)i, &random);
                memset(ours[i].rest, ours[i].key & 0x7f, sizeof ours[i].rest);
            }
            memcpy(theirs, ours, most * sizeof *ours);
            s_compared = 0;
            sink_sort(ours, most, sizeof *ours, s_by_key);
            double levels = most > 1 ? log2((double)most) : 1;
            if ((double)s_compared > 60 + 4 * (double)most * levels)
                fail_msg("shape %d: %zu items, %llu comparisons", shape, most,
                         (unsigned long long)s_compared);
            qsort(theirs, most, sizeof *theirs, s_by_key);
            for (size_t i = 0; i < most; i++)
                if (ours[i].key != theirs[i].key || ours[i].rest[22] != (ours[i].key & 0x7f))
                    fail_msg("shape %d: item %zu of %zu", shape, i, most);
        }
}

static void
must_order_reals(void **state)
{
    (void)state;
    static double ours[N], theirs[N];
    uint32_t random = 5;
    for (int shape = 0; shape < 8; shape++) {
        for (int32_t i = 0; i < N; i++)
            ours[i] = theirs[i] = s_key(shape, i, &random) * 0.37;
        ours[17] = theirs[17] = -INFINITY;
        sink_sort_reals(ours, N);
        qsort(theirs, N, sizeof *theirs, s_by_value);
        assert_memory_equal(ours, theirs, sizeof ours);
        for (size_t k = 0; k < N; k += 1999) {
            for (int32_t i = 0; i < N; i++)
                ours[i] = theirs[(i * 7919 + 3) % N]; /* 7919 and N have no common divisor */
            sink_select_real(ours, N, k);
            assert_true(ours[k] >= theirs[k] && ours[k] <= theirs[k]);
        }
    }
}

typedef struct {
    int64_t lead;
    uint64_t rest;
} led_t;

static int
s_by_lead(const void *a, const void *b)
{
    const led_t *left = a, *right = b;
    if (left->lead != right->lead)
        return left->lead < right->lead ? -1 : 1;
    return (left->rest > right->rest) - (left->rest < right->rest);
}

/* On one core and on two, in a narrow range and in all of it. */
static void
must_order_by_leading_integers(void **state)
{
    (void)state;
    enum { MANY = 150000 };
    static const size_t counts[] = {0, 1, 2, 33, 70, 300, N, MANY};
    led_t *ours = malloc(MANY * sizeof *ours), *theirs = malloc(MANY * sizeof *theirs);
    uint32_t random = 3;
    assert_non_null(ours);
    assert_non_null(theirs);
    for (int shape = 0; shape < 11; shape++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const size_t n = counts[c];
            for (size_t i = 0; i < n; i++) {
                int64_t lead = shape < 8 ? s_key(shape, (int32_t)i, &random)
                                         : (int64_t)((uint64_t)s_random(&random) << 32);
                if (shape == 9 && i % 3 == 0)
                    lead = i % 2 ? INT64_MIN : INT64_MAX;
                if (shape == 10) /* most of them close together, whatever the range */
                    lead = (int64_t)(UINT64_MAX >> s_random(&random) / 0x4000000);
                ours[i] = (led_t){lead, s_random(&random)};
            }
            if (n > 0)
                memcpy(theirs, ours, n * sizeof *ours);
            sink_sort_by_int64(ours, n, sizeof *ours, s_by_lead);
            qsort(theirs, n, sizeof *theirs, s_by_lead);
            if (n > 0)
                assert_memory_equal(ours, theirs, n * sizeof *ours);
        }
    free(ours);
    free(theirs);
}

/* An input on which the median of three is always a bad choice (Musser 1997). */
static void
must_not_become_quadratic(void **state)
{
    (void)state;
    static item_t items[N];
    const int32_t half = N / 2;
    for (int32_t i = 0; i < half; i++) {
        items[i].key = i % 2 ? half + i - i % 2 : i + 1;
        items[half + i].key = 2 * (i + 1);
    }
    s_compared = 0;
    sink_sort(items, N, sizeof *items, s_by_key);
    for (size_t i = 1; i < N; i++)
        assert_true(items[i - 1].key <= items[i].key);
    assert_true((double)s_compared < 6 * N * log2(N));
}

static void
must_keep_arrays_in_files_that_are_gone(void **state)
{
    (void)state;
    const char *dir = scratch_dir("scratch");
    assert_int_equal(mkdir(dir, 0700), 0);
    crema_err_t err = CREMA_OK;
    size_t n = SINK_SCRATCH_MEMORY / 8 + 1000;
    int64_t *small = sink_scratch(dir, 10, sizeof *small, &err);
    int64_t *large = sink_scratch(dir, n, sizeof *large, &err);
    int64_t *heap = sink_scratch(NULL, n, sizeof *heap, &err);
    assert_int_equal(err, CREMA_OK);
    assert_int_equal(rmdir(dir), 0); /* nothing is in it */
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(large[i] | heap[i] | small[i % 10], 0);
        large[i] = (int64_t)i;
    }
    assert_int_equal(large[n - 1], n - 1);
    assert_int_equal((uintptr_t)large % 64, 0);
    sink_scratch_free(small);
    sink_scratch_free(large);
    sink_scratch_free(heap);
    sink_scratch_free(NULL);
    assert_null(sink_scratch(dir, n, sizeof *large, &err));
    assert_int_equal(err, CREMA_ENOENT);
    assert_null(sink_scratch(NULL, 1, 1, &err)); /* after an error */
    err = CREMA_OK;
    assert_null(sink_scratch(NULL, SIZE_MAX / 2, 4, &err));
    assert_int_equal(err, CREMA_ENOMEM);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_order_like_the_library),
        cmocka_unit_test(must_order_reals),
        cmocka_unit_test(must_order_by_leading_integers),
        cmocka_unit_test(must_not_become_quadratic),
        cmocka_unit_test(must_keep_arrays_in_files_that_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
