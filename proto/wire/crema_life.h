/* crema_life - the life cycle of a run: states and events. The sink keeps the state; the phases of
 * the aggregator (agg_run.h) follow from its own messages. Pure: a table.
 *
 *     NONE ---news---> OPEN ---RUN_END---> ENDED ---file---> SEALED ---age---> CLOSED ---> FREED
 *       |               |                  ^  ^              late records:      refuses everything
 *       |            silence               |  |              sealed again          ^
 *       |               v                  |  |                                    |
 *       +--silence--> ABANDONED --RUN_END--+  +---RUN_END--+                       |
 *                       |                                  |                       |
 *                       +--------------file------------> UNENDED --------age-------+
 *
 * A run whose client is gone becomes ABANDONED and is sealed without its end; until it is closed,
 * the client may return and end it. Ages are elapsed time, so setting a clock has no effect on
 * them. */
#ifndef CREMA_LIFE_H
#define CREMA_LIFE_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_wire.h"

typedef enum {
    CREMA_LIFE_NONE,      /* unknown */
    CREMA_LIFE_OPEN,      /* a RUN_OPEN or a record came */
    CREMA_LIFE_ENDED,     /* its client sent RUN_END */
    CREMA_LIFE_ABANDONED, /* neither its client nor a record was heard for too long */
    CREMA_LIFE_UNENDED,   /* its file exists, and its verdict says that the run was not ended */
    CREMA_LIFE_SEALED,    /* its file exists */
    CREMA_LIFE_CLOSED,    /* sealed long ago: nothing more is accepted */
    CREMA_LIFE_FREED,     /* everything kept of it was removed */
    CREMA_LIFE_COUNT,
} crema_life_t;

typedef enum {
    CREMA_LIFE_NEWS,    /* a record or a RUN_OPEN came */
    CREMA_LIFE_END,     /* RUN_END */
    CREMA_LIFE_SILENCE, /* silent for too long: it is sealed without its end */
    CREMA_LIFE_FILE,    /* its file was made */
    CREMA_LIFE_AGE,     /* its file is old enough */
    CREMA_LIFE_REMOVED, /* everything kept of it was removed */
    CREMA_LIFE_EVENTS,
} crema_life_event_t;

/* Reason code of a run that was sealed without its end. */
#define CREMA_LIFE_NOT_ENDED "run_not_ended"

/* *ret_to is the state after the event. CREMA_ENOENT: the run is closed and refuses it;
 * CREMA_EINVAL: the event is impossible in this state. */
CREMA_MUST_CHECK crema_err_t crema_life_step(crema_life_t from, crema_life_event_t event,
                                             crema_life_t *ret_to);

/* True if the reasons say that the run was not ended. */
bool crema_life_lacks_end(size_t n, Crema__Reason *const *reasons);
/* The event that RUN_OPEN, RUN_END or RUN_SEAL is for its run. */
crema_life_event_t crema_life_event(const crema_msg_t *msg);

/* "open", ... */
const char *crema_life_name(crema_life_t life);

#endif
