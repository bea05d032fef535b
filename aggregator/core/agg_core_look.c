#include "agg_core_look.h"

#include "agg_core_private.h"

bool
agg_core_look(const agg_core_t *self, const crema_id_t *run_id, crema_run_state_t *ret_state)
{
    const agg_entry_t *entry = crema_map_find(self->entries, run_id);
    if (!entry)
        return false;
    *ret_state = agg_run_state(entry->run);
    ret_state->agents = (uint32_t)self->n_reported[AGG_AGENT_LIVE];
    ret_state->processor_s = entry->processor_s;
    ret_state->overhead_s = entry->overhead_s;
    return true;
}

bool
agg_core_has_sink(const agg_core_t *self)
{
    return self->sink_known && !self->sink_silent;
}

bool
agg_core_took_run(const agg_core_t *self)
{
    return self->took_run;
}
