#include "sink_commit.h"

#include <assert.h>
#include <stdlib.h>

#include "crema_list.h"
#include "crema_map.h"

#define SEQ_MAX (UINT64_MAX / 2)

typedef struct stream stream_t;

/* A run with streams in memory. */
typedef struct {
    crema_id_t run_id;
    stream_t *streams; /* latest first */
    size_t n;
    crema_link_t unsynced, syncing; /* written since the last sync began, and before */
} run_t;

struct stream {
    crema_id_t stream_id;
    run_t *run;
    stream_t *next_of_run;
    uint64_t written;   /* in the journal */
    uint64_t syncing;   /* `written` when the sync under way began */
    uint64_t committed; /* synced; at most written */
    uint64_t hi;        /* was in the journal once; counts only if above `written` */
    bool ended;         /* `written` is the END: nothing may follow */
    crema_link_t unsynced_link, syncing_link; /* in the lists of its run */
    crema_link_t answer_link;
};

struct sink_commit {
    crema_map_t *streams;
    crema_map_t *runs;    /* run_t * by run_id */
    crema_link_t answers; /* streams to acknowledge, oldest first */
    sink_commit_stats_t stats;
};

crema_err_t
sink_commit_new(size_t streams_max, sink_commit_t **ret_self)
{
    sink_commit_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_list_init(&self->answers);
    crema_err_t err = crema_map_new(streams_max, &self->streams);
    if (err == CREMA_OK)
        err = crema_map_new(streams_max, &self->runs);
    if (err != CREMA_OK) {
        sink_commit_destroy(&self);
        return err;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
sink_commit_destroy(sink_commit_t **self_p)
{
    sink_commit_t *self = *self_p;
    if (!self)
        return;
    crema_map_destroy_all(&self->runs, free);
    crema_map_destroy_all(&self->streams, free);
    free(self);
    *self_p = NULL;
}

static run_t *
s_run(sink_commit_t *self, const crema_id_t *run_id, crema_err_t *ret_err)
{
    run_t *run = crema_map_find(self->runs, run_id);
    if (run)
        return run;
    run = crema_map_make(self->runs, run_id, sizeof *run, ret_err);
    if (run) {
        run->run_id = *run_id;
        crema_list_init(&run->unsynced);
        crema_list_init(&run->syncing);
    }
    return run;
}

static void
s_drop_empty(sink_commit_t *self, run_t *run)
{
    if (run->n > 0)
        return;
    (void)crema_map_take(self->runs, &run->run_id);
    free(run);
}

static stream_t *
s_add(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
      crema_err_t *ret_err)
{
    run_t *run = s_run(self, run_id, ret_err);
    if (!run)
        return NULL;
    stream_t *stream = crema_map_make(self->streams, stream_id, sizeof *stream, ret_err);
    if (!stream) {
        s_drop_empty(self, run);
        return NULL;
    }
    stream->stream_id = *stream_id;
    stream->run = run;
    stream->next_of_run = run->streams;
    run->streams = stream;
    run->n++;
    self->stats.streams++;
    return stream;
}

static stream_t *
s_get(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id, uint64_t last,
      crema_err_t *ret_err)
{
    *ret_err = CREMA_EINVAL;
    if (last > SEQ_MAX)
        return NULL;
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (!stream)
        return s_add(self, stream_id, run_id, ret_err);
    if (crema_id_equal(&stream->run->run_id, run_id))
        return stream;
    self->stats.strays++;
    *ret_err = CREMA_EPROTO;
    return NULL;
}

crema_err_t
sink_commit_restore(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                    uint64_t committed, uint64_t hi, bool closed)
{
    crema_err_t err;
    stream_t *stream = s_get(self, stream_id, run_id, committed > hi ? committed : hi, &err);
    if (!stream)
        return err;
    if (committed > stream->written)
        stream->written = stream->committed = committed;
    if (hi > stream->hi)
        stream->hi = hi;
    stream->ended |= closed;
    return CREMA_OK;
}

crema_err_t
sink_commit_restore_put(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                        uint64_t first, uint64_t last, bool closed)
{
    crema_err_t err;
    stream_t *stream = s_get(self, stream_id, run_id, last, &err);
    if (!stream)
        return err;
    if (first <= stream->written + 1 && last > stream->written) {
        stream->written = stream->committed = last;
        stream->ended |= closed;
    }
    if (last > stream->hi)
        stream->hi = last;
    return CREMA_OK;
}

/* True if it was written to since the last sync that has ended began. */
static bool
s_is_unsynced(const stream_t *stream)
{
    return crema_list_is_linked(&stream->unsynced_link) ||
           crema_list_is_linked(&stream->syncing_link);
}

void
sink_commit_lower(sink_commit_t *self, const crema_id_t *stream_id, uint64_t committed)
{
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (!stream || s_is_unsynced(stream) || committed >= stream->committed)
        return;
    if (stream->hi < stream->committed)
        stream->hi = stream->committed;
    stream->written = stream->committed = committed;
    stream->ended = false;
}

void
sink_commit_renew(sink_commit_t *self, const crema_id_t *run_id)
{
    const run_t *run = crema_map_find(self->runs, run_id);
    for (stream_t *stream = run ? run->streams : NULL; stream; stream = stream->next_of_run) {
        assert(!s_is_unsynced(stream));
        self->stats.uncommitted += stream->committed;
        stream->syncing = stream->written;
        stream->committed = 0;
        crema_list_append(&stream->run->syncing, &stream->syncing_link);
    }
}

static void
s_remove_streams(sink_commit_t *self, run_t *run)
{
    while (run->streams) {
        stream_t *stream = run->streams;
        run->streams = stream->next_of_run;
        self->stats.streams--;
        self->stats.uncommitted -= stream->written - stream->committed;
        crema_list_remove(&stream->unsynced_link);
        crema_list_remove(&stream->syncing_link);
        crema_list_remove(&stream->answer_link);
        (void)crema_map_take(self->streams, &stream->stream_id);
        free(stream);
    }
    run->n = 0;
    s_drop_empty(self, run);
}

void
sink_commit_drop(sink_commit_t *self, const crema_id_t *run_id)
{
    run_t *run = crema_map_find(self->runs, run_id);
    if (run)
        s_remove_streams(self, run);
}

bool
sink_commit_forget(sink_commit_t *self, const crema_id_t *run_id)
{
    run_t *run = crema_map_find(self->runs, run_id);
    if (!run)
        return true;
    for (const stream_t *stream = run->streams; stream; stream = stream->next_of_run)
        if (s_is_unsynced(stream) || crema_list_is_linked(&stream->answer_link))
            return false;
    s_remove_streams(self, run);
    return true;
}

/* Decides on first_seq..last of a stream whose records up to `written` are there. */
static sink_put_t
s_decide(uint64_t written, bool ended, uint64_t first_seq, uint64_t last)
{
    if (last <= written)
        return SINK_PUT_REPEAT;
    if (ended)
        return SINK_PUT_CLOSED;
    if (first_seq > written + 1)
        return SINK_PUT_GAP;
    return SINK_PUT_APPEND;
}

crema_err_t
sink_commit_put(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                uint64_t first_seq, uint32_t n, sink_put_t *ret_decision, uint32_t *ret_skip,
                uint64_t *ret_next)
{
    if (first_seq < 1 || n < 1 || first_seq > SEQ_MAX - n)
        return CREMA_EINVAL;
    stream_t *stream = crema_map_find(self->streams, stream_id);
    uint64_t written = stream ? stream->written : 0;
    sink_put_t decision = s_decide(written, stream && stream->ended, first_seq, first_seq + n - 1);
    if (decision == SINK_PUT_APPEND && !stream) {
        crema_err_t err;
        stream = s_add(self, stream_id, run_id, &err);
        if (!stream)
            return err;
    }
    self->stats.repeats += decision == SINK_PUT_REPEAT;
    self->stats.gaps += decision == SINK_PUT_GAP;
    if (stream && decision == SINK_PUT_REPEAT)
        crema_list_append(&self->answers, &stream->answer_link);
    *ret_decision = decision;
    *ret_skip = decision == SINK_PUT_APPEND && first_seq <= written
                    ? (uint32_t)(written + 1 - first_seq)
                    : 0;
    *ret_next = written + 1;
    return CREMA_OK;
}

void
sink_commit_written(sink_commit_t *self, const crema_id_t *stream_id, uint64_t last_seq,
                    bool closed)
{
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (!stream || stream->ended || last_seq <= stream->written || last_seq > SEQ_MAX)
        return;
    self->stats.appended += last_seq - stream->written;
    self->stats.uncommitted += last_seq - stream->written;
    stream->written = last_seq;
    stream->ended = closed;
    crema_list_append(&stream->run->unsynced, &stream->unsynced_link);
}

void
sink_commit_begin(sink_commit_t *self, const crema_id_t *run_id)
{
    run_t *run = crema_map_find(self->runs, run_id);
    for (stream_t *stream;
         run && (stream = CREMA_LIST_FIRST(&run->unsynced, stream_t, unsynced_link)) != NULL;) {
        crema_list_remove(&stream->unsynced_link);
        stream->syncing = stream->written;
        crema_list_append(&run->syncing, &stream->syncing_link);
    }
}

void
sink_commit_durable(sink_commit_t *self, const crema_id_t *run_id)
{
    run_t *run = crema_map_find(self->runs, run_id);
    for (stream_t *stream;
         run && (stream = CREMA_LIST_FIRST(&run->syncing, stream_t, syncing_link)) != NULL;) {
        crema_list_remove(&stream->syncing_link);
        self->stats.uncommitted -= stream->syncing - stream->committed;
        stream->committed = stream->syncing;
        crema_list_append(&self->answers, &stream->answer_link);
    }
}

/* The row of a stream as senders see it: CLOSED only once its END is durable. */
static crema_stream_row_t
s_row(const stream_t *stream)
{
    bool closed = stream->ended && stream->committed == stream->written;
    return (crema_stream_row_t){
        .stream_id = stream->stream_id,
        .run_id = stream->run->run_id,
        .hi = stream->committed > stream->hi ? stream->committed : stream->hi,
        .committed = stream->committed,
        .recv_next = stream->written + 1,
        .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0,
    };
}

size_t
sink_commit_take(sink_commit_t *self, crema_stream_row_t *rows, size_t max)
{
    size_t n = 0;
    for (stream_t *stream;
         n < max && (stream = CREMA_LIST_FIRST(&self->answers, stream_t, answer_link)) != NULL;) {
        crema_list_remove(&stream->answer_link);
        rows[n++] = s_row(stream);
    }
    return n;
}

void
sink_commit_ask(sink_commit_t *self, const crema_id_t *stream_id)
{
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (stream)
        crema_list_append(&self->answers, &stream->answer_link);
}

bool
sink_commit_get(const sink_commit_t *self, const crema_id_t *stream_id, crema_stream_row_t *ret_row)
{
    const stream_t *stream = crema_map_find(self->streams, stream_id);
    *ret_row = stream ? s_row(stream) : (crema_stream_row_t){.stream_id = *stream_id};
    return stream != NULL;
}

void
sink_commit_each(const sink_commit_t *self, const crema_id_t *run_id,
                 void (*fn)(void *context, const crema_stream_row_t *row), void *context)
{
    const run_t *run = crema_map_find(self->runs, run_id);
    for (const stream_t *stream = run ? run->streams : NULL; stream; stream = stream->next_of_run) {
        crema_stream_row_t row = s_row(stream);
        fn(context, &row);
    }
}

size_t
sink_commit_count(const sink_commit_t *self, const crema_id_t *run_id)
{
    const run_t *run = crema_map_find(self->runs, run_id);
    return run ? run->n : 0;
}

sink_commit_stats_t
sink_commit_stats(const sink_commit_t *self)
{
    return self->stats;
}
