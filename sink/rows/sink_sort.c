#include "sink_sort.h"

#include <stdint.h>
#include <string.h>

/* Below this length insertion is faster. */
#define SHORT 12

typedef int (*compare_t)(const void *, const void *);

static void
s_swap(uint8_t *a, uint8_t *b, size_t size)
{
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
        uint64_t left, right;
        memcpy(&left, a, sizeof left);
        memcpy(&right, b, sizeof right);
        memcpy(a, &right, sizeof right);
        memcpy(b, &left, sizeof left);
        a += sizeof left;
        b += sizeof left;
    }
    for (; size > 0; size--) {
        uint8_t byte = *a;
        *a++ = *b;
        *b++ = byte;
    }
}

static void
s_insert(uint8_t *base, size_t n, size_t size, compare_t compare)
{
    for (size_t i = 1; i < n; i++)
        for (uint8_t *at = base + i * size; at > base && compare(at - size, at) > 0; at -= size)
            s_swap(at - size, at, size);
}

/* ---- where partitions stay uneven: heap sort */

static void
s_sink_down(uint8_t *base, size_t at, size_t n, size_t size, compare_t compare)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(base + child * size, base + (child + 1) * size) < 0)
            child++;
        if (compare(base + at * size, base + child * size) >= 0)
            return;
        s_swap(base + at * size, base + child * size, size);
    }
}

static void
s_heap(uint8_t *base, size_t n, size_t size, compare_t compare)
{
    for (size_t i = n / 2; i > 0; i--)
        s_sink_down(base, i - 1, n, size, compare);
    for (size_t left = n; left > 1; left--) {
        s_swap(base, base + (left - 1) * size, size);
        s_sink_down(base, 0, left - 1, size, compare);
    }
}

/* ---- partitions */

/* Moves the median of first, middle and last to the front. */
static void
s_choose(uint8_t *base, size_t n, size_t size, compare_t compare)
{
    uint8_t *middle = base + n / 2 * size, *last = base + (n - 1) * size;
    if (compare(middle, last) > 0)
        s_swap(middle, last, size);
    if (compare(base, last) > 0)
        s_swap(base, last, size);
    if (compare(base, middle) < 0)
        s_swap(base, middle, size);
}

/* Returns the final place of the element at the front; none before it is greater, none behind
 * it less. Stops at equal elements, so that many of them are divided evenly. */
static size_t
s_part(uint8_t *base, size_t n, size_t size, compare_t compare)
{
    uint8_t *left = base, *right = base + n * size, *end = right;
    for (;;) {
        do
            left += size;
        while (left < end && compare(left, base) < 0);
        do
            right -= size;
        while (compare(right, base) > 0);
        if (left >= right)
            break;
        s_swap(left, right, size);
    }
    s_swap(base, right, size);
    return (size_t)(right - base) / size;
}

static void
s_sort(uint8_t *base, size_t n, size_t size, compare_t compare, unsigned depth)
{
    while (n > SHORT) {
        if (depth-- == 0) {
            s_heap(base, n, size, compare);
            return;
        }
        s_choose(base, n, size, compare);
        size_t at = s_part(base, n, size, compare), behind = n - at - 1;
        uint8_t *second = base + (at + 1) * size;
        if (at < behind) { /* the longer part continues here: the stack stays short */
            s_sort(base, at, size, compare, depth);
            base = second;
            n = behind;
        } else {
            s_sort(second, behind, size, compare, depth);
            n = at;
        }
    }
    s_insert(base, n, size, compare);
}

static unsigned
s_depth(size_t n)
{
    unsigned bits = 0;
    for (; n > 0; n >>= 1)
        bits++;
    return 2 * bits;
}

void
sink_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    if (n > 1)
        s_sort(base, n, size, compare, s_depth(n));
}

/* ---- reals, the same without calls */

static int
s_ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void
s_exchange(double *a, double *b)
{
    double value = *a;
    *a = *b;
    *b = value;
}

static double *
s_part_reals(double *values, size_t n)
{
    double *left = values, *right = values + n, *end = right, *middle = values + n / 2;
    if (*middle > end[-1])
        s_exchange(middle, end - 1);
    if (*values > end[-1])
        s_exchange(values, end - 1);
    if (*values < *middle)
        s_exchange(values, middle);
    const double pivot = *values;
    for (;;) {
        do
            left++;
        while (left < end && *left < pivot);
        do
            right--;
        while (*right > pivot);
        if (left >= right)
            break;
        s_exchange(left, right);
    }
    s_exchange(values, right);
    return right;
}

static void
s_sort_reals(double *values, size_t n, unsigned depth)
{
    while (n > SHORT) {
        if (depth-- == 0) {
            s_heap((uint8_t *)values, n, sizeof *values, s_ascending);
            return;
        }
        double *at = s_part_reals(values, n);
        size_t before = (size_t)(at - values), behind = n - before - 1;
        if (before < behind) {
            s_sort_reals(values, before, depth);
            values = at + 1;
            n = behind;
        } else {
            s_sort_reals(at + 1, behind, depth);
            n = before;
        }
    }
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && values[k - 1] > values[k]; k--)
            s_exchange(&values[k - 1], &values[k]);
}

void
sink_sort_reals(double *values, size_t n)
{
    if (n > 1)
        s_sort_reals(values, n, s_depth(n));
}
