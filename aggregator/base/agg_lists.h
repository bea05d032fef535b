/* agg_lists - lists by id: the runs that wait for an agent, the agents that serve a run. Pure:
 * memory only.
 *
 * A list exists from the first join to the leave that evens it out; between them its users link
 * and unlink what they like. */
#ifndef AGG_LISTS_H
#define AGG_LISTS_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_list.h"

typedef struct agg_lists agg_lists_t;

/* The number of lists is bounded by what joins them. */
CREMA_MUST_CHECK crema_err_t agg_lists_new(agg_lists_t **ret_self);
/* Accepts NULL. After everything has left. */
void agg_lists_destroy(agg_lists_t **self_p);

/* The list of that id; it exists until agg_lists_leave() was called as often as this. NULL:
 * *ret_err is CREMA_ENOMEM. */
crema_link_t *agg_lists_join(agg_lists_t *self, const crema_id_t *id, crema_err_t *ret_err);
void agg_lists_leave(agg_lists_t *self, const crema_id_t *id);
/* NULL: nothing has joined. */
crema_link_t *agg_lists_find(const agg_lists_t *self, const crema_id_t *id);

#endif
