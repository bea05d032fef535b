/* The summaries, computed on two cores: each part fills its own table. */
#include "sink_summary.h"

#include <stdatomic.h>

#include "sink_both.h"

static crema_err_t (*const c_parts[])(const sink_summary_t *) = {
    sink_summary_workflow,     sink_summary_workers,    sink_summary_prefixes,
    sink_summary_activities,   sink_summary_datasets,   sink_summary_sections,
    sink_summary_split,        sink_summary_waterfall,  sink_summary_bottlenecks,
    sink_summary_monitor,      sink_summary_efficiency, sink_summary_models,
    sink_summary_completeness, sink_summary_counts,     sink_summary_wasted,
    sink_summary_passes,       sink_summary_limits,
};

typedef struct {
    const sink_summary_t *summary;
    atomic_size_t *next; /* the part that the next free core takes */
    crema_err_t err;
} share_t;

static void
s_take_parts(void *context)
{
    share_t *self = context;
    size_t i;
    while (self->err == CREMA_OK &&
           (i = atomic_fetch_add(self->next, 1)) < sizeof c_parts / sizeof *c_parts)
        self->err = c_parts[i](self->summary);
}

crema_err_t
sink_summary_fill(const sink_summary_t *self)
{
    atomic_size_t next = 0;
    sink_sums_t sums;
    sink_summary_t summed = *self;
    crema_err_t err = sink_summary_sum(self, &sums);
    if (err != CREMA_OK)
        return err;
    summed.sums = &sums;
    share_t one = {.summary = &summed, .next = &next}, other = one;
    sink_both(s_take_parts, &one, s_take_parts, &other);
    sink_sums_clear(&sums);
    if (one.err == CREMA_OK)
        one.err = other.err;
    return one.err == CREMA_OK ? sink_summary_columns(self->tables) : one.err;
}
