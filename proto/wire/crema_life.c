#include "crema_life.h"

#include <stddef.h>
#include <string.h>

/* The state that follows; these two say that none does. */
enum { REFUSED = CREMA_LIFE_COUNT, NEVER };

#define NONE CREMA_LIFE_NONE
#define OPEN CREMA_LIFE_OPEN
#define ENDED CREMA_LIFE_ENDED
#define ABANDONED CREMA_LIFE_ABANDONED
#define UNENDED CREMA_LIFE_UNENDED
#define SEALED CREMA_LIFE_SEALED
#define CLOSED CREMA_LIFE_CLOSED
#define FREED CREMA_LIFE_FREED

static const unsigned char c_next[CREMA_LIFE_COUNT][CREMA_LIFE_EVENTS] = {
    /*               news       end      silence    file    age     removed */
    [NONE] = {OPEN, ENDED, ABANDONED, NEVER, NEVER, NEVER},
    [OPEN] = {OPEN, ENDED, ABANDONED, NEVER, NEVER, NEVER},
    [ENDED] = {ENDED, ENDED, NEVER, SEALED, NEVER, NEVER},
    [ABANDONED] = {ABANDONED, ENDED, ABANDONED, UNENDED, NEVER, NEVER},
    [UNENDED] = {UNENDED, ENDED, UNENDED, UNENDED, CLOSED, NEVER},
    [SEALED] = {SEALED, SEALED, NEVER, SEALED, CLOSED, NEVER},
    [CLOSED] = {REFUSED, REFUSED, NEVER, NEVER, CLOSED, FREED},
    [FREED] = {REFUSED, REFUSED, NEVER, NEVER, NEVER, FREED},
};

crema_err_t
crema_life_step(crema_life_t from, crema_life_event_t event, crema_life_t *ret_to)
{
    if ((size_t)from >= CREMA_LIFE_COUNT || (size_t)event >= CREMA_LIFE_EVENTS)
        return CREMA_EINVAL;
    unsigned char to = c_next[from][event];
    if (to == REFUSED || to == NEVER)
        return to == REFUSED ? CREMA_ENOENT : CREMA_EINVAL;
    *ret_to = (crema_life_t)to;
    return CREMA_OK;
}

bool
crema_life_lacks_end(size_t n, Crema__Reason *const *reasons)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(reasons[i]->code, CREMA_LIFE_NOT_ENDED) == 0)
            return true;
    return false;
}

crema_life_event_t
crema_life_event(const crema_msg_t *msg)
{
    const Crema__RunSeal *seal = &msg->run_seal;
    if (msg->type == CREMA_MSG_RUN_SEAL && crema_life_lacks_end(seal->n_reasons, seal->reasons))
        return CREMA_LIFE_SILENCE;
    return msg->type == CREMA_MSG_RUN_OPEN ? CREMA_LIFE_NEWS : CREMA_LIFE_END;
}

const char *
crema_life_name(crema_life_t life)
{
    static const char *const names[CREMA_LIFE_COUNT] = {
        [UNENDED] = "sealed, not ended",
        [NONE] = "unknown",
        [OPEN] = "open",
        [ENDED] = "ended",
        [ABANDONED] = "abandoned",
        [SEALED] = "sealed",
        [CLOSED] = "closed",
        [FREED] = "freed",
    };
    return (size_t)life < CREMA_LIFE_COUNT ? names[life] : "?";
}
