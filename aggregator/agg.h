/* agg - the reactor: a ROUTER for agents and collectors, a DEALER to the sink, and a lossy tap
 * for observers.
 *
 * One thread, one loop. All decisions are made in agg_core; the reactor reads sockets and
 * clocks, passes events on, and carries out actions. It never stops reading: what it cannot take
 * is dropped and asked for again. */
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
    const char *tap_endpoint; /* NULL: no tap */
    const char *keys_dir;     /* NULL: no keys */
    int64_t credit_bytes;     /* for all agents together */
    bool insecure; /* without keys: allows a sink on another host and connections of other users */
    int64_t abandon_after_ns; /* a run that has been silent this long is ended */
    int64_t connections_per_address;
    int64_t runs_per_client, bytes_per_client; /* of open runs: no more are opened above that */
    const char *health_file;                   /* NULL: none */
    const char *metrics;                       /* address, see crema_scrape.h; NULL: none */
} agg_options_t;

/* Connects to the sink and binds. After an error `ret_why` is one sentence that says what to do.
 * CREMA_ECONFIG: the configuration cannot work; CREMA_EBUSY: an endpoint is in use. */
CREMA_MUST_CHECK crema_err_t agg_new(const agg_options_t *options, char *ret_why, size_t why_size,
                                     agg_t **ret_self);
void agg_destroy(agg_t **self_p);

/* The endpoints with the ports in use; the tap's is NULL if there is none. */
const char *agg_endpoint(const agg_t *self);
const char *agg_tap_endpoint(const agg_t *self);
/* The URL of the metrics; NULL: none. */
const char *agg_metrics_url(const agg_t *self);

/* Runs until SIGTERM or SIGINT. */
void agg_serve(agg_t *self);

#endif
