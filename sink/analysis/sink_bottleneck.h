/* sink_bottleneck - measures from the facts what the diagnosis needs besides the budget. Pure:
 * arithmetic on facts and model.
 *
 * What counted attempts waited for is in their rows, as looks at their threads found it; what was
 * not looked at is CREMA_LOOK_UNKNOWN. A state that was seen in some of n looks has the error of
 * such a share; CPU time, waiting for a core, and what of both passed in opening is exact. */
#ifndef SINK_BOTTLENECK_H
#define SINK_BOTTLENECK_H

#include "sink_diagnosis.h"

CREMA_MUST_CHECK crema_err_t sink_bottleneck_measure(const sink_facts_t *facts,
                                                     const sink_model_t *model,
                                                     const sink_tables_t *tables,
                                                     sink_measured_t *ret_found);

#endif
