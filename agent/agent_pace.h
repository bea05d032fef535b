/* agent_pace - when workers are sampled: once per interval, and while others write, with a
 * record of theirs, so that both take one wake and one message. A sample comes up to a quarter
 * of the interval early or late for that; in the long run there are no more than one per
 * interval. Pure. */
#ifndef AGENT_PACE_H
#define AGENT_PACE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t interval_ns;
    int64_t at_ns;      /* when the next sample is due */
    int64_t changed_ns; /* when others were last seen to write; 0: never */
} agent_pace_t;

/* True if a sample is to be taken now; `changed`: others have just written. */
bool agent_pace_is_due(const agent_pace_t *self, bool changed, int64_t now_ns);

/* The time at which it is due even if no process writes. */
int64_t agent_pace_latest_ns(const agent_pace_t *self, int64_t now_ns);

/* Plans the next one. */
void agent_pace_taken(agent_pace_t *self, int64_t now_ns);

#endif
