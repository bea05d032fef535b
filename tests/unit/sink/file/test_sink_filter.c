/* sink_filter: a chunk as HDF5's filters shuffle and deflate have it, whatever the length of a
 * row. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "must.h"
#include "sink_filter.h"

#define ROWS 64

/* Byte k of row i is at k * ROWS + i; rows that are missing are zeros. */
static void
s_must_be_shuffled(const uint8_t *plain, const uint8_t *rows, size_t row_bytes, size_t n)
{
    for (size_t k = 0; k < row_bytes; k++)
        for (size_t i = 0; i < ROWS; i++)
            assert_int_equal(plain[k * ROWS + i], i < n ? rows[i * row_bytes + k] : 0);
}

static void
must_shuffle_and_deflate(void **state)
{
    (void)state;
    static const size_t counts[] = {ROWS, ROWS - 1, 9, 8, 1};
    uint8_t rows[ROWS * 40];
    for (size_t i = 0; i < sizeof rows; i++)
        rows[i] = (uint8_t)(1 + i * i % 251);
    for (size_t row_bytes = 1; row_bytes <= 40; row_bytes++) {
        sink_filter_t *filter;
        must(sink_filter_new(row_bytes, ROWS, &filter));
        uint8_t *packed = malloc(sink_filter_bound(filter)), *plain = malloc(ROWS * row_bytes);
        assert_non_null(packed);
        assert_non_null(plain);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const size_t n = counts[c], bytes = sink_filter_pack(filter, rows, n, packed);
            uLongf size = ROWS * row_bytes;
            assert_int_equal(uncompress(plain, &size, packed, bytes), Z_OK);
            assert_int_equal(size, ROWS * row_bytes);
            s_must_be_shuffled(plain, rows, row_bytes, n);
            assert_true(sink_filter_holds(filter, packed, bytes, rows, n));
            assert_false(sink_filter_holds(filter, packed, bytes - 1, rows, n));
            assert_false(sink_filter_holds(filter, packed, bytes, rows, n - 1));
            packed[bytes - 1] ^= 1; /* of the checksum */
            assert_false(sink_filter_holds(filter, packed, bytes, rows, n));
        }
        free(packed);
        free(plain);
        sink_filter_destroy(&filter);
        assert_null(filter);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(must_shuffle_and_deflate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
