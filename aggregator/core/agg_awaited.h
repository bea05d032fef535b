/* agg_awaited - an index from agents to the runs that wait for them. Pure: memory only.
 *
 * Finished runs stay known for a day while they lack something, and there may be thousands. So
 * that a message costs only a look at the runs that wait for its sender, all runs list their
 * unsettled members here by agent, and the runs whose verdict can be revised. */
#ifndef AGG_AWAITED_H
#define AGG_AWAITED_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_list.h"

typedef struct agg_awaited agg_awaited_t;

CREMA_MUST_CHECK crema_err_t agg_awaited_new(agg_awaited_t **ret_self);
/* After all runs were destroyed. */
void agg_awaited_destroy(agg_awaited_t **self_p);

/* The list of that agent's members; it exists until agg_awaited_leave() was called as often as
 * this. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_awaited_join(agg_awaited_t *self, const crema_id_t *agent_id,
                                              crema_link_t **ret_list);
void agg_awaited_leave(agg_awaited_t *self, const crema_id_t *agent_id);
/* NULL: no run waits for the agent. */
crema_link_t *agg_awaited_of(const agg_awaited_t *self, const crema_id_t *agent_id);

/* The runs for which agg_run_is_mended() is true. */
crema_link_t *agg_awaited_mended(agg_awaited_t *self);

#endif
