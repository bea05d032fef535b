#include "sink_workflow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_metrics.h"

static crema_status_t
s_status(const workflow_t *self, const crema_metric_t *metric, const workflow_value_t *value)
{
    double most = strcmp(metric->units, "%") == 0 ? 100 : 1;
    if (!isfinite(value->value))
        return CREMA_STATUS_UNAVAILABLE;
    if ((value->flags & IS_OPEN) || (self->in->partial && !(value->flags & FROM_WINDOW)))
        return CREMA_STATUS_INCOMPLETE;
    if ((value->flags & IS_ESTIMATE) ||
        ((value->flags & IS_FRACTION) && value->value > most * (1 + 1e-9)))
        return CREMA_STATUS_ESTIMATED;
    return CREMA_STATUS_OK;
}

static crema_err_t
s_write(const workflow_t *self, const crema_metric_t *metric, const workflow_value_t *value)
{
    crema_workflow_row_t row = {
        .value = isfinite(value->value) ? value->value : NAN,
        .lo = value->lo,
        .hi = value->hi,
        .status = s_status(self, metric, value),
        .n = value->n,
    };
    SINK_TEXT(row.name, metric->name);
    SINK_TEXT(row.units, metric->units);
    SINK_TEXT(row.definition, metric->formula);
    return sink_tables_add(self->in->tables, CREMA_TABLE_WORKFLOW, &row);
}

crema_err_t
sink_summary_workflow(const sink_summary_t *self)
{
    size_t n = crema_metric_count();
    workflow_t workflow = {
        .in = self, .sum = self->sums->totals, .values = calloc(n, sizeof *workflow.values)};
    if (!workflow.values)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++)
        workflow.values[i] = (workflow_value_t){NAN, NAN, NAN, 0, 0};
    workflow_throughput(&workflow);
    workflow_data(&workflow);
    workflow_chunks(&workflow);
    workflow_workers(&workflow);
    workflow_fine(&workflow);
    workflow_efficiency(&workflow);
    for (size_t i = 0; i < n && workflow.err == CREMA_OK; i++)
        workflow.err = s_write(&workflow, crema_metric(i), &workflow.values[i]);
    free(workflow.values);
    return workflow.err;
}
