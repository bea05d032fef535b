#include "agent_words.h"

#include <errno.h>
#include <string.h>

const char *
agent_words_fence(crema_fence_reason_t reason)
{
    static const char *const names[] = {
        [CREMA_FENCE_SUPERSEDED] = "superseded", [CREMA_FENCE_CLONE] = "clone",
        [CREMA_FENCE_PRINCIPAL] = "principal",   [CREMA_FENCE_QUOTA] = "quota",
        [CREMA_FENCE_VERSION] = "version",       [CREMA_FENCE_CREDIT_ABUSE] = "credit_abuse",
        [CREMA_FENCE_DISMISSED] = "dismissed",   [CREMA_FENCE_UNKNOWN] = "unknown_session",
    };
    size_t n = sizeof names / sizeof *names;
    return (size_t)reason < n && names[reason] ? names[reason] : "?";
}

const char *
agent_words_refusal(crema_fence_reason_t reason)
{
    switch (reason) {
    case CREMA_FENCE_VERSION:
        return "the aggregator speaks another version of the protocol";
    case CREMA_FENCE_CLONE:
        return "another live agent has the identity of this spool: was the directory copied?";
    case CREMA_FENCE_PRINCIPAL:
        return "the aggregator does not admit this key";
    default:
        return "the aggregator refused this agent";
    }
}

const char *
agent_words_error(crema_err_t err)
{
    return err == CREMA_EIO && errno ? strerror(errno) : crema_err_text(err);
}
