/* agg_run - one run: its members, what is outstanding, and the verdict once nothing is or waiting
 * has ended. Pure: time is an argument.
 *
 *     UNKNOWN --RUN_OPEN--> OPEN
 *     UNKNOWN, OPEN --RUN_END, or abandoned--> BARRIER --all settled or given up--> VERDICT
 *     VERDICT --SEALED--> SEALED, FAILED --late data completes it--> VERDICT
 *     any later phase of an abandoned run --RUN_END--> BARRIER
 *
 * These are the phases the collector sees; crema_life defines the permitted transitions.
 *
 * A member is an agent with streams of the run, or one that was alive while the run ended, may
 * have some by its key and by what it declared, and must report that it has none. The member with
 * the zero id stands for streams that no agent lists. A member is *settled* when it has answered
 * the barrier (or need not) and every stream it listed is closed and committed to its END. It is
 * asked at 0, 2, 6, 14, 30 H after the end of the run; a wait is never longer than the cap, and
 * after the last wait it is *given up*. While outstanding records still arrive, the waits start
 * over.
 *
 * The client may limit all of this: after limit_ns without progress the verdict is given on what
 * is there. Progress is an answer, or a record that its agent held when it answered and that has
 * become durable: what living writers still add is none, or a run might never end. */
#ifndef AGG_RUN_H
#define AGG_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_awaited.h"
#include "crema_error.h"
#include "crema_life.h"
#include "crema_list.h"
#include "crema_map.h"
#include "crema_wire.h"

#define AGG_RUN_REASONS_MAX 256
#define AGG_RUN_TEXT_BYTES 192
#define AGG_RUN_SUBJECT_BYTES 64

typedef struct agg_run agg_run_t;
typedef struct agg_member agg_member_t; /* lives as long as its run */

/* Both structs are for reading: only the functions below change them. */
struct agg_member {
    crema_id_t agent_id;
    uint64_t streams, undone, missing;
    bool owes_answer;
    bool is_optional; /* it serves every run: without a stream of this one it only may have one */
    bool given_up;
    bool settled;    /* neither an answer nor a stream is outstanding */
    bool waited_for; /* neither settled nor given up */
    agg_run_t *run;
    crema_link_t *of_agent; /* its agent's list of unsettled members */
    crema_link_t awaited;   /* in that list */
    uint64_t due;           /* records that were missing when it answered and still are */
    int64_t interval_ns;
    unsigned expected; /* how often an answer was expected */
    int64_t asks;      /* questions asked so far */
    int64_t ask_at_ns; /* time of the next question, or of giving up */
    crema_link_t ask;  /* in `asks`: it is to be asked */
};

typedef struct {
    char subject[AGG_RUN_SUBJECT_BYTES], text[AGG_RUN_TEXT_BYTES];
} agg_run_subject_t;

struct agg_run {
    crema_id_t run_id;
    crema_run_phase_t phase;
    crema_life_t life;
    bool abandoned; /* end_msg is not from its client */
    int64_t retries, cap_ns;
    bool opened;  /* RUN_OPEN came, here or to an earlier aggregator */
    bool dismiss; /* its agents, when it is over */
    uint64_t barrier_id;
    int64_t end_ns, verdict_ns;
    uint64_t progress; /* answers, and records that agents held when they answered, since the end */
    int64_t progress_ns;
    uint64_t streams, undone, missing, committed;
    uint64_t waiting;   /* members still waited for */
    uint64_t unsettled; /* members, including those given up */
    bool list_due;
    bool is_listed;         /* see agg_run_set_listed() */
    agg_member_t *unlisted; /* the member with the zero id, or NULL */
    agg_member_t **members;
    size_t n_members, capacity;
    crema_map_t *by_id;
    crema_link_t asks;
    agg_awaited_t *awaited;
    crema_link_t mended;             /* in agg_awaited_mended() */
    crema_msg_t *open_msg, *end_msg; /* copies; NULL: not opened, not ended */
    crema_msg_t seal;                /* end_msg with the verdict; no type: not judged */
    crema_msg_t *sealed_msg;         /* copy; NULL: not sealed */
    size_t n_reasons;
    size_t lacking; /* reasons of the last verdict that late data can remove */
    uint64_t reasons_left_out;
    Crema__Reason *reasons[AGG_RUN_REASONS_MAX + 1]; /* each is in reason_rows */
    Crema__Reason reason_rows[AGG_RUN_REASONS_MAX + 1];
    agg_run_subject_t subjects[AGG_RUN_REASONS_MAX + 1];
};

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
CREMA_MUST_CHECK crema_err_t agg_run_on_open(agg_run_t *self, const Crema__RunOpen *msg);
CREMA_MUST_CHECK crema_err_t agg_run_on_end(agg_run_t *self, const Crema__RunEnd *msg,
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
CREMA_MUST_CHECK crema_err_t agg_run_on_sealed(agg_run_t *self, const Crema__Sealed *sealed);

/* The member with that id, created if necessary. CREMA_ELIMIT, CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t agg_run_member(agg_run_t *self, const crema_id_t *agent_id,
                                            agg_member_t **ret_member);
/* NULL: not a member. */
agg_member_t *agg_run_find(const agg_run_t *self, const crema_id_t *agent_id);

/* This member must answer and is asked from now on at its interval H. `silent_ns`: how long it
 * has been silent; if that exceeds all waits together it is given up at once. */
void agg_run_expect(agg_run_t *self, agg_member_t *member, int64_t interval_ns, int64_t silent_ns,
                    int64_t now_ns);
/* It serves all runs: if it has been silent since the run ended and has no stream of it, the list
 * of writers is enough. Call it before agg_run_expect(). */
void agg_run_set_optional(agg_member_t *member, bool is_optional);
/* True for an optional member without a stream that owes its answer for two seconds, while the
 * list of writers names every stream: an agent that is there answers within a round trip, whatever
 * its H is. */
bool agg_run_can_spare(const agg_run_t *self, const agg_member_t *member, int64_t now_ns);
/* No agent has a stream of this run, by its list of writers: none is waited for to bring one. If
 * one comes after all, the run gets another verdict. */
void agg_run_expect_no_stream(agg_run_t *self);
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
/* The whole list of writers is durable, names at least one stream, and leaves none unknown. */
void agg_run_set_listed(agg_run_t *self, bool is_listed);
/* Number of parts announced by RUN_END. */
uint32_t agg_run_writer_parts(const agg_run_t *self);

/* True if nothing is outstanding, waiting has ended, or its client's limit is over. */
bool agg_run_is_ready(const agg_run_t *self, int64_t now_ns);

/* Reopens a verdict without reasons because durable records are gone: the waits for their
 * senders start over. False if the verdict holds. */
bool agg_run_reopen(agg_run_t *self, int64_t now_ns);

/* True if everything missing has come after a verdict whose reasons late data can remove: a new
 * verdict is due. */
bool agg_run_is_mended(const agg_run_t *self);
/* True if returning members should be asked. */
bool agg_run_wants_answers(const agg_run_t *self);

/* Giving a verdict: clear the reasons, blame for each fault, then give it. Reasons above the
 * limit are counted in a last one. */
void agg_run_clear_reasons(agg_run_t *self);
void agg_run_blame(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                   const char *text);
/* The same for a reason that late data cannot remove. */
void agg_run_blame_for_good(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                            const char *text);
void agg_run_give_verdict(agg_run_t *self, int64_t now_ns, int64_t real_ns);

/* RUN_STATE without agents, waiting_for and seconds, which the caller adds. */
Crema__RunState agg_run_state(const agg_run_t *self);

/* ---- between agg_run.c, the run and its verdict, and agg_run_members.c, which it uses */

/* Something that was waited for has come. */
void agg_run_progress(agg_run_t *self, uint64_t n, int64_t now_ns);
/* Updates what depends on agg_run_is_mended(). */
void agg_run_follow_mended(agg_run_t *self);
/* The member was just asked in some way: the waits start over. */
void agg_run_begin_waits(agg_run_t *self, agg_member_t *member, int64_t now_ns);

#endif
