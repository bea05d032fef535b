/* agg_run - one run: its members, what is outstanding, and the verdict once nothing is or
 * waiting has ended. Pure: time is an argument.
 *
 *     UNKNOWN --RUN_OPEN--> OPEN --RUN_END, or abandoned--> BARRIER --all settled or given up--> VERDICT --SEALED--> SEALED, FAILED
 *        \---------------RUN_END, or abandoned---------->      ^                                    \--late data completes it: seal again
 *                                                              +--RUN_END of an abandoned run, in any later phase
 *
 * These are the phases the collector sees; crema_life defines the permitted transitions.
 *
 * A member is an agent with streams of the run, or one that was alive while the run ended and
 * must report that it has none. The member with the zero id stands for streams that no agent
 * lists. A member is *settled* when it has answered the barrier (or need not) and every stream
 * it listed is closed and committed to its END. It is asked at 0, 2, 6, 14, 30 H after the end
 * of the run; a wait is never longer than the cap, and after the last wait it is *given up*.
 * While outstanding records still arrive, the waits start over. */
#ifndef AGG_RUN_H
#define AGG_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_awaited.h"
#include "crema_error.h"
#include "crema_life.h"
#include "crema_wire.h"

#define AGG_RUN_REASONS_MAX 256

typedef struct agg_run agg_run_t;
typedef struct agg_member agg_member_t; /* lives as long as its run */

/* The contribution of one stream. */
typedef struct {
    uint64_t committed;
    uint64_t missing; /* known to exist but not committed */
    bool done;        /* closed and committed to its END */
} agg_tally_t;

/* `awaited` is borrowed: the run registers there its unsettled members, and whether its verdict
 * can be revised. */
CREMA_MUST_CHECK crema_err_t agg_run_new(const crema_id_t *run_id, size_t members_max,
                                         int64_t retries, int64_t cap_ns, agg_awaited_t *awaited,
                                         agg_run_t **ret_self);
void agg_run_destroy(agg_run_t **self_p);

/* RUN_OPEN, RUN_END: keeps a copy; repeats change nothing. CREMA_EREPEAT: the client has already
 * ended it. RUN_END, also of an abandoned run, begins the barrier: the caller then names the
 * members that must answer. */
CREMA_MUST_CHECK crema_err_t agg_run_on_open(agg_run_t *self, const crema_run_msg_t *msg);
CREMA_MUST_CHECK crema_err_t agg_run_on_end(agg_run_t *self, const crema_run_msg_t *msg,
                                            uint64_t barrier_id, int64_t now_ns);
/* Ends the run as RUN_END would, because its client is gone; `real_ns` is the time of its last
 * message. CREMA_EINVAL: it is already over. */
CREMA_MUST_CHECK crema_err_t agg_run_abandon(agg_run_t *self, uint64_t barrier_id, int64_t now_ns,
                                             int64_t real_ns);
/* Forgets RUN_OPEN and RUN_END because they came from a key that does not own the run. Only
 * before the verdict. */
void agg_run_forget_client(agg_run_t *self);
/* SEALED from the sink: keeps a copy; sealed->error makes the run FAILED. CREMA_EREPEAT: the
 * file is of the abandoned run, and its client has ended it since. */
CREMA_MUST_CHECK crema_err_t agg_run_on_sealed(agg_run_t *self, const crema_sealed_t *sealed);

/* The member with that id, created if necessary. CREMA_ELIMIT, CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_run_member(agg_run_t *self, const crema_id_t *agent_id,
                                            agg_member_t **ret_member);
/* NULL: no such member. */
agg_member_t *agg_run_find(const agg_run_t *self, const crema_id_t *agent_id);

/* This member must answer and is asked from now on at its interval H. `silent_ns`: how long it
 * has been silent; if that exceeds all waits together it is given up at once. */
void agg_run_expect(agg_run_t *self, agg_member_t *member, int64_t interval_ns, int64_t silent_ns,
                    int64_t now_ns);
/* Sets its interval H, which determines the waits. */
void agg_run_pace(agg_member_t *member, int64_t interval_ns);
/* It left: it need not answer, only its streams count. */
void agg_run_excuse(agg_run_t *self, agg_member_t *member, int64_t now_ns);
/* A complete table came with that barrier_seen. */
void agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen,
                       int64_t now_ns);

/* A stream of the member came (`was` is NULL), changed, or moved to another member (`is` is
 * NULL). */
void agg_run_tally(agg_run_t *self, agg_member_t *member, const agg_tally_t *was,
                   const agg_tally_t *is, int64_t now_ns);

void agg_run_on_tick(agg_run_t *self, int64_t now_ns);
/* The next member to ask; NULL: none. */
agg_member_t *agg_run_ask(agg_run_t *self);

/* Parts of the list of writers have not come or are not durable. Waiting is limited; a later
 * part leads to a revised verdict. */
void agg_run_set_list_due(agg_run_t *self, bool due);
bool agg_run_list_is_due(const agg_run_t *self);
/* Number of parts announced by RUN_END. */
uint32_t agg_run_writer_parts(const agg_run_t *self);

/* True if nothing is outstanding or waiting has ended. */
bool agg_run_is_ready(const agg_run_t *self, int64_t now_ns);

/* Reopens a verdict without reasons because durable records are gone: the waits for their
 * senders start over. False if the verdict holds. */
bool agg_run_reopen(agg_run_t *self, int64_t now_ns);

/* True if everything missing has come after a verdict whose reasons late data can remove: a new
 * verdict is due. */
bool agg_run_is_mended(const agg_run_t *self);
/* True if returning members should be asked. */
bool agg_run_wants_answers(const agg_run_t *self);

/* The run behind a link of agg_awaited_mended(); run and member behind a link of
 * agg_awaited_of(). */
agg_run_t *agg_run_of_mended(crema_link_t *link);
agg_run_t *agg_run_of_awaited(crema_link_t *link, agg_member_t **ret_member);

/* Giving a verdict: clear the reasons, blame for each fault, then give it. Reasons above the
 * limit are counted in a last one. */
void agg_run_clear_reasons(agg_run_t *self);
void agg_run_blame(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                   const char *text);
/* The same for a reason that late data cannot remove. */
void agg_run_blame_for_good(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                            const char *text);
void agg_run_give_verdict(agg_run_t *self, int64_t now_ns, int64_t real_ns);

/* Messages for the sink; valid until the run changes. */
const crema_run_msg_t *agg_run_open_msg(const agg_run_t *self); /* NULL: never opened */
const crema_run_msg_t *agg_run_end_msg(const agg_run_t *self);  /* NULL: never ended */
const crema_run_msg_t *agg_run_seal_msg(agg_run_t *self);

/* RUN_STATE without agents, waiting_for and seconds, which the caller adds. */
crema_run_state_t agg_run_state(const agg_run_t *self);

const crema_id_t *agg_run_id(const agg_run_t *self);
crema_run_phase_t agg_run_phase(const agg_run_t *self);
/* True if it was or will be sealed without its client's RUN_END. */
bool agg_run_is_abandoned(const agg_run_t *self);
uint64_t agg_run_barrier_id(const agg_run_t *self);
bool agg_run_was_opened(const agg_run_t *self);
bool agg_run_dismisses(const agg_run_t *self);
/* Number of streams. */
uint64_t agg_run_streams(const agg_run_t *self);

/* Iterates over the members by index. */
size_t agg_run_members(const agg_run_t *self);
const agg_member_t *agg_run_member_at(const agg_run_t *self, size_t i);
const crema_id_t *agg_member_id(const agg_member_t *member);
uint64_t agg_member_streams(const agg_member_t *member);
uint64_t agg_member_missing(const agg_member_t *member);
bool agg_member_is_settled(const agg_member_t *member);
bool agg_member_owes_answer(const agg_member_t *member);

#endif
