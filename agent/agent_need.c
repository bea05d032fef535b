#include "agent_need.h"

#include <stddef.h>

const char *
agent_need_is_over(const agent_need_facts_t *facts, int64_t orphan_ns, int64_t *idle_from_ns,
                   int64_t now_ns)
{
    if (facts->has_writer || facts->has_records)
        *idle_from_ns = now_ns;
    if (orphan_ns == 0 || facts->has_writer)
        return NULL;
    if (now_ns - *idle_from_ns > (orphan_ns < AGENT_IDLE_NS ? orphan_ns : AGENT_IDLE_NS))
        return "no writer, and nothing to deliver";
    return now_ns - facts->heard_ns > orphan_ns ? "no writer and no aggregator" : NULL;
}
