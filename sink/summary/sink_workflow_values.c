/* How the parts of sink_workflow set and read values. */
#include <math.h>
#include <stdlib.h>

#include "crema_metrics.h"
#include "sink_workflow.h"

void
workflow_put_bounds(workflow_t *self, const char *name, double value, double lo, double hi,
                    int64_t n, unsigned flags)
{
    size_t i = crema_metric_find(name);
    if (i < crema_metric_count())
        self->values[i] = (workflow_value_t){value, lo, hi, n, flags};
    else
        self->err = CREMA_EINVAL;
}

void
workflow_put(workflow_t *self, const char *name, double value, int64_t n, unsigned flags)
{
    workflow_put_bounds(self, name, value, NAN, NAN, n, flags);
}

double
workflow_reported(const workflow_t *self, const char *name)
{
    const char *text =
        sink_texts_find(sink_meta_attributes(sink_decoder_meta(self->in->run)), name);
    char *end;
    if (!text)
        return NAN;
    double value = strtod(text, &end);
    return end != text && *end == '\0' ? value : NAN;
}
