/* crema_split - the side of the time budget to which a task prefix and an activity belong. Pure:
 * a table of rules on task identity, never on class names.
 *
 * The hook marks an activity CREMA_SIDE_PROCESSOR if its task was a chunk (its checkpointer
 * bracket ran inside that task). Everything else is decided here; rules have names so that a
 * file records which one was applied. */
#ifndef CREMA_SPLIT_H
#define CREMA_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_columns.h"

#define CREMA_SPLIT_RULES "crema-split/1"

/* Dask's own labels have fixed kinds; all other labels are the user's. */
crema_activity_kind_t crema_split_activity_kind(const char *activity);

typedef struct {
    /* prefixes of the processor as listed by the collector, by key_split/funcname; 0: none */
    size_t n_prefixes;
    const char *const *processor_prefixes;
} crema_split_rules_t;

/* Side of a task prefix if nothing is known about its tasks; *ret_rule (may be NULL) is the name
 * of the rule, a constant. */
crema_side_t crema_split_prefix(const crema_split_rules_t *rules, const char *prefix,
                                const char **ret_rule);

/* Side of one row of /activities. `context` is its enum; `marked` is the hook's mark. Failed and
 * cancelled seconds are WASTED; runtime kinds (executor, offload, other, serialization,
 * compression, spill) of any task are RUNTIME; gather_dep, get_data and p2p are TRANSFER;
 * contexts memory_monitor and other are UNATTRIBUTED. */
crema_side_t crema_split_side(const crema_split_rules_t *rules, int context, const char *prefix,
                              const char *activity, crema_side_t marked);

#endif
