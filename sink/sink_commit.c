#include "sink_commit.h"

#include <stdlib.h>

#include "crema_map.h"
#include "crema_mutant.h"

#define SEQ_MAX (UINT64_MAX / 2)

typedef struct stream stream_t;
struct stream {
    crema_id_t stream_id, run_id;
    uint64_t written;   /* in the journal */
    uint64_t committed; /* synced; at most written */
    bool ended;         /* `written` is the END: nothing may follow */
    bool in_unsynced;   /* linked by next_unsynced */
    bool in_told;       /* linked by next_told */
    stream_t *next_unsynced;
    stream_t *next_told;
};

struct sink_commit {
    crema_map_t *streams;
    stream_t *unsynced; /* written > committed, latest first */
    stream_t *told;     /* to acknowledge, oldest first */
    stream_t **told_end;
    sink_commit_stats_t stats;
};

crema_err_t
sink_commit_new(size_t streams_max, sink_commit_t **ret_self)
{
    sink_commit_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->told_end = &self->told;
    crema_err_t err = crema_map_new(streams_max, &self->streams);
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
    size_t cursor = 0;
    for (stream_t *stream;
         self->streams && (stream = crema_map_next(self->streams, &cursor)) != NULL;)
        free(stream);
    crema_map_destroy(&self->streams);
    free(self);
    *self_p = NULL;
}

static crema_err_t
s_add(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
      stream_t **ret_stream)
{
    stream_t *stream = calloc(1, sizeof *stream);
    if (!stream)
        return CREMA_ENOMEM;
    stream->stream_id = *stream_id;
    stream->run_id = *run_id;
    crema_err_t err = crema_map_add(self->streams, stream_id, stream);
    if (err != CREMA_OK) {
        free(stream);
        return err;
    }
    self->stats.streams++;
    *ret_stream = stream;
    return CREMA_OK;
}

static void
s_tell(sink_commit_t *self, stream_t *stream)
{
    if (stream->in_told)
        return;
    stream->in_told = true;
    stream->next_told = NULL;
    *self->told_end = stream;
    self->told_end = &stream->next_told;
}

crema_err_t
sink_commit_restore(sink_commit_t *self, const crema_id_t *stream_id, const crema_id_t *run_id,
                    uint64_t committed, bool closed)
{
    if (committed > SEQ_MAX)
        return CREMA_EINVAL;
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (!stream) {
        crema_err_t err = s_add(self, stream_id, run_id, &stream);
        if (err != CREMA_OK)
            return err;
    }
    if (committed > stream->written)
        stream->written = stream->committed = committed;
    if (closed && !stream->ended) {
        stream->ended = true;
        self->stats.tombstones++;
    }
    return CREMA_OK;
}

/* What to do with first_seq..last of a stream of which `written` are there. */
static sink_put_t
s_decide(uint64_t written, bool ended, uint64_t first_seq, uint64_t last)
{
    if (last <= written)
        return SINK_PUT_REPEAT;
    if (ended)
        return SINK_PUT_CLOSED;
    if (first_seq > written + 1 && !CREMA_MUTATED(5))
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
        crema_err_t err = s_add(self, stream_id, run_id, &stream);
        if (err != CREMA_OK)
            return err;
    }
    self->stats.repeats += decision == SINK_PUT_REPEAT;
    self->stats.gaps += decision == SINK_PUT_GAP;
    self->stats.beyond_end += decision == SINK_PUT_CLOSED;
    if (stream && decision == SINK_PUT_REPEAT)
        s_tell(self, stream);
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
    if (!stream->in_unsynced) {
        stream->in_unsynced = true;
        stream->next_unsynced = self->unsynced;
        self->unsynced = stream;
    }
    if (CREMA_MUTATED(9)) /* written is not durable */
        sink_commit_durable(self);
}

void
sink_commit_durable(sink_commit_t *self)
{
    while (self->unsynced) {
        stream_t *stream = self->unsynced;
        self->unsynced = stream->next_unsynced;
        stream->in_unsynced = false;
        self->stats.uncommitted -= stream->written - stream->committed;
        self->stats.tombstones += stream->ended;
        stream->committed = stream->written;
        s_tell(self, stream);
    }
}

/* A stream is CLOSED for others once its END is durable. */
static crema_stream_row_t
s_row(const stream_t *stream)
{
    bool closed = stream->ended && stream->committed == stream->written;
    return (crema_stream_row_t){
        .stream_id = stream->stream_id,
        .run_id = stream->run_id,
        .hi = stream->written,
        .committed = stream->committed,
        .recv_next = stream->written + 1,
        .flags = closed ? CREMA_STREAM_FLAG_CLOSED : 0,
    };
}

size_t
sink_commit_take(sink_commit_t *self, crema_stream_row_t *rows, size_t max)
{
    size_t n = 0;
    while (self->told && n < max) {
        stream_t *stream = self->told;
        self->told = stream->next_told;
        stream->in_told = false;
        rows[n++] = s_row(stream);
    }
    if (!self->told)
        self->told_end = &self->told;
    return n;
}

void
sink_commit_ask(sink_commit_t *self, const crema_id_t *stream_id)
{
    stream_t *stream = crema_map_find(self->streams, stream_id);
    if (stream)
        s_tell(self, stream);
}

bool
sink_commit_get(const sink_commit_t *self, const crema_id_t *stream_id, crema_stream_row_t *ret_row)
{
    const stream_t *stream = crema_map_find(self->streams, stream_id);
    *ret_row = stream ? s_row(stream) : (crema_stream_row_t){.stream_id = *stream_id};
    return stream != NULL;
}

void
sink_commit_each(const sink_commit_t *self,
                 void (*fn)(void *context, const crema_stream_row_t *row), void *context)
{
    size_t cursor = 0;
    for (const stream_t *stream; (stream = crema_map_next(self->streams, &cursor)) != NULL;) {
        crema_stream_row_t row = s_row(stream);
        fn(context, &row);
    }
}

sink_commit_stats_t
sink_commit_stats(const sink_commit_t *self)
{
    return self->stats;
}
