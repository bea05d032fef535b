/* sink_grouped - rows in groups: sorted, the rows of a group are adjacent, in their order. Pure. */
#ifndef SINK_GROUPED_H
#define SINK_GROUPED_H

#include <stdint.h>

#include "sink_sort.h"

typedef struct {
    uint32_t group; /* a worker, file, dataset, ... */
    size_t row;
} sink_grouped_t;

static inline int
sink_grouped_compare(const void *a, const void *b)
{
    const sink_grouped_t *left = a, *right = b;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

static inline void
sink_grouped_sort(sink_grouped_t *all, size_t n)
{
    sink_sort(all, n, sizeof *all, sink_grouped_compare);
}

/* The first index after the group that begins at `from`. */
static inline size_t
sink_grouped_end(const sink_grouped_t *all, size_t n, size_t from)
{
    size_t end = from;
    while (end < n && all[end].group == all[from].group)
        end++;
    return end;
}

#endif
