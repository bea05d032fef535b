/* agg_awaited - which runs an agent's word, or a record that came late, is of any concern to.
 * Pure: memory only.
 *
 * Runs that are over stay known for a day while they lack something, and there may be thousands of them. So that a message costs a look at
 * those that wait for its sender alone, all runs of an aggregator keep their members that are not settled here, by agent, and those runs
 * whose verdict can be given anew. */
#ifndef AGG_AWAITED_H
#define AGG_AWAITED_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_list.h"

typedef struct agg_awaited agg_awaited_t;

CREMA_MUST_CHECK crema_err_t agg_awaited_new(agg_awaited_t **ret_self);
/* After all runs. */
void agg_awaited_destroy(agg_awaited_t **self_p);

/* The list of that agent's members, which is there until agg_awaited_leave() was called as often. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_awaited_join(agg_awaited_t *self, const crema_id_t *agent_id,
                                              crema_link_t **ret_list);
void agg_awaited_leave(agg_awaited_t *self, const crema_id_t *agent_id);
/* NULL: no run knows the agent. */
crema_link_t *agg_awaited_of(const agg_awaited_t *self, const crema_id_t *agent_id);

/* Of the runs with agg_run_is_mended(). */
crema_link_t *agg_awaited_mended(agg_awaited_t *self);

#endif
