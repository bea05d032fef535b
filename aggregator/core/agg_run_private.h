/* agg_run_private - shared by agg_run.c, the run and its verdict, and agg_run_members.c, which it uses. Pure: time is an argument. */
#ifndef AGG_RUN_PRIVATE_H
#define AGG_RUN_PRIVATE_H

#include "agg_run.h"
#include "crema_list.h"
#include "crema_map.h"

#define AGG_RUN_TEXT_BYTES 192
#define AGG_RUN_SUBJECT_BYTES 64

struct agg_member {
    crema_id_t agent_id;
    uint64_t streams, undone, missing;
    bool owes_answer;
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
    bool opened, dismiss;
    uint64_t barrier_id;
    int64_t end_ns, verdict_ns;
    uint64_t streams, undone, missing, committed;
    uint64_t waiting;   /* members still waited for */
    uint64_t unsettled; /* members, including those given up */
    bool list_due;
    agg_member_t *unlisted; /* the member with the zero id, or NULL */
    agg_member_t **members;
    size_t n_members, capacity;
    crema_map_t *by_id;
    crema_link_t asks;
    agg_awaited_t *awaited;
    crema_link_t mended;                 /* in agg_awaited_mended() */
    crema_run_msg_t *open_msg, *end_msg; /* copies, one block each */
    crema_run_msg_t seal;                /* end_msg with the verdict */
    crema_sealed_t *sealed;              /* copy */
    size_t n_reasons;
    size_t lacking; /* reasons of the last verdict that late data can remove */
    uint64_t reasons_left_out;
    crema_reason_t reasons[AGG_RUN_REASONS_MAX + 1];
    agg_run_subject_t subjects[AGG_RUN_REASONS_MAX + 1];
};

/* Updates what depends on agg_run_is_mended(). */
void agg_run_follow_mended(agg_run_t *self);
/* The member was just asked in some way: the waits start over. */
void agg_run_begin_waits(agg_run_t *self, agg_member_t *member, int64_t now_ns);

#endif
