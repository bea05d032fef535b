/* Decodes the rows of a batch, table by table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_bytes.h"
#include "crema_grow.h"
#include "crema_split.h"
#include "crema_utf8.h"
#include "sink_decoder_impl.h"

#define RULE_OF_CHUNKS "chunk"
#define LOOKS_CONTEXT 1024 /* above every context of /activities */

static uint32_t
s_map(void *context, crema_dict_t kind, int64_t local)
{
    return sink_stream_id(context, kind, local);
}

/* ---- sides of prefixes */

/* That a task of the prefix was a chunk overrides any rule about names. */
static void
s_set_side(sink_decoder_t *self, uint32_t prefix, crema_side_t side, const char *rule)
{
    const crema_dict_task_prefix_row_t *now =
        sink_dict_row(self->dict, CREMA_TABLE_DICT_TASK_PREFIX, prefix);
    if (strncmp(now->rule, RULE_OF_CHUNKS, sizeof now->rule) == 0)
        return;
    crema_dict_task_prefix_row_t *row =
        sink_dict_change(self->dict, CREMA_TABLE_DICT_TASK_PREFIX, prefix);
    row->side = (uint8_t)side;
    crema_utf8_fit(rule ? rule : "", row->rule, sizeof row->rule);
}

void
sink_decoder_side_prefix(sink_decoder_t *self, uint32_t prefix)
{
    crema_split_rules_t rules = sink_meta_rules(self->meta);
    const char *rule = "", *text = sink_dict_text(self->dict, CREMA_DICT_TASK_PREFIX, prefix);
    crema_side_t side = crema_split_prefix(&rules, text, &rule);
    s_set_side(self, prefix, side, rule);
}

void
sink_decoder_side_prefixes(sink_decoder_t *self)
{
    size_t n = sink_dict_count(self->dict, CREMA_TABLE_DICT_TASK_PREFIX);
    for (size_t i = 0; i < n; i++)
        sink_decoder_side_prefix(self, (uint32_t)i);
}

/* ---- tasks that were chunks */

static crema_id_t
s_task_id(const sink_stream_t *stream, int64_t task_key)
{
    const uint64_t key[2] = {(uint64_t)task_key, stream->row};
    crema_id_t id;
    memcpy(id.bytes, key, sizeof id.bytes);
    return id;
}

static crema_err_t
s_note_chunk_task(sink_decoder_t *self, const sink_stream_t *stream, int64_t task_key)
{
    const crema_id_t id = s_task_id(stream, task_key);
    if (task_key == 0 || crema_map_find(self->chunk_tasks, &id))
        return CREMA_OK;
    if (crema_map_count(self->chunk_tasks) >= self->limits->limit[CREMA_LIMIT_CHUNK_TASKS]) {
        crema_limits_met(self->limits, CREMA_LIMIT_CHUNK_TASKS, 1);
        return CREMA_OK;
    }
    return crema_map_add(self->chunk_tasks, &id, self);
}

/* A task's event comes after the rows of its chunk; the next execution has rows of its own. */
static bool
s_was_chunk(sink_decoder_t *self, const sink_stream_t *stream, int64_t task_key)
{
    const crema_id_t id = s_task_id(stream, task_key);
    return crema_map_take(self->chunk_tasks, &id) != NULL;
}

/* ---- one row of each kind */

/* `attempt_ref` of a chunk, `baseline` of an activity. */
static int64_t
s_wire_only(const sink_decoder_t *self, const crema_batch_t *batch, uint32_t r, int64_t otherwise)
{
    int column = self->columns[batch->table->id].wire_only;
    return crema_batch_int(batch, r, (size_t)column, otherwise);
}

/* Chunks that are not finished. */
static bool
s_is_held_back(const crema_batch_t *batch)
{
    return batch->table->id == CREMA_TABLE_CHUNKS && batch->flags & CREMA_BATCH_PROVISIONAL;
}

static crema_err_t
s_chunk(sink_decoder_t *self, sink_stream_t *stream, const crema_batch_t *batch, uint32_t r,
        crema_chunks_row_t *row)
{
    int64_t ref = s_wire_only(self, batch, r, -1);
    crema_err_t err = s_note_chunk_task(self, stream, row->task_key);
    if (err != CREMA_OK)
        return err;
    if (row->task_prefix_id < sink_dict_count(self->dict, CREMA_TABLE_DICT_TASK_PREFIX))
        s_set_side(self, row->task_prefix_id, CREMA_SIDE_PROCESSOR, RULE_OF_CHUNKS);
    return s_is_held_back(batch)
               ? sink_attempts_open(self->attempts, stream->row, ref, (const uint8_t *)row)
               : sink_attempts_close(self->attempts, stream->row, ref);
}

static crema_err_t
s_activity(sink_decoder_t *self, sink_stream_t *stream, const crema_batch_t *batch, uint32_t r,
           crema_activities_row_t *row)
{
    sink_activity_key_t key = {
        .stream = stream->row,
        .worker = row->worker_id,
        .span = row->span_id,
        .prefix = row->task_prefix_id,
        .activity = row->activity_id,
        .unit = row->unit_id,
        .context = row->context,
        .mark = row->side,
    };
    int64_t t1_ns = row->t1_ns, t0_ns;
    double total = row->total, value;
    bool baseline = s_wire_only(self, batch, r, 0) == 1;
    int64_t t_known_ns = stream->t_totals_ns ? stream->t_totals_ns : stream->t_real_ns;
    if (t_known_ns == 0 || t_known_ns > t1_ns)
        t_known_ns = t1_ns;
    crema_err_t err = sink_activity_take(self->activity, &key, t1_ns, t_known_ns, total, baseline,
                                         &t0_ns, &value);
    if (err != CREMA_OK)
        return err;
    crema_split_rules_t rules = sink_meta_rules(self->meta);
    crema_side_t side = crema_split_side(
        &rules, (int)key.context, sink_dict_text(self->dict, CREMA_DICT_TASK_PREFIX, key.prefix),
        sink_dict_text(self->dict, CREMA_DICT_ACTIVITY, key.activity), (crema_side_t)key.mark);
    row->t0_ns = t0_ns;
    row->value = value;
    row->side = (uint8_t)side;
    return CREMA_OK;
}

/* Keys of /looks are in the table of those of /activities, one for each total. */
static crema_err_t
s_look(sink_decoder_t *self, const sink_stream_t *stream, crema_looks_row_t *row)
{
    sink_activity_key_t key = {
        .stream = stream->row,
        .worker = row->worker_id,
        .span = row->section_id,
        .prefix = row->task_prefix_id,
        .activity = row->stack_id,
        .unit = row->place_id,
        .context = LOOKS_CONTEXT + row->phase * CREMA_LOOK_COUNT + row->state,
        .mark = row->dataset_id,
    };
    int64_t t0_ns;
    double seconds, looks, gc_s = row->total_gc_s; /* 0 or unknown needs no key */
    crema_err_t err = sink_activity_take(self->activity, &key, row->t_ns, 0, row->total_s, false,
                                         &t0_ns, &seconds);
    key.context += LOOKS_CONTEXT;
    if (err == CREMA_OK)
        err = sink_activity_take(self->activity, &key, row->t_ns, 0, (double)row->total_looks,
                                 false, &t0_ns, &looks);
    key.context += LOOKS_CONTEXT;
    if (err == CREMA_OK && gc_s > 0)
        err = sink_activity_take(self->activity, &key, row->t_ns, 0, gc_s, false, &t0_ns, &gc_s);
    if (err == CREMA_OK) {
        row->gc_s = gc_s;
        row->seconds = seconds;
        row->looks = isnan(looks) ? -1 : (int64_t)looks;
    }
    return err;
}

static void
s_task_event(sink_decoder_t *self, sink_stream_t *stream, crema_task_events_row_t *row)
{
    int64_t action = row->action;
    bool is_chunk = action == CREMA_TASK_ACTION_COMPUTE && s_was_chunk(self, stream, row->task_key);
    if (row->side == CREMA_SIDE_UNATTRIBUTED) {
        crema_split_rules_t rules = sink_meta_rules(self->meta);
        uint32_t prefix = row->task_prefix_id;
        crema_side_t side;
        if (action == CREMA_TASK_ACTION_TRANSFER)
            side = CREMA_SIDE_TRANSFER;
        else if (action != CREMA_TASK_ACTION_COMPUTE)
            side = CREMA_SIDE_RUNTIME;
        else if (row->status != 0)
            side = CREMA_SIDE_WASTED;
        else if (is_chunk)
            side = CREMA_SIDE_PROCESSOR;
        else
            side = crema_split_side(&rules, CREMA_CONTEXT_EXECUTE,
                                    sink_dict_text(self->dict, CREMA_DICT_TASK_PREFIX, prefix),
                                    "thread-cpu", CREMA_SIDE_UNATTRIBUTED);
        row->side = (uint8_t)side;
    }
}

static void
s_know_slots(sink_decoder_t *self, uint32_t worker, int64_t nthreads, int64_t memory_limit_b)
{
    if (worker >= sink_dict_count(self->dict, CREMA_TABLE_DICT_WORKER))
        return;
    crema_dict_worker_row_t *row = sink_dict_change(self->dict, CREMA_TABLE_DICT_WORKER, worker);
    if (nthreads > 0 && nthreads < UINT16_MAX)
        row->nthreads = (uint16_t)nthreads;
    if (memory_limit_b > 0)
        row->memory_limit_b = memory_limit_b;
}

static crema_err_t
s_membership(sink_decoder_t *self, const crema_membership_row_t *row)
{
    uint32_t worker = row->worker_id;
    int64_t event = row->event;
    s_know_slots(self, worker, row->nthreads, row->memory_limit_b);
    if (event != CREMA_MEMBER_LEAVE && event != CREMA_MEMBER_LOST)
        return CREMA_OK;
    sink_departure_t *more =
        crema_grow(self->departures, self->n_departures, &self->departures_room, sizeof *more);
    if (!more)
        return CREMA_ENOMEM;
    self->departures = more;
    self->departures[self->n_departures++] = (sink_departure_t){worker, row->t_ns};
    return CREMA_OK;
}

static void
s_heartbeat(sink_stream_t *stream, const crema_heartbeats_row_t *row)
{
    int64_t dropped = row->dropped;
    if (dropped > 0 && (uint64_t)dropped > stream->dropped)
        stream->dropped = (uint64_t)dropped;
}

static void
s_look_for_limit(sink_decoder_t *self, const crema_custom_row_t *row)
{
    const size_t n = sizeof CREMA_LIMIT_METRIC - 1;
    const char *metric = sink_dict_text(self->dict, CREMA_DICT_METRIC, row->metric_id);
    if (strncmp(metric, CREMA_LIMIT_METRIC, n) != 0) {
        self->plain_metric = row->metric_id;
    } else {
        crema_limit_id_t id = crema_limit_find(metric + n);
        double value = row->value;
        if (id < CREMA_LIMIT_COUNT && value > 0)
            crema_limits_met(self->limits, id, value < 1e18 ? (uint64_t)value : UINT64_MAX);
    }
}

/* Writers report limits that they met as rows of /custom. */
static void
s_look_for_limits(sink_decoder_t *self, const crema_custom_row_t *rows, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (rows[r].metric_id != self->plain_metric)
            s_look_for_limit(self, &rows[r]);
}

/* What the row says beyond its columns. */
static crema_err_t
s_row(sink_decoder_t *self, sink_stream_t *stream, const crema_batch_t *batch, uint32_t r,
      void *row)
{
    switch (batch->table->id) {
    case CREMA_TABLE_CHUNKS:
        return s_chunk(self, stream, batch, r, row);
    case CREMA_TABLE_ACTIVITIES:
        return s_activity(self, stream, batch, r, row);
    case CREMA_TABLE_LOOKS:
        return s_look(self, stream, row);
    case CREMA_TABLE_TASK_EVENTS:
        s_task_event(self, stream, row);
        return CREMA_OK;
    case CREMA_TABLE_MEMBERSHIP:
        return s_membership(self, row);
    case CREMA_TABLE_HEARTBEATS:
        s_heartbeat(stream, row);
        return CREMA_OK;
    default:
        return CREMA_OK;
    }
}

static crema_err_t
s_rows(sink_decoder_t *self, sink_stream_t *stream, const crema_batch_t *batch, uint32_t first,
       uint32_t n, uint8_t *rows)
{
    const size_t row_bytes = crema_table_row_bytes(batch->table);
    crema_err_t err = CREMA_OK;
    switch (batch->table->id) {
    case CREMA_TABLE_WORKER_SAMPLES:
    case CREMA_TABLE_SECTIONS:
    case CREMA_TABLE_TASK_DEPS:
        break;
    case CREMA_TABLE_CUSTOM:
        s_look_for_limits(self, (const crema_custom_row_t *)rows, n);
        break;
    default:
        for (uint32_t r = 0; r < n && err == CREMA_OK; r++)
            err = s_row(self, stream, batch, first + r, rows + r * row_bytes);
    }
    return err;
}

/* ---- blocks of rows */

static uint32_t
s_worker(const sink_columns_t *columns, const uint8_t *row)
{
    return columns->worker_at < 0 ? SINK_DICT_NONE : crema_get_u32(row + columns->worker_at);
}

/* Notes when workers were seen; each has rows in series. */
static crema_err_t
s_saw(sink_decoder_t *self, const sink_columns_t *columns, const uint8_t *row, size_t row_bytes,
      uint32_t n, int64_t *t_last_ns)
{
    crema_err_t err = CREMA_OK;
    for (uint32_t r = 0; r < n && err == CREMA_OK;) {
        const uint32_t worker = s_worker(columns, row);
        int64_t first_ns = 0, last_ns = 0;
        do {
            int64_t t_ns = (int64_t)crema_get_u64(row + columns->time_at);
            if (t_ns != 0 && (first_ns == 0 || t_ns < first_ns))
                first_ns = t_ns;
            last_ns = t_ns > last_ns ? t_ns : last_ns;
            row += row_bytes;
        } while (++r < n && s_worker(columns, row) == worker);
        err = sink_decoder_saw(self, worker, first_ns, last_ns);
        *t_last_ns = last_ns > *t_last_ns ? last_ns : *t_last_ns;
    }
    return err;
}

/* Makes all of `n` rows like the first one. */
static void
s_repeat(uint8_t *rows, size_t row_bytes, size_t n)
{
    for (size_t done = 1; done < n; done *= 2)
        memcpy(rows + done * row_bytes, rows, (done < n - done ? done : n - done) * row_bytes);
}

crema_err_t
sink_decoder_batch(sink_decoder_t *self, sink_stream_t *stream, const crema_batch_t *batch,
                   uint64_t seq, int64_t t_recv_ns)
{
    const crema_table_t *table = batch->table;
    const sink_columns_t *columns = &self->columns[table->id];
    const size_t row_bytes = crema_table_row_bytes(table);
    uint8_t blank[CREMA_ROW_BYTES_MAX], rows[CREMA_BATCH_BLOCK * CREMA_ROW_BYTES_MAX];
    int64_t t_last_ns = 0;
    crema_err_t err = CREMA_OK;
    crema_row_clear(table, blank);
    crema_row_set_i64(table, blank, (size_t)columns->seq, (int64_t)seq);
    crema_row_set_i64(table, blank, (size_t)columns->t_recv, t_recv_ns);
    crema_row_set_i64(table, blank, (size_t)columns->stream, stream->row);
    for (uint32_t at = 0, n; at < batch->rows && err == CREMA_OK; at += n) {
        n = batch->rows - at < CREMA_BATCH_BLOCK ? batch->rows - at : CREMA_BATCH_BLOCK;
        memcpy(rows, blank, row_bytes);
        s_repeat(rows, row_bytes, n);
        crema_batch_rows(batch, at, n, s_map, stream, rows);
        sink_bound_rows(&columns->bound, table, rows, n);
        err = s_saw(self, columns, rows, row_bytes, n, &t_last_ns);
        if (err == CREMA_OK)
            err = s_rows(self, stream, batch, at, n, rows);
        if (err == CREMA_OK && !s_is_held_back(batch))
            err = self->emit(self->context, table->id, rows, n);
    }
    if (table->id == CREMA_TABLE_ACTIVITIES && t_last_ns > stream->t_totals_ns)
        stream->t_totals_ns = t_last_ns;
    return err;
}

/* ---- lost attempts */

static int
s_by_worker_and_time(const void *a, const void *b)
{
    const sink_departure_t *left = a, *right = b;
    if (left->worker != right->worker)
        return left->worker < right->worker ? -1 : 1;
    return (left->t_ns > right->t_ns) - (left->t_ns < right->t_ns);
}

/* When the worker left after it started the chunk; 0 if it was not seen leaving. Departures are
 * sorted. */
static int64_t
s_departure_ns(const sink_decoder_t *self, uint32_t worker, int64_t t_start_ns)
{
    const sink_departure_t wanted = {worker, t_start_ns};
    size_t low = 0, high = self->n_departures;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s_by_worker_and_time(&self->departures[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool left = low < self->n_departures && self->departures[low].worker == worker;
    return left ? self->departures[low].t_ns : 0;
}

crema_err_t
sink_decoder_lose_attempts(sink_decoder_t *self)
{
    const uint8_t *open;
    const void *cursor = NULL;
    crema_err_t err = CREMA_OK;
    if (self->n_departures > 1)
        qsort(self->departures, self->n_departures, sizeof *self->departures, s_by_worker_and_time);
    while (err == CREMA_OK && (open = sink_attempts_next(self->attempts, &cursor))) {
        crema_chunks_row_t row;
        memcpy(&row, open, sizeof row);
        row.t_end_ns = s_departure_ns(self, row.worker_id, row.t_start_ns);
        if (row.t_end_ns == 0) /* its stream's end if it has one, else its last record */
            row.t_end_ns = self->streams[row.stream_id]->t_last_ns;
        if (row.t_end_ns < row.t_start_ns)
            row.t_end_ns = row.t_start_ns;
        row.wall_s = (double)(row.t_end_ns - row.t_start_ns) * 1e-9;
        row.status = CREMA_CHUNK_LOST;
        row.quality |= SINK_QUALITY_RECONSTRUCTED;
        err = self->emit(self->context, CREMA_TABLE_CHUNKS, (const uint8_t *)&row, 1);
    }
    return err;
}
