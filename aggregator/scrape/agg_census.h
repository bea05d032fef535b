/* agg_census - how many agents and runs the core has of each kind, and which agents are behind.
 * Pure: it counts and changes nothing. It costs a look at each agent and at each agent of each run. */
#ifndef AGG_CENSUS_H
#define AGG_CENSUS_H

#include <stddef.h>
#include <stdint.h>

#include "agg_agent.h"
#include "agg_core.h"

#define AGG_CENSUS_BEHIND_MAX 20

/* An agent with records that are known to exist and are not durable. */
typedef struct {
    crema_id_t agent_id;
    const char *host; /* borrowed until the next event; "" for streams that no agent lists */
    uint64_t records;
} agg_behind_t;

typedef struct {
    size_t agents[AGG_AGENT_LEFT + 1]; /* by state */
    size_t runs[CREMA_RUN_FAILED + 1]; /* by phase */
    uint64_t backlog;                  /* records of all agents, of runs without a file */
    size_t n_behind;
    agg_behind_t behind[AGG_CENSUS_BEHIND_MAX]; /* the most records first */
} agg_census_t;

void agg_census(const agg_core_t *core, agg_census_t *ret_census);

#endif
