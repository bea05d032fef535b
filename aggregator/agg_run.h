/* agg_run - one run: who takes part, what is outstanding, and the verdict when nothing is or nobody answers any more.
 * Pure: time is an argument.
 *
 *     UNKNOWN --RUN_OPEN--> OPEN --RUN_END, or abandoned--> BARRIER --all settled or given up--> VERDICT --SEALED--> SEALED, FAILED
 *        \---------------RUN_END, or abandoned---------->      ^                                    \--late data completes it: seal again
 *                                                              +--RUN_END of one that was abandoned, whatever became of it
 *
 * These are the steps that the collector sees; what may follow what is crema_life's to say.
 *
 * A member is an agent with streams of the run, or one that was alive while the run ended and must say that it has none. The member with
 * the zero id stands for streams that no agent lists. A member is *settled* when it answered the barrier (or need not) and every stream it
 * listed is closed and committed to its END. It is asked at 0, 2, 6, 14, 30 H after the end of the run, a wait is never longer than the cap, and
 * after the last wait it is *given up*; while records that it owes still arrive the waits begin anew. */
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

/* What one stream contributes. */
typedef struct {
    uint64_t committed;
    uint64_t missing; /* known to exist and not committed */
    bool done;        /* closed and committed to its END */
} agg_tally_t;

/* `awaited` is borrowed: the run keeps there who is not settled, and whether its verdict can be given anew. */
CREMA_MUST_CHECK crema_err_t agg_run_new(const crema_id_t *run_id, size_t members_max,
                                         int64_t retries, int64_t cap_ns, agg_awaited_t *awaited,
                                         agg_run_t **ret_self);
void agg_run_destroy(agg_run_t **self_p);

/* RUN_OPEN, RUN_END: keeps a copy. Repeats change nothing. CREMA_EREPEAT: its client had ended it before. RUN_END begins the barrier: the
 * caller names those it expects an answer from. So does RUN_END of a run that was abandoned. */
CREMA_MUST_CHECK crema_err_t agg_run_on_open(agg_run_t *self, const crema_run_msg_t *msg);
CREMA_MUST_CHECK crema_err_t agg_run_on_end(agg_run_t *self, const crema_run_msg_t *msg,
                                            uint64_t barrier_id, int64_t now_ns);
/* Its client is gone: ends it as RUN_END would, the last word of it being at `real_ns`. CREMA_EINVAL: it is over already. */
CREMA_MUST_CHECK crema_err_t agg_run_abandon(agg_run_t *self, uint64_t barrier_id, int64_t now_ns,
                                             int64_t real_ns);
/* What was said of it came from a key that does not own it: forgets RUN_OPEN and RUN_END. Before the verdict. */
void agg_run_forget_client(agg_run_t *self);
/* SEALED of the sink: keeps a copy; sealed->error set makes the run FAILED. CREMA_EREPEAT: the file is of the run as it was abandoned, and
 * its client has ended it since. */
CREMA_MUST_CHECK crema_err_t agg_run_on_sealed(agg_run_t *self, const crema_sealed_t *sealed);

/* The member of that id, made if there is none. CREMA_ELIMIT, CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_run_member(agg_run_t *self, const crema_id_t *agent_id,
                                            agg_member_t **ret_member);
/* NULL if there is none. */
agg_member_t *agg_run_find(const agg_run_t *self, const crema_id_t *agent_id);

/* This member must answer, asked from now on by its interval H. `silent_ns` without a word already: a member silent for longer
 * than all waits together is given up at once. */
void agg_run_expect(agg_run_t *self, agg_member_t *member, int64_t interval_ns, int64_t silent_ns,
                    int64_t now_ns);
/* Its interval H, by which it is waited for. */
void agg_run_pace(agg_member_t *member, int64_t interval_ns);
/* It left: it owes no answer any more, only its streams. */
void agg_run_excuse(agg_run_t *self, agg_member_t *member, int64_t now_ns);
/* A whole table came with that barrier_seen. */
void agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen,
                       int64_t now_ns);

/* A stream of the member came (was NULL), changed, or went to another member (is NULL). */
void agg_run_tally(agg_run_t *self, agg_member_t *member, const agg_tally_t *was,
                   const agg_tally_t *is, int64_t now_ns);

void agg_run_on_tick(agg_run_t *self, int64_t now_ns);
/* A member whose turn it is to be asked; NULL if none. */
agg_member_t *agg_run_ask(agg_run_t *self);

/* Part of the list of writers is still to come, or to become durable. Only so long is it waited for; what comes later gives the verdict anew. */
void agg_run_set_list_due(agg_run_t *self, bool due);
bool agg_run_list_is_due(const agg_run_t *self);
/* How many parts RUN_END promised. */
uint32_t agg_run_writer_parts(const agg_run_t *self);

/* Nothing is outstanding, or nobody is waited for any longer. */
bool agg_run_is_ready(const agg_run_t *self, int64_t now_ns);

/* A verdict without reasons that no longer holds because durable records are gone: the waits for whoever has them begin anew. False if it holds. */
bool agg_run_reopen(agg_run_t *self, int64_t now_ns);

/* After a verdict with reasons that late data can take back: everything that was missing has come, so a new verdict is due. */
bool agg_run_is_mended(const agg_run_t *self);
/* It is worth asking members that come back. */
bool agg_run_wants_answers(const agg_run_t *self);

/* The run behind a link of agg_awaited_mended(), the run and the member behind one of agg_awaited_of(). */
agg_run_t *agg_run_of_mended(crema_link_t *link);
agg_run_t *agg_run_of_awaited(crema_link_t *link, agg_member_t **ret_member);

/* The verdict: clear, blame for each fault, then give. Reasons above the limit are counted in one last. */
void agg_run_clear_reasons(agg_run_t *self);
void agg_run_blame(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                   const char *text);
/* The same for what nothing that comes late can take back. */
void agg_run_blame_for_good(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                            const char *text);
void agg_run_give_verdict(agg_run_t *self, int64_t now_ns, int64_t real_ns);

/* What goes to the sink; valid until the run changes. */
const crema_run_msg_t *agg_run_open_msg(const agg_run_t *self); /* NULL: never opened */
const crema_run_msg_t *agg_run_end_msg(const agg_run_t *self);  /* NULL: never ended */
const crema_run_msg_t *agg_run_seal_msg(agg_run_t *self);

/* RUN_STATE without agents, waiting_for and seconds, which the caller adds. */
crema_run_state_t agg_run_state(const agg_run_t *self);

const crema_id_t *agg_run_id(const agg_run_t *self);
crema_run_phase_t agg_run_phase(const agg_run_t *self);
/* It was sealed, or is to be, without its client's RUN_END. */
bool agg_run_is_abandoned(const agg_run_t *self);
uint64_t agg_run_barrier_id(const agg_run_t *self);
bool agg_run_was_opened(const agg_run_t *self);
bool agg_run_dismisses(const agg_run_t *self);
/* Streams held. */
uint64_t agg_run_streams(const agg_run_t *self);

/* Members, first to last. */
size_t agg_run_members(const agg_run_t *self);
const agg_member_t *agg_run_member_at(const agg_run_t *self, size_t i);
const crema_id_t *agg_member_id(const agg_member_t *member);
uint64_t agg_member_streams(const agg_member_t *member);
uint64_t agg_member_missing(const agg_member_t *member);
bool agg_member_is_settled(const agg_member_t *member);
bool agg_member_owes_answer(const agg_member_t *member);

#endif
