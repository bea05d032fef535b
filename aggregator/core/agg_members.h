/* agg_members - the agents of a run: what each still owes, when it is asked, when it is given up.
 * Pure: time is an argument.
 *
 * A member is an agent with streams of the run, or one that was alive while the run ended, may
 * have some by its key and by what it declared, and must report that it has none. The member with
 * the zero id stands for streams that no agent lists. A member is *settled* when it has answered
 * the barrier (or need not) and every stream it listed is closed and committed to its END. It is
 * asked at 0, 2, 6, 14, 30 H after the end of the run; a wait is never longer than the cap, and
 * after the last wait it is *given up*. While outstanding records still arrive, the waits start
 * over.
 *
 * Finished runs stay known for a day while something is missing, and there may be thousands. So
 * that a message costs only a look at the runs that wait for its sender, all runs list their
 * unsettled members in one index by agent, agg_awaited, and there the runs whose verdict can be
 * revised. */
#ifndef AGG_MEMBERS_H
#define AGG_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_lists.h"
#include "agg_session.h"
#include "crema_error.h"
#include "crema_list.h"

/* The contribution of one stream. */
typedef struct {
    uint64_t committed;
    uint64_t missing; /* known to exist but not committed */
    bool done;        /* closed and committed to its END */
} agg_tally_t;

/* The sum of many, also of those that are forgotten. */
typedef struct {
    uint64_t streams, undone, missing, committed;
} agg_sums_t;

/* Lives as long as its run. */
typedef struct {
    crema_id_t agent_id;
    agg_run_t *run;
    agg_sums_t sums;
    bool owes_answer;
    bool is_optional; /* it serves every run: without a stream of this one it only may have one */
    bool given_up;
    bool settled;           /* neither an answer nor a stream is outstanding */
    bool waited_for;        /* neither settled nor given up */
    crema_link_t *of_agent; /* its agent's list in the index */
    crema_link_t awaited;   /* in that list */
    uint64_t due;           /* records that were missing when it answered and still are */
    int64_t interval_ns;    /* H, which determines the waits */
    unsigned expected;      /* how often an answer was expected */
    int64_t asks;           /* questions asked so far */
    int64_t ask_at_ns;      /* time of the next question, or of giving up */
    crema_link_t ask;       /* in agg_run.asks: it is to be asked */
} agg_member_t;

/* ---- the index */

typedef struct {
    agg_lists_t *of_agents; /* agg_member_t.awaited by agent id */
    crema_link_t recovered; /* agg_run_t.recovered */
} agg_awaited_t;

CREMA_MUST_CHECK crema_err_t agg_awaited_init(agg_awaited_t *self);

/* ---- members */

/* The member with that id, created if necessary. CREMA_ELIMIT, CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_run_member(agg_run_t *self, const crema_id_t *agent_id,
                                            agg_member_t **ret_member);
/* NULL: not a member. */
agg_member_t *agg_run_find(const agg_run_t *self, const crema_id_t *agent_id);
void agg_run_free_members(agg_run_t *self);
/* True if the agent can have a stream of the run: by its key, then by what it declared. Only such
 * an agent delays or spoils the run; see also agg_run_can_spare(). */
bool agg_session_may_have(const agg_session_t *session, const agg_run_t *run);

/* This member must answer and is asked from now on at its interval H. `silent_ns`: how long it
 * has been silent; if that exceeds all waits together it is given up at once. */
void agg_run_expect(agg_run_t *self, agg_member_t *member, int64_t interval_ns, int64_t silent_ns,
                    int64_t now_ns);
/* True for an optional member without a stream that owes its answer, while the list of writers
 * names every stream. If all of them are durable when the waits are over, the list is enough. */
bool agg_run_needs_no_answer(const agg_run_t *self, const agg_member_t *member);
/* The same, for two seconds: an agent that is there answers within a round trip, whatever its H
 * is. If it has been silent since the run ended, the list of writers is enough. */
bool agg_run_can_spare(const agg_run_t *self, const agg_member_t *member, int64_t now_ns);
/* No agent has a stream of this run, by its list of writers: none is waited for to bring one. If
 * one comes after all, the run gets another verdict. */
void agg_run_expect_no_stream(agg_run_t *self);
/* It left: it need not answer, only its streams count. */
void agg_run_excuse(agg_run_t *self, agg_member_t *member, int64_t now_ns);
/* A complete table came with that barrier_seen. */
void agg_run_on_answer(agg_run_t *self, agg_member_t *member, uint64_t barrier_seen,
                       int64_t now_ns);
/* A stream of the member came (`was` is NULL), changed, or moved to another member (`is` is
 * NULL). */
void agg_run_tally(agg_run_t *self, agg_member_t *member, const agg_tally_t *was,
                   const agg_tally_t *is, int64_t now_ns);
/* The member was just asked in some way: the waits start over. */
void agg_run_begin_waits(agg_run_t *self, agg_member_t *member, int64_t now_ns);
void agg_run_on_tick(agg_run_t *self, int64_t now_ns);
/* The next member to ask; NULL: none. */
agg_member_t *agg_run_ask(agg_run_t *self);

/* ---- what the run waits for as a whole */

/* Something that was waited for has come. */
void agg_run_progress(agg_run_t *self, uint64_t n, int64_t now_ns);
/* True if everything missing has come after a verdict whose reasons late data can remove: a new
 * verdict is due. */
bool agg_run_is_recovered(const agg_run_t *self);
/* Updates what depends on that. */
void agg_run_follow_recovered(agg_run_t *self);
/* A record of the run or a message of its client came: it will not be abandoned soon. */
void agg_run_heard(agg_core_t *core, agg_run_t *self, int64_t now_ns);

#endif
