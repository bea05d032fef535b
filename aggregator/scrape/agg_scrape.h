/* agg_scrape - what the aggregator counts, and how it is shown to Prometheus. */
#ifndef AGG_SCRAPE_H
#define AGG_SCRAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "agg_core.h"
#include "crema_scrape.h"
#include "crema_server.h"
#include "crema_tally.h"

/* Counted, logged with the last line, and shown to every program that scrapes. */
typedef struct {
    uint64_t messages, bad, unroutable, untaken, dropped, sink_dropped;
    uint64_t runs, put_bytes, put_records;
    uint64_t revoked;                /* messages of keys that are not admitted any more */
    crema_tally_t verdicts, reasons; /* that were given */
} agg_counts_t;

/* Everything is borrowed. */
typedef struct {
    const agg_core_t *core;
    const crema_server_t *server;
    const agg_counts_t *counts;
    int64_t credit_bytes;
} agg_scrape_t;

/* The verdicts there are are shown before the first of them is given. */
void agg_scrape_prepare(agg_counts_t *counts);
/* A verdict of that run was given. */
void agg_scrape_count(agg_counts_t *counts, const agg_core_t *core, const crema_id_t *run_id);

/* A crema_scrape_fn; `context` is an agg_scrape_t. */
void agg_scrape_expose(void *context, crema_exposition_t *out);

#endif
