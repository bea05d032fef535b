/* agg_core_look - what the core knows of a run, for whoever only watches: nobody is told more for it.
 * Pure. */
#ifndef AGG_CORE_LOOK_H
#define AGG_CORE_LOOK_H

#include <stdbool.h>

#include "agg_core.h"

/* False: the run is not known. Texts and lists are borrowed until the next event; waiting_for is left out. */
bool agg_core_look(const agg_core_t *self, const crema_id_t *run_id, crema_run_state_t *ret_state);

/* Whether the message that came last, one about a run, was taken and not refused. */
bool agg_core_took_run(const agg_core_t *self);

/* Whether the sink answers, and what it holds is known. */
bool agg_core_has_sink(const agg_core_t *self);

#endif
