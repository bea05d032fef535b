/* agent_need - whether an agent that serves one run is still needed: while there are writers,
 * and as long as its records may still reach an aggregator. Pure: time is an argument. */
#ifndef AGENT_NEED_H
#define AGENT_NEED_H

#include <stdbool.h>
#include <stdint.h>

#define AGENT_IDLE_NS 60000000000ll /* without a writer and with an empty spool */

typedef struct {
    bool has_writer;  /* a stream is open */
    bool has_records; /* undelivered or unreadable */
    int64_t heard_ns; /* when the aggregator was last heard */
} agent_need_facts_t;

/* Returns why the agent is not needed, or NULL. *idle_from_ns belongs to the caller and is
 * updated: since when there have been neither writers nor records. If a writer comes later, its
 * hook starts another agent. With orphan_ns 0 an agent is always needed. */
const char *agent_need_is_over(const agent_need_facts_t *facts, int64_t orphan_ns,
                               int64_t *idle_from_ns, int64_t now_ns);

#endif
