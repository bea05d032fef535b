/* sink_grouped: rows of a group come together, in their order. */
#include "must.h"
#include "sink_grouped.h"

static void
must_bring_rows_of_a_group_together(void **state)
{
    (void)state;
    enum { N = 20000 };
    static sink_grouped_t all[N];
    static const uint32_t groups[] = {0, 7, UINT32_MAX};
    for (size_t i = 0; i < N; i++) /* also rows with numbers that are longer than usual */
        all[i] = (sink_grouped_t){groups[i * 7919 % 5 % 3], i % 4 ? i : SIZE_MAX / 2 - i};
    sink_grouped_sort(all, N);
    size_t n = 0;
    for (size_t i = 0, end; i < N; i = end, n++) {
        end = sink_grouped_end(all, N, i);
        for (size_t k = i; k < end; k++) {
            assert_int_equal(all[k].group, groups[n]);
            assert_true(k == i || all[k].row > all[k - 1].row);
        }
    }
    assert_int_equal(n, 3);
    sink_grouped_sort(all, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_bring_rows_of_a_group_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
