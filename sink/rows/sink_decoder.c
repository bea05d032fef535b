#include "sink_decoder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_utf8.h"
#include "sink_decoder_impl.h"

/* Name that a writer uses for all names above its limit. */
#define WRITER_OVERFLOW "__overflow__"

static void
s_find_columns(sink_decoder_t *self)
{
    for (int t = 0; t < CREMA_TABLE_WIRE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        assert(crema_table_row_bytes(table) <= CREMA_ROW_BYTES_MAX);
        sink_columns_t *columns = &self->columns[t];
        columns->time_at =
            t == CREMA_TABLE_ACTIVITIES ? (int)offsetof(crema_activities_row_t, t1_ns) : 0;
        columns->seq = crema_table_column(table, "seq");
        columns->t_recv = crema_table_column(table, "t_recv_ns");
        columns->stream = crema_table_column(table, "stream_id");
        int worker = crema_table_column(table, "worker_id");
        columns->worker_at = worker >= 0 ? (int)crema_table_offset(table, (size_t)worker) : -1;
        columns->wire_only = -1;
        for (size_t i = 0; i < table->n_columns; i++)
            if (table->columns[i].origin == CREMA_FROM_WIRE_ONLY)
                columns->wire_only = (int)i;
        columns->bound = sink_bound_of(table);
    }
}

crema_err_t
sink_decoder_new(sink_rows_fn emit, void *context, sink_decoder_t **ret_self)
{
    sink_decoder_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->emit = emit;
    self->context = context;
    self->plain_metric = SINK_DICT_NONE;
    s_find_columns(self);
    crema_err_t err = crema_arena_new(CREMA_RECORD_ARENA_BYTES, &self->arena);
    if (!(self->limits = malloc(sizeof *self->limits)))
        err = CREMA_ENOMEM;
    else
        *self->limits = crema_limits();
    if (err == CREMA_OK)
        err = sink_dict_new(self->limits, &self->dict);
    if (err == CREMA_OK)
        err = sink_meta_new(self->limits, &self->meta);
    if (err == CREMA_OK)
        err = sink_texts_new(self->limits, &self->versions);
    if (err == CREMA_OK)
        err = sink_activity_new(self->limits, &self->activity);
    if (err == CREMA_OK)
        err = sink_attempts_new(self->limits, &self->attempts);
    if (err == CREMA_OK)
        err = crema_map_new(self->limits->limit[CREMA_LIMIT_CHUNK_TASKS], &self->chunk_tasks);
    if (err == CREMA_OK)
        err = sink_intern_new_with(sizeof(uint32_t), &self->agents);
    if (err != CREMA_OK)
        sink_decoder_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_decoder_destroy(sink_decoder_t **self_p)
{
    sink_decoder_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < self->n_streams; i++)
        sink_stream_destroy(&self->streams[i]);
    free(self->streams);
    free(self->clocks);
    free(self->seen);
    free(self->departures);
    sink_intern_destroy(&self->agents);
    crema_map_destroy(&self->chunk_tasks);
    sink_attempts_destroy(&self->attempts);
    sink_activity_destroy(&self->activity);
    sink_texts_destroy(&self->versions);
    sink_meta_destroy(&self->meta);
    sink_dict_destroy(&self->dict);
    crema_arena_destroy(&self->arena);
    free(self->limits);
    free(self);
    *self_p = NULL;
}

crema_err_t
sink_decoder_msg(sink_decoder_t *self, const crema_msg_t *msg)
{
    crema_err_t err = sink_meta_take(self->meta, msg);
    if (err == CREMA_OK)
        sink_decoder_side_prefixes(self);
    return err;
}

crema_err_t
sink_decoder_writers(sink_decoder_t *self, const Crema__RunWriters *msg)
{
    return sink_meta_writers(self->meta, msg);
}

/* ---- records of each type */

static crema_err_t
s_stream_info(sink_decoder_t *self, sink_stream_t *stream, const Crema__StreamInfo *info)
{
    stream->has_info = true;
    stream->kind = info->kind;
    stream->t_real_ns = sink_bound_time_ns(info->t_real_ns);
    stream->t_mono_ns = sink_bound_time_ns(info->t_mono_ns);
    stream->t_process_ns = sink_bound_time_ns(info->t_process_ns);
    stream->t_first_ns = stream->t_real_ns;
    stream->nthreads = info->nthreads;
    crema_dict_stream_row_t *row =
        sink_dict_change(self->dict, CREMA_TABLE_DICT_STREAM, stream->row);
    row->kind = (uint8_t)info->kind;
    row->pid = info->pid;
    row->truncated |= crema_utf8_fit_name(info->host, row->host, sizeof row->host);
    row->truncated |= crema_utf8_fit_name(info->worker_name, row->worker, sizeof row->worker);

    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < info->n_attribute_keys && err == CREMA_OK; i++)
        err = sink_texts_put(self->versions, info->attribute_keys[i], info->attribute_values[i],
                             false);
    if (err == CREMA_OK && info->kind == CREMA_STREAM_AGENT && info->agent_id.len > 0) {
        stream->agent_id = *crema_id_of(info->agent_id);
        err = sink_decoder_agent(self, &stream->agent_id, stream->row);
    }
    if (err == CREMA_OK && info->kind == CREMA_STREAM_WORKER) {
        Crema__DictEntry entry = {.kind = CREMA_DICT_WORKER,
                                  .text = info->worker_name,
                                  .uuid = info->worker_uuid,
                                  .host = info->host,
                                  .pid = info->pid,
                                  .nthreads = (int32_t)info->nthreads,
                                  .memory_limit_b = info->memory_limit_b};
        err = sink_dict_entry(self->dict, &entry, SINK_DICT_NONE, &stream->worker);
        if (err == CREMA_OK)
            err = sink_decoder_saw(self, stream->worker,
                                   stream->t_process_ns ? stream->t_process_ns : stream->t_real_ns,
                                   stream->t_real_ns);
    }
    return err;
}

static crema_err_t
s_dict(sink_decoder_t *self, sink_stream_t *stream, const Crema__Dict *dict)
{
    for (size_t i = 0; i < dict->n_entries; i++) {
        const Crema__DictEntry *entry = dict->entries[i];
        uint32_t id, parent = SINK_DICT_NONE;
        if (entry->kind == CREMA_DICT_FILE)
            parent = sink_stream_id(stream, CREMA_DICT_DATASET, entry->parent);
        if (entry->kind == CREMA_DICT_METRIC)
            parent = sink_stream_id(stream, CREMA_DICT_UNIT, entry->parent);
        Crema__DictEntry stack = *entry; /* with the run's number of its frame */
        if (entry->kind == CREMA_DICT_STACK) {
            if (!entry->outermost)
                parent = sink_stream_id(stream, CREMA_DICT_STACK, entry->parent);
            stack.frame = sink_stream_id(stream, CREMA_DICT_FRAME, entry->frame);
        }
        crema_err_t err = sink_dict_entry(self->dict, &stack, parent, &id);
        if (err == CREMA_OK && entry->kind == CREMA_DICT_TASK_PREFIX && id != SINK_DICT_NONE)
            sink_decoder_side_prefix(self, id);
        if (err == CREMA_OK)
            err = sink_stream_name(stream, entry->kind, entry->id, id, self->limits,
                                   &self->name_numbers_b);
        if (err != CREMA_OK)
            return err;
        if (strcmp(entry->text, WRITER_OVERFLOW) == 0)
            crema_limits_met(self->limits, CREMA_LIMIT_WRITER_NAMES, 1);
    }
    return CREMA_OK;
}

static crema_err_t
s_end(sink_decoder_t *self, sink_stream_t *stream, const Crema__End *end, int64_t t_ns)
{
    crema_err_t err = CREMA_OK;
    stream->closed = true;
    stream->end = end->reason;
    if (end->dropped > stream->dropped)
        stream->dropped = end->dropped;
    stream->dropped_disk_full = end->dropped_disk_full;
    stream->dropped_spool_limit = end->dropped_spool_limit;
    if (end->torn_bytes > 0) {
        stream->torn = true;
        err = sink_decoder_gap(self, stream, CREMA_GAP_TORN, 0, 0, 1, t_ns);
    }
    return err;
}

static unsigned
s_cause(crema_loss_reason_t reason)
{
    static const unsigned causes[] = {
        [CREMA_LOSS_UNKNOWN] = CREMA_GAP_UNKNOWN,
        [CREMA_LOSS_EVICTED] = CREMA_GAP_SPOOL_LIMIT,
        [CREMA_LOSS_CORRUPT] = CREMA_GAP_CORRUPT,
        [CREMA_LOSS_TORN_TAIL] = CREMA_GAP_TORN,
        [CREMA_LOSS_STORE_REGRESSED] = CREMA_GAP_STORE_REGRESSED,
        [CREMA_LOSS_AGENT_GONE] = CREMA_GAP_AGENT_LOST,
        [CREMA_LOSS_INVALID] = CREMA_GAP_DECODE_ERROR,
        [CREMA_LOSS_DISK_FULL] = CREMA_GAP_DISK_FULL,
    };
    return (unsigned)reason < sizeof causes / sizeof *causes ? causes[reason] : CREMA_GAP_UNKNOWN;
}

static crema_err_t
s_record(sink_decoder_t *self, sink_stream_t *stream, const crema_record_t *record,
         const crema_frame_t *frame, int64_t t_recv_ns)
{
    int64_t t_ns = record->type == CREMA_RECORD_STREAM
                       ? sink_bound_time_ns(record->stream.t_real_ns)
                       : sink_stream_real_ns(stream, frame->t_ns);
    crema_err_t err = sink_decoder_gap_end(self, stream, t_ns);
    if (err != CREMA_OK)
        return err;
    switch (record->type) {
    case CREMA_RECORD_STREAM:
        err = s_stream_info(self, stream, &record->stream);
        break;
    case CREMA_RECORD_DICT:
        err = s_dict(self, stream, &record->dict);
        break;
    case CREMA_RECORD_BATCH:
        err = sink_decoder_batch(self, stream, &record->batch, frame->seq, t_recv_ns);
        break;
    case CREMA_RECORD_END:
        err = s_end(self, stream, &record->end, t_ns);
        break;
    case CREMA_RECORD_LOSS:
        break; /* taken before */
    }
    stream->received++;
    if (t_ns > stream->t_last_ns)
        stream->t_last_ns = t_ns;
    if (stream->t_first_ns == 0)
        stream->t_first_ns = t_ns;
    /* The END of a killed writer is written later, by its agent. */
    bool by_writer = record->type != CREMA_RECORD_END || record->end.reason == CREMA_END_FINISHED;
    return err == CREMA_OK && by_writer ? sink_decoder_saw(self, stream->worker, t_ns, t_ns) : err;
}

/* ---- frames of a PUT */

/* Takes one whole frame; its number is checked against the stream's numbers so far. */
static crema_err_t
s_frame(sink_decoder_t *self, sink_stream_t *stream, const crema_frame_t *frame, bool readable,
        int64_t t_recv_ns)
{
    if (frame->seq < stream->next_seq) {
        stream->repeats++;
        return CREMA_OK;
    }
    crema_record_t record;
    crema_err_t decoded = readable ? crema_record_decode(frame, self->arena, &record) : CREMA_ECRC;
    if (decoded == CREMA_ENOMEM)
        return decoded;
    bool loss = decoded == CREMA_OK && record.type == CREMA_RECORD_LOSS;
    uint64_t first = frame->seq;
    if (loss && record.loss.first < first)
        first = record.loss.first < stream->next_seq ? stream->next_seq : record.loss.first;
    crema_err_t err = CREMA_OK;
    if (first > stream->next_seq) /* the journal itself has a hole */
        err = sink_decoder_gap(self, stream, CREMA_GAP_CORRUPT, stream->next_seq, first - 1,
                               first - stream->next_seq, t_recv_ns);
    stream->next_seq = frame->seq + 1;
    if (err == CREMA_OK && loss)
        return sink_decoder_gap(self, stream, s_cause(record.loss.reason), first, frame->seq,
                                frame->seq - first + 1, sink_bound_time_ns(record.loss.t_real_ns));
    if (err == CREMA_OK && decoded != CREMA_OK)
        return sink_decoder_gap(self, stream, CREMA_GAP_DECODE_ERROR, frame->seq, frame->seq, 1,
                                t_recv_ns);
    return err == CREMA_OK ? s_record(self, stream, &record, frame, t_recv_ns) : err;
}

static crema_err_t
s_stream_of(sink_decoder_t *self, const crema_id_t *id, sink_stream_t **ret_stream)
{
    uint32_t row;
    *ret_stream = NULL;
    crema_err_t err = sink_dict_stream(self->dict, id, &row);
    if (err != CREMA_OK)
        return err;
    if (row < self->n_streams) {
        *ret_stream = self->streams[row];
        return CREMA_OK;
    }
    sink_stream_t **streams =
        crema_grow(self->streams, row, &self->streams_room, sizeof(sink_stream_t *));
    if (!streams)
        return CREMA_ENOMEM;
    self->streams = streams;
    err = sink_stream_new(id, row, &self->streams[row]);
    if (err != CREMA_OK)
        return err;
    self->n_streams++;
    *ret_stream = self->streams[row];
    return CREMA_OK;
}

crema_err_t
sink_decoder_mark(sink_decoder_t *self, const sink_journal_mark_t *mark)
{
    sink_stream_t *stream;
    uint64_t hi = mark->hi > mark->committed ? mark->hi : mark->committed;
    if (hi > UINT64_MAX / 2)
        return CREMA_OK;
    crema_err_t err = s_stream_of(self, &mark->stream_id, &stream);
    if (err == CREMA_OK && hi > stream->held)
        stream->held = hi;
    return err == CREMA_ELIMIT ? CREMA_OK : err;
}

crema_err_t
sink_decoder_put(sink_decoder_t *self, const sink_journal_put_t *put)
{
    sink_stream_t *stream;
    crema_err_t err = s_stream_of(self, &put->stream_id, &stream);
    if (err == CREMA_ELIMIT) {
        crema_limits_met(self->limits, CREMA_LIMIT_STREAMS, put->n);
        return CREMA_OK;
    }
    if (err != CREMA_OK)
        return err;
    if (crema_id_is_zero(&stream->agent_id) || stream->kind != CREMA_STREAM_AGENT)
        stream->agent_id = put->agent_id;
    size_t offset = 0;
    while (err == CREMA_OK && offset < put->frames_bytes) {
        crema_frame_t frame;
        crema_err_t read =
            crema_frame_decode(put->frames + offset, put->frames_bytes - offset, &frame);
        if (read != CREMA_OK && read != CREMA_ECRC)
            break; /* the rest shows as a hole in the numbers */
        if (put->late && frame.seq >= stream->next_seq)
            stream->late++;
        err = s_frame(self, stream, &frame, read == CREMA_OK, put->t_recv_ns);
        offset += crema_frame_bytes(&frame);
    }
    uint64_t behind = put->first_seq + put->n;
    if (err == CREMA_OK && put->n > 0 && behind > stream->next_seq) {
        err = sink_decoder_gap(self, stream, CREMA_GAP_CORRUPT, stream->next_seq, behind - 1,
                               behind - stream->next_seq, put->t_recv_ns);
        stream->next_seq = behind;
    }
    return err;
}

/* ---- the end */

void
sink_decoder_settle(sink_decoder_t *self)
{
    char uuid[sizeof((crema_dict_stream_row_t *)0)->agent_uuid] = "";
    for (size_t i = 0; i < self->n_streams; i++) {
        const sink_stream_t *stream = self->streams[i];
        const crema_dict_stream_row_t *now =
            sink_dict_row(self->dict, CREMA_TABLE_DICT_STREAM, stream->row);
        int64_t last_seq = (int64_t)stream->next_seq - 1;
        if (now->last_seq == last_seq)
            continue;
        crema_dict_stream_row_t *row =
            sink_dict_change(self->dict, CREMA_TABLE_DICT_STREAM, stream->row);
        row->last_seq = last_seq;
        row->t_first_ns = stream->t_first_ns;
        row->t_last_ns = stream->t_last_ns;
        row->closed = stream->closed;
        memcpy(row->agent_uuid, crema_id_uuid(&stream->agent_id, uuid), sizeof row->agent_uuid);
    }
    size_t n = sink_dict_count(self->dict, CREMA_TABLE_DICT_WORKER);
    for (uint32_t i = 0; i < n && i < self->seen_room; i++) {
        const sink_seen_t *seen = &self->seen[i];
        const crema_dict_worker_row_t *now = sink_dict_row(self->dict, CREMA_TABLE_DICT_WORKER, i);
        if (seen->t_last_ns == 0 ||
            (now->t_last_ns == seen->t_last_ns && now->t_first_ns == seen->t_first_ns))
            continue;
        crema_dict_worker_row_t *row = sink_dict_change(self->dict, CREMA_TABLE_DICT_WORKER, i);
        row->t_first_ns = seen->t_first_ns;
        row->t_last_ns = seen->t_last_ns;
    }
}

/* Lists what a writer could not keep, by the causes that its END has; where it has none, or there
 * is no END, the cause is unknown. */
static crema_err_t
s_list_dropped(sink_decoder_t *self, sink_stream_t *stream)
{
    const struct {
        unsigned cause;
        uint64_t n;
    } parts[] = {
        {CREMA_GAP_DISK_FULL, stream->dropped_disk_full},
        {CREMA_GAP_SPOOL_LIMIT, stream->dropped_spool_limit},
        {CREMA_GAP_UNKNOWN, UINT64_MAX},
    };
    uint64_t rest = stream->dropped;
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && err == CREMA_OK; i++) {
        const uint64_t n = parts[i].n < rest ? parts[i].n : rest;
        if (n > 0)
            err = sink_decoder_gap(self, stream, parts[i].cause, 0, 0, n, stream->t_last_ns);
        rest -= n;
    }
    return err;
}

crema_err_t
sink_decoder_finish(sink_decoder_t *self)
{
    crema_err_t err = sink_decoder_lose_attempts(self);
    for (size_t i = 0; i < self->n_streams && err == CREMA_OK; i++) {
        sink_stream_t *stream = self->streams[i];
        if (stream->held >= stream->next_seq) {
            err = sink_decoder_gap(self, stream, CREMA_GAP_CORRUPT, stream->next_seq, stream->held,
                                   stream->held + 1 - stream->next_seq, stream->t_last_ns);
            stream->next_seq = stream->held + 1;
        }
        if (err == CREMA_OK)
            err = s_list_dropped(self, stream);
        if (err == CREMA_OK)
            err = sink_decoder_gap_end(self, stream, 0);
        /* An agent without its own stream is identified by the first stream that it shipped. */
        if (err == CREMA_OK && !crema_id_is_zero(&stream->agent_id))
            err = sink_decoder_agent(self, &stream->agent_id, stream->row);
    }
    if (err == CREMA_OK)
        err = sink_decoder_give_clocks(self, true);
    sink_decoder_settle(self);
    return err;
}

sink_dict_t *
sink_decoder_dict(const sink_decoder_t *self)
{
    return self->dict;
}

const sink_meta_t *
sink_decoder_meta(const sink_decoder_t *self)
{
    return self->meta;
}

const sink_texts_t *
sink_decoder_versions(const sink_decoder_t *self)
{
    return self->versions;
}

size_t
sink_decoder_streams(const sink_decoder_t *self)
{
    return self->n_streams;
}

const sink_stream_t *
sink_decoder_stream(const sink_decoder_t *self, size_t i)
{
    return self->streams[i];
}

const sink_stream_t *
sink_decoder_find_id(const sink_decoder_t *self, const crema_id_t *stream_id)
{
    uint32_t row = sink_dict_find_stream(self->dict, stream_id);
    return row < self->n_streams ? self->streams[row] : NULL;
}

const sink_stream_t *
sink_decoder_find(const sink_decoder_t *self, const char *stream_id)
{
    crema_id_t id;
    return crema_id_parse(stream_id, &id) ? sink_decoder_find_id(self, &id) : NULL;
}

crema_limits_t *
sink_decoder_limits(const sink_decoder_t *self)
{
    return self->limits;
}
