/* agg_core_look - queries for observers; they have no effect. Pure. */
#ifndef AGG_CORE_LOOK_H
#define AGG_CORE_LOOK_H

#include <stdbool.h>

#include "agg_core.h"

/* State of a run; false: unknown run. Texts and lists are borrowed until the next event;
 * waiting_for is not set. */
bool agg_core_look(const agg_core_t *self, const crema_id_t *run_id, crema_run_state_t *ret_state);

/* True if the last message about a run was accepted. */
bool agg_core_took_run(const agg_core_t *self);

/* True if the sink responds and its list of streams is known. */
bool agg_core_has_sink(const agg_core_t *self);

#endif
