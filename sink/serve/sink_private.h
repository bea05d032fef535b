/* sink_private - shared by the parts of the reactor: sink.c has its life cycle and loop,
 * sink_intake.c takes messages, sink_group.c commits, sink_listing.c confirms lists of writers,
 * sink_trouble.c describes what blocks the sink, sink_scrape.c exposes the counters. */
#ifndef SINK_PRIVATE_H
#define SINK_PRIVATE_H

#include <limits.h>

#include "crema_histogram.h"
#include "crema_record.h"
#include "crema_scrape.h"
#include "crema_server.h"
#include "crema_tally.h"
#include "sink.h"
#include "sink_answers.h"
#include "sink_peers.h"
#include "sink_sealing.h"
#include "sink_store.h"
#include "sink_views.h"

#define SINK_FULL_RETRY_MS 1000

/* Exposed as metrics, and logged in the program's last line. */
typedef struct {
    uint64_t messages, bad, puts, records, refused, full, nacks, commits, committed_bytes, sealed,
        seal_failed, not_allowed;
    crema_histogram_t latency, sync; /* of commits */
    crema_tally_t verdicts, reasons; /* of files that were made */
} counts_t;

struct sink {
    sink_config_t config;
    crema_server_t *server;
    zloop_t *loop;
    zsock_t *router; /* belongs to the server */
    int signals;
    int turn; /* sink_turn.h; -1: none */
    crema_arena_t *arena;
    Crema__StreamTable *table; /* for one message */
    sink_peers_t *peers;
    sink_answers_t *answers; /* that wait for their group */
    sink_store_t *store;
    sink_sealing_t *sealing;
    sink_views_t *views;    /* NULL: no live files */
    crema_scrape_t *scrape; /* NULL: no metrics */
    sink_space_t space;
    uint64_t free_b;
    char trouble[PATH_MAX + 512];          /* text of the last FULL */
    int commit_timer;                      /* of the next commit */
    int64_t commit_due_ns;                 /* its monotonic time; INT64_MAX: it is not set */
    void (*on_durable)(struct sink *self); /* after each commit: sink_intake_answer() */
    bool listing_armed;                    /* the timer of sink_listing.c is set */
    int tick_timer;                        /* -1: none */
    int64_t ticked_ns;                     /* the last tick */
    bool is_quiet;                         /* nothing was due each second then */
    int64_t wall_ahead_ns;                 /* of the monotonic clock, at the last tick */
    uint64_t ticks;                        /* so far */
    uint64_t broadcasts;                   /* at the last tick */
    size_t flush_ms;                       /* between two updates of live files */
    bool broken;                           /* the journal failed */
    bool sent_full;                        /* FULL was sent to a peer in this batch */
    counts_t counts;
};

/* ---- sink_group.c: those with a result of true or false return false when the loop must end */

/* The text of an error. The system's own reason is at hand only where a descriptor was missing. */
const char *sink_group_why(crema_err_t err);

/* Has the loop continue when journals have been synced; not 0: it cannot. */
int sink_group_attach(sink_t *self);
/* At the end: commits what waits before it returns, and sends every aggregator what is durable. */
void sink_group_commit(sink_t *self);
/* Has what waits committed, each run as soon as it has rested from its last commit or enough of it
 * has collected, and sends every aggregator what is durable. */
bool sink_group_go_on(sink_t *self);
/* Sends every aggregator what is durable by now and was not sent. */
void sink_group_acknowledge(sink_t *self);

/* For the store, with the sink as context: logs an event; a group has become durable. */
void sink_group_on_event(void *context, const sink_store_event_t *event);
void sink_group_on_group(void *context, const sink_store_group_t *group);

/* ---- sink_listing.c */

/* Continues re-reading journals: one piece now, the rest between other work. */
void sink_listing_go_on(sink_t *self);

/* ---- sink_freeing.c */

/* Frees journals of sealed runs that are older than --retain or exceed --retain-bytes, oldest
 * first. */
void sink_free_old(sink_t *self);
/* Without room, sealed runs give way, complete ones first: what is in a file, too, against what is
 * in no file. */
void sink_make_room(sink_t *self);
/* For the store, with the sink as context. */
void sink_freeing_on_freed(void *context, const crema_id_t *run_id, const char *option,
                           crema_err_t err);

/* ---- sink_trouble.c */

/* A FULL message with its reason: little or no space, or `why` if something else is wrong (may
 * be NULL). */
crema_msg_t sink_trouble_full(sink_t *self, const char *why);
/* Reports runs at their limit, so that clients learn it before the run is over. */
void sink_trouble_report_runs(sink_t *self);

/* ---- sink_scrape.c */

/* The verdicts there are are shown before the first of them is given. */
void sink_scrape_prepare(sink_t *self);
/* A file was made. */
void sink_scrape_count(sink_t *self, const Crema__Sealed *sealed);
/* The journal can be written. */
bool sink_scrape_is_healthy(const sink_t *self);
/* A crema_scrape_fn; `context` is the sink. */
void sink_scrape_expose(void *context, crema_exposition_t *out);

/* ---- sink_intake.c */

/* Takes everything waiting at the socket, up to a bound. False: the loop must end. */
bool sink_intake_take(sink_t *self);
/* Answers what has become durable. */
void sink_intake_answer(sink_t *self);
/* Tells every aggregator of a file once that is durable in the journal. */
void sink_intake_say_sealed(sink_t *self, const crema_msg_t *msg);

#endif
