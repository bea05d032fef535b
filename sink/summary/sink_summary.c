/* The order in which summaries are computed. */
#include "sink_summary.h"

crema_err_t
sink_summary_fill(const sink_summary_t *self)
{
    static crema_err_t (*const parts[])(const sink_summary_t *) = {
        sink_summary_workflow,     sink_summary_workers,    sink_summary_prefixes,
        sink_summary_activities,   sink_summary_datasets,   sink_summary_sections,
        sink_summary_split,        sink_summary_waterfall,  sink_summary_bottlenecks,
        sink_summary_monitor,      sink_summary_efficiency, sink_summary_models,
        sink_summary_completeness, sink_summary_counts,     sink_summary_wasted,
        sink_summary_passes,       sink_summary_limits,
    };
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && err == CREMA_OK; i++)
        err = parts[i](self);
    return err == CREMA_OK ? sink_summary_columns(self->tables) : err;
}
