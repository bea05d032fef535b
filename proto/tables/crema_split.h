/* crema_split - which side of the time budget a task prefix and an activity belong to.
 * Pure: a rule table, by task identity, never by a class name.
 *
 * The hook already marks an activity CREMA_SIDE_PROCESSOR when its task was a chunk (its checkpointer bracket ran inside that
 * very task). What is not marked is decided here; rules are numbered so that a file names the rule that was applied. */
#ifndef CREMA_SPLIT_H
#define CREMA_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_columns.h"

#define CREMA_SPLIT_RULES "crema-split/1"

/* Dask's own labels have fixed kinds; any other label is the user's. */
crema_activity_kind_t crema_split_activity_kind(const char *activity);

typedef struct {
    size_t
        n_prefixes; /* the collector's list: the processor's prefixes, by key_split/funcname; 0 it named none */
    const char *const *processor_prefixes;
} crema_split_rules_t;

/* Side of a task prefix when nothing is known of its tasks; *ret_rule (may be NULL) names the rule, a constant. */
crema_side_t crema_split_prefix(const crema_split_rules_t *rules, const char *prefix,
                                const char **ret_rule);

/* Side of one activity row. `context` is the enum of /activities; `marked` what the hook said. Failed and cancelled seconds
 * are WASTED; runtime kinds (executor, offload, other, serialization, compression, spill) of any task are RUNTIME; gather_dep, get_data
 * and p2p are TRANSFER; contexts memory_monitor and other are UNATTRIBUTED. */
crema_side_t crema_split_side(const crema_split_rules_t *rules, int context, const char *prefix,
                              const char *activity, crema_side_t marked);

#endif
