/* crema_life - the one life that a run has, the same in aggregator and sink: which state follows which event.
 * Pure: a table.
 *
 *     NONE ---news---> OPEN ---RUN_END---> ENDED ---file---> SEALED ---age---> CLOSED ---> FREED
 *       |               |                  ^  ^              late records:      refuses everything
 *       |            silence               |  |              sealed again          ^
 *       |               v                  |  |                                    |
 *       +--silence--> ABANDONED --RUN_END--+  +---RUN_END--+                       |
 *                       |                                  |                       |
 *                       +--------------file------------> UNENDED --------age-------+
 *
 * A run whose client is gone is ABANDONED after a while and sealed without its end; until it is closed, the client may come back and end
 * it. All ages are elapsed time, so a clock that is set ends and frees nothing. */
#ifndef CREMA_LIFE_H
#define CREMA_LIFE_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_wire.h"

typedef enum {
    CREMA_LIFE_NONE,      /* nothing is known of it */
    CREMA_LIFE_OPEN,      /* a RUN_OPEN or a record came */
    CREMA_LIFE_ENDED,     /* its client said RUN_END */
    CREMA_LIFE_ABANDONED, /* neither its client nor a record was heard for too long */
    CREMA_LIFE_UNENDED,   /* its file is there, and says that nobody ended it */
    CREMA_LIFE_SEALED,    /* its file is there */
    CREMA_LIFE_CLOSED,    /* it was sealed long ago: nothing more is taken */
    CREMA_LIFE_FREED,     /* and what was kept of it is gone */
    CREMA_LIFE_COUNT,
} crema_life_t;

typedef enum {
    CREMA_LIFE_NEWS,    /* a record or a RUN_OPEN came */
    CREMA_LIFE_END,     /* RUN_END */
    CREMA_LIFE_SILENCE, /* nothing was heard of it for too long: it is sealed without its end */
    CREMA_LIFE_FILE,    /* its file was made */
    CREMA_LIFE_AGE,     /* its file has been there for long enough */
    CREMA_LIFE_REMOVED, /* what was kept of it was removed */
    CREMA_LIFE_EVENTS,
} crema_life_event_t;

/* The reason of a run that was sealed without its end. */
#define CREMA_LIFE_NOT_ENDED "run_not_ended"

/* *ret_to is the state after the event. CREMA_ENOENT: the run is closed and refuses it; CREMA_EINVAL: this event cannot happen
 * in this state. */
CREMA_MUST_CHECK crema_err_t crema_life_step(crema_life_t from, crema_life_event_t event,
                                             crema_life_t *ret_to);

/* Among the reasons is that nobody ended it. */
bool crema_life_lacks_end(size_t n, const crema_reason_t *reasons);
/* What RUN_OPEN, RUN_END or RUN_SEAL means for its run. */
crema_life_event_t crema_life_event(crema_msg_type_t type, const crema_run_msg_t *msg);

/* "open", ... */
const char *crema_life_name(crema_life_t life);

#endif
