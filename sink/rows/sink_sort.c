#include "sink_sort.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sink_both.h"

/* Below SHORT insertion is faster; from MANY on the pivot is worth more comparisons, from LONG on
 * a second thread is worth its start. */
#define SHORT 12
#define MANY 128
#define LONG ((size_t)1 << 16)

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

static uint8_t *
s_median(uint8_t *a, uint8_t *b, uint8_t *c, compare_t compare)
{
    if (compare(a, b) < 0)
        return compare(b, c) < 0 ? b : compare(a, c) < 0 ? c : a;
    return compare(a, c) < 0 ? a : compare(b, c) < 0 ? c : b;
}

/* Moves the median of three elements, or the median of three such medians, to the front. */
static void
s_choose(uint8_t *base, size_t n, size_t size, compare_t compare)
{
    uint8_t *first = base, *middle = base + n / 2 * size, *last = base + (n - 1) * size;
    if (n >= MANY) {
        size_t step = n / 8 * size;
        first = s_median(first, first + step, first + 2 * step, compare);
        middle = s_median(middle - step, middle, middle + step, compare);
        last = s_median(last - 2 * step, last - step, last, compare);
    }
    uint8_t *median = s_median(first, middle, last, compare);
    if (median != base)
        s_swap(base, median, size);
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

typedef struct {
    uint8_t *base;
    size_t n, size;
    compare_t compare;
} part_t;

static void
s_sort_part(void *context)
{
    const part_t *part = context;
    s_sort(part->base, part->n, part->size, part->compare, s_depth(part->n));
}

void
sink_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    part_t all = {base, n, size, compare};
    if (n < LONG) {
        s_sort_part(&all);
        return;
    }
    s_choose(base, n, size, compare);
    size_t at = s_part(base, n, size, compare);
    part_t left = {base, at, size, compare};
    part_t right = {left.base + (at + 1) * size, n - at - 1, size, compare};
    sink_both(s_sort_part, &left, s_sort_part, &right);
}

/* ---- by leading integers: each level divides their range into buckets, of few elements each if
 * the integers are spread evenly */

#define BUCKETS 256
#define FEW 32 /* from here on comparisons are as fast */

static size_t
s_buckets(size_t n)
{
    size_t buckets = BUCKETS;
    while (buckets > n / 2)
        buckets /= 2;
    return buckets;
}

/* Order of the integers as that of unsigned ones. */
static uint64_t
s_lead(const uint8_t *element)
{
    uint64_t lead;
    memcpy(&lead, element, sizeof lead);
    return lead ^ (uint64_t)1 << 63;
}

/* Finds the least integer, and the shift that leaves a number of a bucket of the rest; false if
 * all are the same. */
static bool
s_range(const part_t *part, uint64_t *ret_least, unsigned *ret_shift)
{
    uint64_t least = s_lead(part->base), most = least;
    for (size_t i = 1; i < part->n; i++) {
        uint64_t lead = s_lead(part->base + i * part->size);
        least = lead < least ? lead : least;
        most = lead > most ? lead : most;
    }
    *ret_least = least;
    *ret_shift = 0;
    while ((most - least) >> *ret_shift >= s_buckets(part->n))
        ++*ret_shift;
    return most > least;
}

/* Moves each element to its bucket, along the cycles; bucket b ends before ends[b]. Returns the
 * number of buckets. */
static size_t
s_distribute(const part_t *part, uint64_t least, unsigned shift, size_t ends[BUCKETS])
{
    const size_t buckets = s_buckets(part->n);
    size_t at[BUCKETS], n = 0;
    memset(at, 0, buckets * sizeof *at);
    for (size_t i = 0; i < part->n; i++)
        at[(s_lead(part->base + i * part->size) - least) >> shift]++;
    for (size_t b = 0; b < buckets; b++) {
        ends[b] = n + at[b];
        at[b] = n;
        n = ends[b];
    }
    for (size_t b = 0; b < buckets; b++)
        while (at[b] < ends[b]) {
            uint8_t *element = part->base + at[b] * part->size;
            size_t bucket = (s_lead(element) - least) >> shift;
            if (bucket != b)
                s_swap(element, part->base + at[bucket] * part->size, part->size);
            at[bucket]++;
        }
    return buckets;
}

/* Buckets, one behind the other. */
typedef struct {
    const part_t *all;
    const size_t *ends;
    size_t first, behind; /* numbers of buckets */
} buckets_t;

static void s_sort_leads(const part_t *part);

static void
s_sort_buckets(void *context)
{
    const buckets_t *self = context;
    for (size_t b = self->first; b < self->behind; b++) {
        const size_t first = b > 0 ? self->ends[b - 1] : 0;
        const part_t bucket = {self->all->base + first * self->all->size, self->ends[b] - first,
                               self->all->size, self->all->compare};
        s_sort_leads(&bucket);
    }
}

static void
s_sort_leads(const part_t *part)
{
    size_t ends[BUCKETS];
    uint64_t least;
    unsigned shift;
    if (part->n < FEW || !s_range(part, &least, &shift)) {
        s_sort(part->base, part->n, part->size, part->compare, s_depth(part->n));
        return;
    }
    const size_t buckets = s_distribute(part, least, shift, ends);
    s_sort_buckets(&(buckets_t){part, ends, 0, buckets});
}

void
sink_sort_by_int64(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    const part_t all = {base, n, size, compare};
    size_t ends[BUCKETS], half = 0;
    uint64_t least;
    unsigned shift;
    if (n < LONG || !s_range(&all, &least, &shift)) {
        sink_sort(base, n, size, compare);
        return;
    }
    const size_t buckets = s_distribute(&all, least, shift, ends);
    while (ends[half] < n / 2)
        half++;
    buckets_t left = {&all, ends, 0, half}, right = {&all, ends, half, buckets};
    sink_both(s_sort_buckets, &left, s_sort_buckets, &right);
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

typedef struct {
    double *values;
    size_t n;
} reals_t;

static void
s_sort_part_of_reals(void *context)
{
    const reals_t *part = context;
    s_sort_reals(part->values, part->n, s_depth(part->n));
}

void
sink_sort_reals(double *values, size_t n)
{
    reals_t all = {values, n};
    if (n < LONG) {
        s_sort_part_of_reals(&all);
        return;
    }
    double *at = s_part_reals(values, n);
    reals_t left = {values, (size_t)(at - values)}, right = {at + 1, n - left.n - 1};
    sink_both(s_sort_part_of_reals, &left, s_sort_part_of_reals, &right);
}

size_t
sink_sort_first(const int64_t *values, size_t n, int64_t least)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
sink_select_real(double *values, size_t n, size_t k)
{
    for (unsigned depth = s_depth(n); n > SHORT; depth--) {
        if (depth == 0)
            break;
        size_t at = (size_t)(s_part_reals(values, n) - values);
        if (at == k)
            return;
        if (k < at) {
            n = at;
        } else {
            values += at + 1;
            n -= at + 1;
            k -= at + 1;
        }
    }
    sink_sort_reals(values, n);
}
