/* agent_need - whether an agent that serves one run is still needed: while somebody writes, and as long as what it holds may still find an
 * aggregator.
 * Pure: time is an argument. */
#ifndef AGENT_NEED_H
#define AGENT_NEED_H

#include <stdbool.h>
#include <stdint.h>

#define AGENT_IDLE_NS 60000000000ll /* without a writer and with an empty spool */

typedef struct {
    bool has_writer;  /* a stream is open */
    bool has_records; /* that are not delivered, or cannot be read */
    int64_t heard_ns; /* the aggregator's last word */
} agent_need_facts_t;

/* Why it is not, or NULL. `idle_from_ns` is the agent's, and set by this: since when it has had neither writers nor records. If a writer
 * comes after all, its hook starts another agent. With orphan_ns 0 an agent is needed for ever. */
const char *agent_need_is_over(const agent_need_facts_t *facts, int64_t orphan_ns,
                               int64_t *idle_from_ns, int64_t now_ns);

#endif
