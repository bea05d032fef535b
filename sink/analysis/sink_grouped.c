#include "sink_grouped.h"

#include "sink_sort.h"

#define ROW_BITS 31
#define ROW_MAX (((size_t)1 << ROW_BITS) - 1)

/* While they are sorted, the group leads in one integer with the row, as far as that has room. */
typedef union {
    sink_grouped_t grouped;
    struct {
        int64_t lead;
        size_t row;
    };
} led_t;

_Static_assert(sizeof(led_t) == sizeof(sink_grouped_t) &&
                   offsetof(led_t, row) == offsetof(sink_grouped_t, row),
               "the lead takes the place of the group");

static int
s_by_lead(const void *a, const void *b)
{
    const led_t *left = a, *right = b;
    if (left->lead != right->lead)
        return left->lead < right->lead ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

void
sink_grouped_sort(sink_grouped_t *all, size_t n)
{
    led_t *led = (led_t *)all;
    for (size_t i = 0; i < n; i++) {
        const size_t row = led[i].row < ROW_MAX ? led[i].row : ROW_MAX;
        led[i].lead = (int64_t)led[i].grouped.group << ROW_BITS | (int64_t)row;
    }
    sink_sort_by_int64(led, n, sizeof *led, s_by_lead);
    for (size_t i = 0; i < n; i++)
        led[i].grouped.group = (uint32_t)(led[i].lead >> ROW_BITS);
}
