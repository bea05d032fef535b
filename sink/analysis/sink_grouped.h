/* sink_grouped - rows in groups: sorted, the rows of a group are adjacent, in their order. Pure. */
#ifndef SINK_GROUPED_H
#define SINK_GROUPED_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t group; /* a worker, file, dataset, ... */
    size_t row;
} sink_grouped_t;

/* By group, then row. */
void sink_grouped_sort(sink_grouped_t *all, size_t n);

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
