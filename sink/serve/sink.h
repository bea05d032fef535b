/* sink - the reactor: takes PUTs of aggregators, commits them in groups, acknowledges what is durable, seals runs.
 *
 * One thread, one loop. A group is committed at once when the last commit is at least commit_interval ago, else when that time is up or
 * commit_bytes have come together: a lonely record waits for nobody, a flood costs one fdatasync an interval. */
#ifndef SINK_H
#define SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct sink sink_t;

typedef struct {
    const char *endpoint;
    const char *store_dir;
    const char *output_dir;
    const char *keys_dir;    /* NULL: none */
    const char *health_file; /* NULL: none */
    const char *metrics;     /* address, see crema_scrape.h; NULL: none */
    /* SIGHUP: renews the configuration that was given to sink_new(), which then takes its limits; false: all stays. NULL: nothing to renew. */
    bool (*reload)(void);
    int64_t connections_per_address;
    int64_t commit_interval_ns, commit_bytes;
    int64_t flush_interval_ns;
    int64_t journal_limit_bytes;
    int64_t run_limit_bytes; /* of one run's journal; 0: none */
    int64_t
        abandon_after_ns; /* a run that nothing is heard of for so long is sealed without its end */
    int64_t seal_memory_bytes; /* that a process that seals may have; 0: no limit */
    int64_t retain_ns;         /* a sealed run's journal is kept that long, in time of service */
    int64_t retain_bytes;      /* of the journals of sealed runs; 0: as many as there are */
    bool live;
    bool output_lock; /* see sink_turn.h */
    bool insecure;    /* without keys other users of this host may connect */
} sink_config_t;

/* Opens the store, then binds. `config` stays the caller's and is looked at again after `reload`. `ret_why` is one sentence that says what to do. CREMA_ECONFIG: the configuration cannot work;
 * CREMA_EBUSY: endpoint or store is taken. */
CREMA_MUST_CHECK crema_err_t sink_new(const sink_config_t *config, char *ret_why, size_t why_size,
                                      sink_t **ret_self);
void sink_destroy(sink_t **self_p);

/* Where it listens, with the port that was chosen; where it is scraped, NULL: nowhere. */
const char *sink_endpoint(const sink_t *self);
const char *sink_metrics_url(const sink_t *self);

/* Until SIGTERM or SIGINT: commits what is pending and returns CREMA_OK. CREMA_EIO: the journal can no longer be trusted; nothing was
 * acknowledged that is not durable. */
CREMA_MUST_CHECK crema_err_t sink_serve(sink_t *self);

#endif
