/* agg_run - one run: what its client sent, what is outstanding, and the verdict once nothing is or
 * waiting has ended. Pure: time is an argument.
 *
 *     UNKNOWN --RUN_OPEN--> OPEN
 *     UNKNOWN, OPEN --RUN_END, or abandoned--> BARRIER --all settled or given up--> VERDICT
 *     VERDICT --SEALED--> SEALED, FAILED --late data completes it--> VERDICT
 *     any later phase of an abandoned run --RUN_END--> BARRIER
 *
 * These are the phases the collector sees. For whom a run waits, and how long, is in
 * agg_members.h.
 *
 * The client may limit the waiting: after limit_ns without progress the verdict is given on what
 * is there. Progress is an answer, or a record that its agent held when it answered and that has
 * become durable: what living writers still add is none, or a run might never end. */
#ifndef AGG_RUN_H
#define AGG_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg_access.h"
#include "agg_core.h"
#include "agg_members.h"
#include "agg_rollup.h"
#include "agg_session.h"
#include "agg_writers.h"
#include "crema_error.h"
#include "crema_list.h"
#include "crema_map.h"
#include "crema_wire.h"

#define AGG_RUN_REASONS_MAX 256
#define AGG_RUN_TEXT_BYTES 192
#define AGG_RUN_SUBJECT_BYTES 64

/* Runs are linked by age, oldest first, so that a tick only looks at the first of each list. */
typedef enum {
    AGG_AGE_NONE,  /* ending: other timers apply */
    AGG_AGE_OPEN,  /* since its last record or client message: will be abandoned */
    AGG_AGE_WHOLE, /* sealed and nothing is missing: will be forgotten soon */
    /* sealed with reasons that late data may remove, or not sealable: will be forgotten */
    AGG_AGE_MISSING,
    AGG_AGES,
} agg_age_t;

typedef struct {
    char subject[AGG_RUN_SUBJECT_BYTES], text[AGG_RUN_TEXT_BYTES];
} agg_run_subject_t;

struct agg_run {
    /* from its client */
    crema_id_t run_id;
    crema_run_phase_t phase;
    bool abandoned; /* end_msg is not from its client */
    bool opened;    /* RUN_OPEN came, here or to an earlier aggregator */
    bool was_asked; /* its client has sent this aggregator a message */
    bool dismiss;   /* its agents, when it is over */
    bool revoked;   /* opened_by was revoked; the run is ended at once */
    bool has_opener;
    crema_principal_t opened_by;     /* by the first RUN_OPEN or RUN_END */
    crema_msg_t *open_msg, *end_msg; /* copies; NULL: not opened, not ended */
    agg_list_t list;

    /* the barrier */
    uint64_t barrier_id;
    int64_t end_ns, verdict_ns;
    int64_t retries, cap_ns;
    uint64_t progress; /* answers, and records that agents held when they answered, since the end */
    int64_t progress_ns;
    agg_sums_t sums;
    uint64_t waiting;   /* members still waited for */
    uint64_t unsettled; /* members, including those given up */
    /* parts of the list of writers are outstanding: see agg_run_set_list_due() */
    bool list_due;
    /* all of the list is durable, names at least one stream, and leaves none unknown */
    bool is_listed;
    agg_member_t **members;
    size_t n_members, capacity;
    crema_map_t *by_id;
    agg_member_t *unlisted; /* the member with the zero id, or NULL */
    crema_link_t asks;      /* agg_member_t.ask */
    agg_awaited_t *awaited;
    crema_link_t recovered; /* in awaited->recovered, while agg_run_is_recovered() */

    /* the verdict and the file */
    crema_msg_t seal;        /* end_msg with the verdict; no type: not judged */
    crema_msg_t *sealed_msg; /* copy; NULL: not sealed */
    size_t n_reasons;
    size_t removable; /* reasons of the last verdict that late data can remove */
    uint64_t reasons_left_out;
    Crema__Reason *reasons[AGG_RUN_REASONS_MAX + 1]; /* each is in reason_rows */
    Crema__Reason reason_rows[AGG_RUN_REASONS_MAX + 1];
    agg_run_subject_t subjects[AGG_RUN_REASONS_MAX + 1];
    int64_t seal_at_ns, seal_wait_ns;
    bool late_reported; /* since it was last sealed */
    bool regressed;     /* records that were durable are missing, e.g. in a restored store */
    bool is_full;       /* the sink keeps only first and last records of its streams */

    /* its live split */
    agg_rollup_t *rollup;           /* NULL: nothing of it came here yet, or split_is_over */
    bool split_is_over;             /* it has a file, or that failed */
    double processor_s, overhead_s; /* of a split that is over */

    /* what it holds, and the key that it counts for */
    crema_link_t streams; /* agg_stream_t.of_run */
    agg_owner_t *owner;   /* NULL: only the sink knows it */
    bool is_counted;      /* in the owner's sums of open runs */
    uint64_t bytes;       /* of its records */
    agg_usage_t uses;
    uint64_t messages_b; /* of RUN_OPEN and RUN_END, in uses.kept_b */

    /* what is to be sent, and when it is looked at */
    crema_link_t out; /* in agg_core.runs_out */
    uint32_t events;
    bool want_open, want_seal, want_state;
    bool want_end;   /* an earlier aggregator may have ended it: the sink will report the seal */
    bool want_admit; /* the key of its own agents is to be admitted */
    bool has_watcher;
    agg_peer_t watcher;  /* the connection that asked last and gets updates */
    crema_link_t ending; /* in agg_core.ending: waiting for its barrier */
    crema_link_t filing; /* in agg_core.filing: has a verdict but no file yet */
    crema_link_t over;   /* in agg_core.over: sealed, still has streams */
    crema_link_t age;    /* in one of agg_core.ages */
    agg_age_t age_of;    /* the list it is in */
    int64_t since_ns;    /* start of its age: last record or client message, or its file */
    int64_t since_real_ns;
};

/* ---- the run alone */

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

/* Parts of the list of writers have not come or are not durable. Waiting is limited; a later
 * part leads to a revised verdict. */
void agg_run_set_list_due(agg_run_t *self, bool due);
/* Number of parts announced by RUN_END. */
uint32_t agg_run_writer_parts(const agg_run_t *self);

/* True if nothing is outstanding, waiting has ended, or its client's limit is over. */
bool agg_run_is_ready(const agg_run_t *self, int64_t now_ns);

/* Reopens a verdict without reasons because durable records are gone: the waits for their
 * senders start over. False if the verdict holds. */
bool agg_run_reopen(agg_run_t *self, int64_t now_ns);

/* True if returning members should be asked. */
bool agg_run_wants_answers(const agg_run_t *self);

/* Giving a verdict: clear the reasons, add one for each fault, then give it. Reasons above the
 * limit are counted in a last one. */
void agg_run_clear_reasons(agg_run_t *self);
void agg_run_add_reason(agg_run_t *self, const char *code, const char *subject, uint64_t count,
                        const char *text);
/* The same for a reason that late data cannot remove. */
void agg_run_add_final_reason(agg_run_t *self, const char *code, const char *subject,
                              uint64_t count, const char *text);
void agg_run_give_verdict(agg_run_t *self, int64_t now_ns, int64_t real_ns);

/* RUN_STATE without agents, waiting_for and seconds, which the caller adds. */
Crema__RunState agg_run_state(const agg_run_t *self);

/* Keeps the last sums of the live split only. */
void agg_run_end_split(agg_run_t *self);
void agg_run_free_list(agg_run_t *self);

#endif
