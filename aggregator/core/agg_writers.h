/* agg_writers - the writers of a run as its collector listed them, in parts, and what they must
 * have delivered. */
#ifndef AGG_WRITERS_H
#define AGG_WRITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_wire.h"
#include "crema_writers.h"

typedef struct agg_run agg_run_t;

typedef struct {
    crema_writers_t *writers; /* NULL: no list yet */
    uint8_t *parts;           /* by number: WANT, KEPT */
    uint32_t n_parts;
    uint32_t n_kept; /* durable in the sink */
    uint32_t n_want; /* to be sent to the sink */
    uint64_t kept_b; /* see agg_owner_keep() */
    bool refused;    /* a part had no room; `refused_part` was the last */
    uint32_t refused_part;
} agg_list_t;

/* RUN_WRITERS. */
void agg_writers_on_message(agg_core_t *core, agg_run_t *run, const Crema__RunWriters *msg,
                            int64_t now_ns);
/* RUN_LISTED: the sink has a part. */
void agg_writers_on_listed(agg_core_t *core, const Crema__RunListed *msg);
/* A restarted sink may have an older store: every part is sent again. */
void agg_writers_on_sink_up(const agg_core_t *core, agg_run_t *run);
/* Updates whether parts of the list are outstanding; call it after anything that may change
 * that. */
void agg_writers_follow(const agg_core_t *core, agg_run_t *run);
/* Discards the list: it came from a key that does not own the run. */
void agg_writers_discard(agg_core_t *core, agg_run_t *run, int64_t now_ns);

/* A part that the sink does not have; NULL: none. */
const Crema__RunWriters *agg_writers_take(agg_run_t *run);
/* Number of parts, from the first, that are durable without a gap. */
uint32_t agg_writers_kept(const agg_run_t *run);
/* True if the whole list is here and none of its writers recorded: no agent can bring a stream. */
bool agg_writers_recorded_nothing(const agg_run_t *run);
/* True if the list names the stream, or is incomplete and may still name it. */
bool agg_writers_may_have(const agg_core_t *core, const agg_run_t *run,
                          const crema_id_t *stream_id);
/* Adds the reasons that follow from the list. */
void agg_writers_add_reasons(agg_run_t *run);

#endif
