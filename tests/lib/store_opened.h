/* store_opened - opens a sink's store, and commits what was written to it, for tests. */
#ifndef STORE_OPENED_H
#define STORE_OPENED_H

#include "must.h"
#include "sink_store.h"
#include "store_events.h"

/* A store in `dir` that has examined what is there, a second later. */
static inline sink_store_t *
must_open_store(const char *dir)
{
    sink_store_t *store;
    char why[512];
    sink_store_config_t config = {
        .dir = dir, .streams_max = 100, .runs_max = 10, .on_event = store_events_anew()};
    if (sink_store_open(&config, why, sizeof why, &store) != CREMA_OK)
        fail_msg("%s", why);
    sink_store_tick(store, INT64_C(1000000000));
    while (sink_store_examine(store))
        ;
    return store;
}

/* What the sink does after a commit: everybody is told. */
static inline void
must_commit(sink_store_t *store)
{
    crema_stream_row_t rows[64];
    must(sink_store_commit(store));
    while (sink_commit_take(sink_store_watermarks(store), rows, 64) > 0)
        ;
}

#endif
