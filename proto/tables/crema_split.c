#include "crema_split.h"

#include <string.h>

/* Labels that Dask assigns to any task. Sources: the contexts of Worker.digests_total. */
static const struct {
    const char *activity;
    crema_activity_kind_t kind;
} s_activities[] = {
    {"thread-cpu", CREMA_ACTIVITY_CPU},
    {"thread-noncpu", CREMA_ACTIVITY_NONCPU},
    {"network", CREMA_ACTIVITY_IO},
    {"serialize", CREMA_ACTIVITY_SERIALIZATION},
    {"deserialize", CREMA_ACTIVITY_SERIALIZATION},
    {"compress", CREMA_ACTIVITY_COMPRESSION},
    {"decompress", CREMA_ACTIVITY_COMPRESSION},
    {"disk-read", CREMA_ACTIVITY_SPILL},
    {"disk-write", CREMA_ACTIVITY_SPILL},
    {"memory-read", CREMA_ACTIVITY_SPILL}, /* dependencies held in memory by the spill buffer */
    {"executor", CREMA_ACTIVITY_RUNTIME},
    {"offload", CREMA_ACTIVITY_RUNTIME},
    {"other", CREMA_ACTIVITY_RUNTIME},
    {"idle", CREMA_ACTIVITY_IDLE},
    {"idle or other spans", CREMA_ACTIVITY_IDLE},
    {"seceded", CREMA_ACTIVITY_IDLE}, /* of a slot that a task has left; crema's, in context busy */
    {"failed", CREMA_ACTIVITY_FAILED},
    {"cancelled", CREMA_ACTIVITY_FAILED},
    {"missing", CREMA_ACTIVITY_FAILED}, /* of a fetch: the peer did not have it */
    {"busy", CREMA_ACTIVITY_FAILED},    /* of a fetch: the peer had no time */
};

/* Names of the tasks of coffea's DaskExecutor. A user's function of the same name has the same
 * prefix; the hook's mark, which depends on what ran inside the task, takes precedence over
 * these rules. */
static const struct {
    const char *prefix;
    crema_side_t side;
    const char *rule;
} s_prefixes[] = {
    {"reduce", CREMA_SIDE_MERGE, "coffea:reduce"},
    {"automatic_retries", CREMA_SIDE_PREPROCESS, "coffea:automatic_retries"},
    {"lambda", CREMA_SIDE_OVERHEAD, "coffea:lambda"}, /* broadcast of the pickled processor */
};

crema_activity_kind_t
crema_split_activity_kind(const char *activity)
{
    for (size_t i = 0; i < sizeof s_activities / sizeof s_activities[0]; i++)
        if (strcmp(s_activities[i].activity, activity) == 0)
            return s_activities[i].kind;
    return CREMA_ACTIVITY_USER;
}

static bool
s_is_processor(const crema_split_rules_t *rules, const char *prefix)
{
    for (size_t i = 0; i < rules->n_prefixes; i++)
        if (strcmp(rules->processor_prefixes[i], prefix) == 0)
            return true;
    return false;
}

crema_side_t
crema_split_prefix(const crema_split_rules_t *rules, const char *prefix, const char **ret_rule)
{
    /* Without processor prefixes, as with dask-awkward's graphs, other tasks may belong to the
     * processor or not. */
    bool listed = rules->n_prefixes > 0;
    crema_side_t side = listed ? CREMA_SIDE_OVERHEAD : CREMA_SIDE_UNATTRIBUTED;
    const char *rule = listed ? "other" : "no_processor";
    if (s_is_processor(rules, prefix)) {
        side = CREMA_SIDE_PROCESSOR;
        rule = "processor_prefixes";
    } else {
        for (size_t i = 0; i < sizeof s_prefixes / sizeof s_prefixes[0]; i++) {
            if (strcmp(s_prefixes[i].prefix, prefix) == 0) {
                side = s_prefixes[i].side;
                rule = s_prefixes[i].rule;
            }
        }
    }
    if (ret_rule)
        *ret_rule = rule;
    return side;
}

/* Side of a task: the hook's mark, or the rule of its prefix. */
static crema_side_t
s_task_side(const crema_split_rules_t *rules, const char *prefix, crema_side_t marked)
{
    if ((unsigned)marked < CREMA_SIDE_COUNT && marked != CREMA_SIDE_UNATTRIBUTED)
        return marked;
    return crema_split_prefix(rules, prefix, NULL);
}

crema_side_t
crema_split_side(const crema_split_rules_t *rules, int context, const char *prefix,
                 const char *activity, crema_side_t marked)
{
    if (context == CREMA_CONTEXT_GATHER_DEP || context == CREMA_CONTEXT_GET_DATA ||
        context == CREMA_CONTEXT_P2P)
        return CREMA_SIDE_TRANSFER;
    const crema_activity_kind_t kind = crema_split_activity_kind(activity);
    if (context == CREMA_CONTEXT_BUSY && kind == CREMA_ACTIVITY_IDLE)
        return s_task_side(rules, prefix, marked);
    if (context != CREMA_CONTEXT_EXECUTE)
        return CREMA_SIDE_UNATTRIBUTED;
    switch (kind) {
    case CREMA_ACTIVITY_FAILED:
        return CREMA_SIDE_WASTED;
    case CREMA_ACTIVITY_IDLE:
        return CREMA_SIDE_UNATTRIBUTED;
    case CREMA_ACTIVITY_RUNTIME:
    case CREMA_ACTIVITY_SERIALIZATION:
    case CREMA_ACTIVITY_COMPRESSION:
    case CREMA_ACTIVITY_SPILL:
        return CREMA_SIDE_RUNTIME;
    case CREMA_ACTIVITY_CPU:
    case CREMA_ACTIVITY_NONCPU:
    case CREMA_ACTIVITY_IO:
    case CREMA_ACTIVITY_USER:
        break;
    }
    return s_task_side(rules, prefix, marked);
}
