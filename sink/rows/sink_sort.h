/* sink_sort - sorts an array in place, in n log n, with no memory of its own; a long one on two
 * cores. Pure: memory only.
 *
 * qsort() of the C library may copy the whole array to the heap; an array that is larger than
 * memory, in a mapped file, is sorted here by passes over it from both ends. Not stable: where
 * order matters the keys must differ. */
#ifndef SINK_SORT_H
#define SINK_SORT_H

#include <stddef.h>
#include <stdint.h>

/* `compare` as for qsort(). */
void sink_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

/* The same, several times as fast, for elements of which each begins with an int64_t,
 * and `compare` orders by it first. */
void sink_sort_by_int64(void *base, size_t n, size_t size,
                        int (*compare)(const void *, const void *));

/* The first of ascending values that is at least `least`, n if there is none. */
size_t sink_sort_first(const int64_t *values, size_t n, int64_t least);

/* Ascending; values must not be NaN. */
void sink_sort_reals(double *values, size_t n);

/* Moves to values[k] what would be there in ascending order; nothing before it is greater, nothing
 * behind it less. In n steps for most input. */
void sink_select_real(double *values, size_t n, size_t k);

#endif
