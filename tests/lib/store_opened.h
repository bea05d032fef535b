/* store_opened - opens a sink's store, and commits what was written to it, for tests. */
#ifndef STORE_OPENED_H
#define STORE_OPENED_H

#include "must.h"
#include "sink_store.h"
#include "store_events.h"

/* Reads what is there, and waits until that is durable; everybody is told. */
static inline void
must_examine(sink_store_t *store)
{
    crema_stream_row_t rows[64];
    while (sink_store_examine(store))
        ;
    must(sink_store_commit(store));
    while (sink_commit_take(sink_store_watermarks(store), rows, 64) > 0)
        ;
}

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
    must_examine(store);
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

/* Frees a run, and waits for that. */
static inline crema_err_t
store_free(sink_store_t *store, const crema_id_t *run_id)
{
    crema_err_t err = sink_store_begin_free(store, run_id, NULL), end = CREMA_OK;
    if (err == CREMA_EAGAIN) { /* it comes to rest first */
        end = sink_store_commit(store);
        err = sink_store_begin_free(store, run_id, NULL);
    }
    if (end == CREMA_OK && err == CREMA_OK)
        end = sink_store_commit(store);
    if (end != CREMA_OK || err != CREMA_OK)
        return end == CREMA_OK ? err : end;
    return sink_store_find(store, run_id)->freed ? CREMA_OK : CREMA_ENOSPC;
}

#endif
