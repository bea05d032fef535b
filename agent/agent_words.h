/* agent_words - texts for the aggregator's refusals and for errors. */
#ifndef AGENT_WORDS_H
#define AGENT_WORDS_H

#include "crema_wire.h"

/* One word for the log. */
const char *agent_words_fence(crema_fence_reason_t reason);

/* A phrase on why an agent was refused for good. */
const char *agent_words_refusal(crema_fence_reason_t reason);

/* What failed, as errno says it where the system did (CREMA_EIO). */
const char *agent_words_error(crema_err_t err);

#endif
