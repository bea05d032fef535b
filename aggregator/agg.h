/* agg - the reactor: ROUTER towards agents and collectors, DEALER towards the sink, a lossy tap for whoever watches.
 *
 * One thread, one loop. Everything is decided in agg_core; this reads sockets and clocks, hands over, and carries out. It never stops
 * reading: what it may not take is dropped and asked for again. */
#ifndef AGG_H
#define AGG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct agg agg_t;

typedef struct {
    const char *endpoint; /* for agents and collectors */
    const char *sink_endpoint;
    const char *tap_endpoint; /* NULL: none */
    const char *keys_dir;     /* NULL: none */
    int64_t credit_bytes;     /* of all agents together */
    bool insecure;            /* without keys: sends to other hosts, and listens to other users */
    int64_t abandon_after_ns; /* a run that nothing is heard of for so long is ended */
    int64_t connections_per_address;
    /* SIGHUP: renews the options that were given to agg_new(); false: all stays. NULL: nothing to renew. */
    bool (*reload)(void);
    int64_t runs_per_client, bytes_per_client; /* of open runs: no more are opened above that */
    const char *health_file;                   /* NULL: none */
    const char *metrics;                       /* address, see crema_scrape.h; NULL: none */
    bool metrics_runs;                         /* with series of single runs */
} agg_options_t;

/* Connects to the sink and binds. `ret_why` is one sentence that says what to do. CREMA_ECONFIG: the configuration cannot work; CREMA_EBUSY: an
 * endpoint is taken. */
CREMA_MUST_CHECK crema_err_t agg_new(const agg_options_t *options, char *ret_why, size_t why_size,
                                     agg_t **ret_self);
void agg_destroy(agg_t **self_p);

/* Where it listens, with the port that was chosen; the tap's is NULL if there is none. */
const char *agg_endpoint(const agg_t *self);
const char *agg_tap_endpoint(const agg_t *self);
/* Where it is scraped; NULL: nowhere. */
const char *agg_metrics_url(const agg_t *self);

/* Until SIGTERM or SIGINT. */
void agg_serve(agg_t *self);

#endif
