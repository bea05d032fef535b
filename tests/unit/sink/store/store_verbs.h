/* store_verbs - a store in a scratch directory, and what a test does with it. */
#ifndef STORE_VERBS_H
#define STORE_VERBS_H

#include "children.h"
#include "must.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "record_frames.h"
#include "sink_store.h"
#include "sink_tombs.h"
#include "store_events.h"
#include "store_opened.h"

#define RUN 0x70
static char *s_dir;
static frames_t s_frames;
static char s_why[512];

static inline int
s_setup(void **state)
{
    (void)state;
    s_dir = scratch_make();
    return 0;
}

static inline int
s_teardown(void **state)
{
    (void)children_end(state);
    scratch_remove(&s_dir);
    return 0;
}

/* ---- verbs */

static inline sink_store_config_t
s_config(void)
{
    return (sink_store_config_t){
        .dir = s_dir, .streams_max = 1000, .runs_max = 100, .on_event = store_events_anew()};
}

static inline crema_err_t
s_open(const sink_store_config_t *config, sink_store_t **ret_store)
{
    return sink_store_open(config, s_why, sizeof s_why, ret_store);
}

/* Nothing that was there is looked at yet. */
static inline sink_store_t *
must_open_unread(void)
{
    sink_store_t *store;
    sink_store_config_t config = s_config();
    if (s_open(&config, &store) != CREMA_OK)
        fail_msg("%s", s_why);
    return store;
}

static inline sink_store_t *
must_open(sink_store_report_t *ret_report)
{
    sink_store_t *store = must_open_unread();
    must_examine(store);
    if (ret_report)
        *ret_report = sink_store_report(store);
    return store;
}

/* Until it is durable, or failed. */
static inline crema_err_t
s_keep_refused(sink_store_t *store)
{
    crema_err_t err;
    while ((err = sink_store_keep_refused(store)) == CREMA_EAGAIN)
        must_commit(store);
    return err;
}

/* PUT of dictionaries first..last, the last of them an END if `end`. */
static inline crema_err_t
s_put(sink_store_t *store, uint8_t stream, uint8_t run, uint64_t first, uint64_t last, bool end,
      sink_store_put_t *ret_answer)
{
    frames_clear(&s_frames);
    frames_add_dicts(&s_frames, first, end ? last - 1 : last);
    if (end)
        frames_add_end(&s_frames, last);
    Crema__Put put = frames_put(&s_frames, stream, run, first);
    return sink_store_put(store, &put, 5000, ret_answer);
}

static inline sink_store_put_t
must_put(sink_store_t *store, uint8_t stream, uint64_t first, uint64_t last, bool end)
{
    sink_store_put_t answer;
    must(s_put(store, stream, RUN, first, last, end, &answer));
    return answer;
}

static inline crema_stream_row_t
s_row(sink_store_t *store, uint8_t stream)
{
    crema_stream_row_t row;
    crema_id_t id = frames_id(stream);
    sink_commit_get(sink_store_watermarks(store), &id, &row);
    return row;
}

#endif
