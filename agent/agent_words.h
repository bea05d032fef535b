/* agent_words - what the agent says of the aggregator's refusals.
 * Pure. */
#ifndef AGENT_WORDS_H
#define AGENT_WORDS_H

#include "crema_wire.h"

/* One word for the log. */
const char *agent_words_fence(crema_fence_reason_t reason);

/* Why an agent that does not dial again was refused: one phrase. */
const char *agent_words_refusal(crema_fence_reason_t reason);

#endif
