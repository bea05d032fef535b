#include "agg_splits.h"

#include <stdlib.h>

#include "crema_frame.h"
#include "crema_map.h"

#define MINUTE_NS INT64_C(60000000000)
#define DONE_QUIET_NS (10 * MINUTE_NS)
#define EVENTS_MAX (INT64_C(1) << 48) /* of one chunk; more are no honest writer's */
#define QUIET_NS (24 * 60 * MINUTE_NS)

struct agg_splits {
    crema_map_t *runs; /* agg_live_run_t * by run id */
    bool news;         /* some run has news */
    bool counts_events;
    uint64_t not_taken;
};

crema_err_t
agg_splits_new(size_t runs_max, agg_splits_t **ret_self)
{
    agg_splits_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = crema_map_new(runs_max, &self->runs);
    if (err != CREMA_OK) {
        agg_splits_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

static void
s_free_run(void *value)
{
    agg_live_run_t *run = value;
    agg_rollup_destroy(&run->rollup);
    free(run);
}

void
agg_splits_destroy(agg_splits_t **self_p)
{
    agg_splits_t *self = *self_p;
    if (self) {
        crema_map_destroy_all(&self->runs, s_free_run);
        free(self);
    }
    *self_p = NULL;
}

static agg_live_run_t *
s_add(agg_splits_t *self, const crema_id_t *run_id)
{
    agg_live_run_t *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->run_id = *run_id;
    if (agg_rollup_new(AGG_ROLLUP_LIMITS, &run->rollup) != CREMA_OK ||
        crema_map_add(self->runs, run_id, run) != CREMA_OK) {
        s_free_run(run);
        return NULL;
    }
    return run;
}

static agg_live_run_t *
s_take(agg_splits_t *self, const crema_id_t *run_id, int64_t now_ns)
{
    agg_live_run_t *run = crema_map_find(self->runs, run_id);
    if (!run)
        run = s_add(self, run_id);
    if (run)
        run->heard_ns = now_ns;
    else
        self->not_taken++;
    return run;
}

static void
s_note_news(agg_splits_t *self, agg_live_run_t *run)
{
    run->news = true;
    self->news = true;
}

void
agg_splits_on_message(agg_splits_t *self, const crema_run_msg_t *msg, int64_t now_ns)
{
    agg_live_run_t *run = s_take(self, &msg->run_id, now_ns);
    if (!run || msg->n_prefixes == 0)
        return;
    if (agg_rollup_set_prefixes(run->rollup, msg->n_prefixes, msg->processor_prefixes) != CREMA_OK)
        self->not_taken++;
    s_note_news(self, run);
}

#define STATUS_OK 0 /* the first value of /chunks.status */

static void
s_count_events(agg_live_run_t *run, const crema_batch_t *batch)
{
    const size_t events = (size_t)crema_table_column(batch->table, "n_events"),
                 status = (size_t)crema_table_column(batch->table, "status");
    if (batch->flags & CREMA_BATCH_PROVISIONAL)
        return;
    for (uint32_t row = 0; row < batch->rows; row++) {
        const int64_t n = crema_batch_int(batch, row, events, 0);
        if (n > 0 && n <= EVENTS_MAX && crema_batch_int(batch, row, status, -1) == STATUS_OK)
            run->events += (uint64_t)n;
    }
}

void
agg_splits_count_events(agg_splits_t *self)
{
    self->counts_events = true;
}

static void
s_take_record(agg_splits_t *self, agg_live_run_t *run, const crema_data_t *put, size_t at,
              crema_arena_t *arena)
{
    crema_frame_t frame;
    crema_record_t record;
    if (crema_frame_decode(put->frames + at, put->frames_bytes - at, &frame) != CREMA_OK ||
        crema_record_decode(&frame, arena, &record) != CREMA_OK) {
        self->not_taken++;
        return;
    }
    if (record.type == CREMA_RECORD_BATCH &&
        record.batch.table == crema_table(CREMA_TABLE_CHUNKS)) {
        s_count_events(run, &record.batch);
        return;
    }
    agg_rollup_take(run->rollup, &put->stream_id, &record);
    s_note_news(self, run);
}

void
agg_splits_on_put(agg_splits_t *self, const crema_data_t *put, crema_arena_t *arena, int64_t now_ns)
{
    agg_live_run_t *run = s_take(self, &put->run_id, now_ns);
    if (!run)
        return;
    size_t at = 0;
    crema_frame_t peek;
    while (crema_frame_look(put->frames + at, put->frames_bytes - at, &peek)) {
        if (peek.type == CREMA_RECORD_DICT ||
            crema_record_is_batch_of(&peek, CREMA_TABLE_ACTIVITIES) ||
            (self->counts_events && crema_record_is_batch_of(&peek, CREMA_TABLE_CHUNKS)))
            s_take_record(self, run, put, at, arena);
        at += crema_frame_bytes(&peek);
    }
    self->not_taken += at < put->frames_bytes;
}

void
agg_splits_on_done(agg_splits_t *self, const crema_id_t *run_id)
{
    agg_live_run_t *run = crema_map_find(self->runs, run_id);
    if (run)
        run->done = true;
}

bool
agg_splits_news(agg_splits_t *self, agg_split_news_t *ret_news)
{
    size_t cursor = 0;
    agg_live_run_t *run;
    while (self->news && (run = crema_map_next(self->runs, &cursor))) {
        if (!run->news)
            continue;
        double processor_s = agg_rollup_side_s(run->rollup, CREMA_SIDE_PROCESSOR);
        double overhead_s = agg_rollup_overhead_s(run->rollup);
        *ret_news = (agg_split_news_t){
            .run_id = run->run_id,
            .processor_s = processor_s - run->shown_processor_s,
            .overhead_s = overhead_s - run->shown_overhead_s,
        };
        run->shown_processor_s = processor_s;
        run->shown_overhead_s = overhead_s;
        run->news = false;
        return true;
    }
    self->news = false;
    return false;
}

const agg_live_run_t *
agg_splits_find(const agg_splits_t *self, const crema_id_t *run_id)
{
    return crema_map_find(self->runs, run_id);
}

const agg_live_run_t *
agg_splits_next(const agg_splits_t *self, size_t *cursor)
{
    return crema_map_next(self->runs, cursor);
}

void
agg_splits_sweep(agg_splits_t *self, int64_t now_ns)
{
    size_t cursor = 0;
    agg_live_run_t *run;
    while ((run = crema_map_next(self->runs, &cursor))) {
        if (now_ns - run->heard_ns < (run->done ? DONE_QUIET_NS : QUIET_NS))
            continue;
        crema_map_take(self->runs, &run->run_id);
        s_free_run(run);
        cursor = 0; /* removing an entry ends the iteration */
    }
}

uint64_t
agg_splits_not_taken(const agg_splits_t *self)
{
    return self->not_taken;
}
