/* sink - the reactor: takes PUTs from aggregators, commits them in groups, acknowledges what is
 * durable, seals runs.
 *
 * One loop; threads only write and sync journals. The PUTs of a run are committed at once if as
 * much time has passed since its last commit as that took, at least a millisecond, at most
 * commit_interval; otherwise when that time is up or commit_bytes of it have collected. While a
 * journal is written and synced the loop goes on, so a run does not wait for those of others.
 * Messages about runs are committed at once. */
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
    const char *keys_dir;    /* NULL: no keys */
    const char *health_file; /* NULL: no file */
    const char *metrics;     /* address, see crema_scrape.h; NULL: no metrics */
    int64_t connections_per_address;
    int64_t commit_interval_ns, commit_bytes;
    int64_t flush_interval_ns;
    int64_t journal_limit_bytes;
    int64_t run_limit_bytes;   /* of one run's journal; 0: no limit */
    int64_t abandon_after_ns;  /* a run that has been silent this long is sealed without its end */
    int64_t seal_memory_bytes; /* memory limit of a sealing process; 0: half of this machine's */
    int64_t retain_ns;    /* how long the journal of a sealed run is kept, in time of service */
    int64_t retain_bytes; /* of the journals of sealed runs; 0: no limit */
    bool live;
    bool output_lock; /* see sink_turn.h */
    bool insecure;    /* without keys, other users of this host may connect */
} sink_config_t;

/* Opens the store, then binds. After an error `ret_why` is one sentence that says what to do.
 * CREMA_ECONFIG: the configuration cannot work; CREMA_EBUSY: endpoint or store is in use. */
CREMA_MUST_CHECK crema_err_t sink_new(const sink_config_t *config, char *ret_why, size_t why_size,
                                      sink_t **ret_self);
void sink_destroy(sink_t **self_p);

/* The endpoint with the port in use; the URL of the metrics, NULL: none. */
const char *sink_endpoint(const sink_t *self);
const char *sink_metrics_url(const sink_t *self);

/* Runs until SIGTERM or SIGINT, then commits what is pending and returns CREMA_OK. CREMA_EIO:
 * the journal can no longer be trusted; only durable records were acknowledged. */
CREMA_MUST_CHECK crema_err_t sink_serve(sink_t *self);

#endif
