/* sink_private - what the parts of the reactor share: sink.c is its life and loop, sink_intake.c takes messages, sink_group.c commits,
 * sink_listing.c confirms lists of writers, sink_trouble.c says what is in the way, sink_scrape.c shows what was counted. */
#ifndef SINK_PRIVATE_H
#define SINK_PRIVATE_H

#include <limits.h>

#include "crema_histogram.h"
#include "crema_record.h"
#include "crema_scrape.h"
#include "crema_server.h"
#include "crema_tally.h"
#include "sink.h"
#include "sink_peers.h"
#include "sink_sealing.h"
#include "sink_silence.h"
#include "sink_store.h"
#include "sink_views.h"

#define SINK_FULL_RETRY_MS 1000

/* Counted, told with the last line of the log, and shown to whoever scrapes. */
typedef struct {
    uint64_t messages, bad, puts, records, refused, full, nacks, commits, committed_bytes, sealed,
        seal_failed, not_allowed;
    crema_histogram_t latency, sync; /* of commits */
    crema_tally_t verdicts, reasons; /* of files that were made */
} counts_t;

struct sink {
    sink_config_t config;
    const sink_config_t *given; /* what `config` was copied from */
    crema_server_t *server;
    zloop_t *loop;
    zsock_t *router; /* the server's */
    int signals;
    int turn; /* sink_turn.h; -1: none */
    crema_arena_t *arena;
    sink_peers_t *peers;
    sink_store_t *store;
    sink_sealing_t *sealing;
    sink_silence_t *silence;
    sink_views_t *views;    /* NULL: none wanted */
    crema_scrape_t *scrape; /* likewise */
    sink_space_t space;
    uint64_t free_b;
    char trouble[PATH_MAX + 512]; /* with the last FULL */
    bool commit_armed;            /* a timer is set */
    bool listing_armed;           /* likewise, of sink_listing.c */
    int64_t t_commit_ns;          /* monotonic time of the last commit */
    int64_t t_pending_ns;         /* of the first record that waits for the next one; 0: none */
    int64_t wall_ahead_ns;        /* of the monotonic clock, at the last tick */
    bool broken;                  /* the journal failed */
    bool sent_full;               /* a peer was told in this batch */
    counts_t counts;
};

/* ---- sink_group.c: each is false when the loop must end */

/* Commits what waits and tells every aggregator what is durable by now. */
bool sink_group_commit(sink_t *self);
/* At once if the last commit is an interval ago or enough has come together, else when the interval is over. */
bool sink_group_commit_soon(sink_t *self);

/* What the store has to say goes to the log. */
void sink_group_log_events(sink_t *self);

/* ---- sink_listing.c */

/* Journals that are to be read once more are, a piece now and the rest between other things. */
void sink_listing_go_on(sink_t *self);

/* ---- sink_trouble.c */

/* A FULL that says why, for whoever waits: short of room, without any, or `why` if something else is wrong (NULL: nothing is). */
crema_msg_t sink_trouble_full(sink_t *self, const char *why);

/* ---- sink_scrape.c */

/* The verdicts there are are shown before the first of them is given. */
void sink_scrape_prepare(sink_t *self);
/* A file was made. */
void sink_scrape_count(sink_t *self, const crema_sealed_t *sealed);
/* The journal can be written. */
bool sink_scrape_is_healthy(const sink_t *self);
/* A crema_scrape_fn; `context` is the sink. */
void sink_scrape_expose(void *context, crema_exposition_t *out);

/* ---- sink_intake.c */

/* Everything that waits at the socket, up to a bound. False: the loop must end. */
bool sink_intake_take(sink_t *self);

#endif
