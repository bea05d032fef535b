#define _GNU_SOURCE /* qsort_r */
#include "sink_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_split.h"
#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_facts_impl.h"
#include "sink_intern.h"

#define METRIC_CACHED "crema.cached_chunks"

double
sink_chunk_s(const sink_chunk_t *chunk)
{
    double open_s = isnan(chunk->open_s) ? 0 : chunk->open_s;
    return isnan(chunk->wall_s) ? open_s : open_s + chunk->wall_s;
}

/* ---- chunks */

static crema_err_t
s_take_chunks(sink_facts_t *self, const sink_rows_t *rows)
{
    size_t n = sink_rows_count(rows);
    if (!(self->chunks = calloc(n + 1, sizeof *self->chunks)))
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const crema_chunks_row_t *row = sink_rows_at(rows, i);
        sink_chunk_t *c = &self->chunks[i];
        c->t_start_ns = row->t_start_ns;
        c->t_end_ns = row->t_end_ns;
        c->wall_s = row->wall_s;
        c->open_s = row->open_s;
        c->cpu_s = row->cpu_s;
        c->gc_s = row->gc_s;
        c->proc_cpu_s = row->proc_cpu_s;
        c->n_events = row->n_events;
        c->bytes_read_b = row->bytes_read_b;
        c->bytes_accessed_b = row->bytes_accessed_b;
        c->bytes_uncompressed_b = row->bytes_uncompressed_b;
        c->rss_start_b = row->rss_start_b;
        c->rss_end_b = row->rss_end_b;
        c->rss_peak_b = row->rss_peak_b;
        c->task_key = row->task_key;
        c->chunk_id = row->chunk_id;
        bool has_range = row->entry_start >= 0 && row->entry_stop >= row->entry_start;
        c->n_entries = has_range ? row->entry_stop - row->entry_start : -1;
        c->pass = row->pass;
        c->worker = row->worker_id;
        c->dataset = row->dataset_id;
        c->file = row->file_id;
        c->status = row->status;
        c->quality = row->quality;
        c->counted = sink_chunk_returned(c->status) && !(c->quality & SINK_QUALITY_SUPERSEDED);
    }
    self->n_chunks = n;
    return CREMA_OK;
}

/* The hook counts cached chunks in /custom, one per row. */
static void
s_count_cached(sink_facts_t *self, const sink_rows_t *rows, sink_dict_t *dict)
{
    uint32_t metric = sink_dict_find(dict, CREMA_DICT_METRIC, METRIC_CACHED);
    for (size_t i = 0; metric != SINK_DICT_NONE && i < sink_rows_count(rows); i++)
        self->n_cached += ((crema_custom_row_t *)sink_rows_at(rows, i))->metric_id == metric;
}

/* ---- tasks, and which of them were chunks */

static crema_err_t
s_take_tasks(sink_facts_t *self, const sink_rows_t *rows)
{
    size_t n = sink_rows_count(rows);
    if (!(self->tasks = calloc(n + 1, sizeof *self->tasks)))
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const crema_task_events_row_t *row = sink_rows_at(rows, i);
        sink_task_t task = {.t_start_ns = row->t_start_ns,
                            .t_stop_ns = row->t_stop_ns,
                            .t_ready_ns = row->t_ready_ns,
                            .t_submit_ns = row->t_submit_ns,
                            .task_key = row->task_key,
                            .worker = row->worker_id,
                            .prefix = row->task_prefix_id,
                            .status = row->status,
                            .side = row->side};
        if (row->action == CREMA_TASK_ACTION_COMPUTE && task.t_start_ns != 0)
            self->tasks[self->n_tasks++] = task;
    }
    return CREMA_OK;
}

typedef struct {
    int64_t key;
    uint64_t worker;
} task_id_t;

static int
s_by_key(const void *a, const void *b, void *context)
{
    const sink_task_t *tasks = context;
    const sink_task_t *left = &tasks[*(const size_t *)a], *right = &tasks[*(const size_t *)b];
    if (left->task_key != right->task_key)
        return left->task_key < right->task_key ? -1 : 1;
    if (left->worker != right->worker)
        return left->worker < right->worker ? -1 : 1;
    if (left->t_start_ns != right->t_start_ns)
        return left->t_start_ns < right->t_start_ns ? -1 : 1;
    return (*(const size_t *)a > *(const size_t *)b) - (*(const size_t *)a < *(const size_t *)b);
}

/* First of the sorted tasks with at least this key and worker. */
static size_t
s_first(const sink_task_t *tasks, const size_t *order, size_t n, task_id_t id)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const sink_task_t *task = &tasks[order[middle]];
        bool before = task->task_key != id.key ? task->task_key < id.key : task->worker < id.worker;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Joins a chunk with the task of its key and worker that was running at the time. */
static void
s_join_chunk(sink_facts_t *self, const size_t *order, sink_chunk_t *chunk)
{
    task_id_t id = {chunk->task_key, chunk->worker};
    if (id.key == 0)
        return;
    for (size_t i = s_first(self->tasks, order, self->n_tasks, id); i < self->n_tasks; i++) {
        sink_task_t *task = &self->tasks[order[i]];
        if (task->task_key != id.key || task->worker != id.worker)
            return;
        if (task->t_start_ns > chunk->t_end_ns || task->t_stop_ns < chunk->t_start_ns)
            continue;
        task->is_chunk = true;
        if (task->status ==
            CREMA_TASK_LOST) /* seen from the scheduler; the worker knew the start better */
            continue;
        chunk->in_task = true;
        chunk->task_is_ok = task->status == CREMA_TASK_OK;
        return;
    }
}

static crema_err_t
s_join(sink_facts_t *self)
{
    size_t *order = malloc((self->n_tasks + 1) * sizeof *order);
    if (!order)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_tasks; i++)
        order[i] = i;
    qsort_r(order, self->n_tasks, sizeof *order, s_by_key, self->tasks);
    for (size_t i = 0; i < self->n_chunks; i++)
        s_join_chunk(self, order, &self->chunks[i]);
    free(order);
    return CREMA_OK;
}

/* ---- activities */

static crema_err_t
s_take_kinds(sink_facts_t *self, const sink_tables_t *tables)
{
    static const struct {
        const char *unit;
        sink_unit_kind_t kind;
    } units[] = {
        {"seconds", SINK_UNIT_SECONDS}, {"bytes", SINK_UNIT_BYTES}, {"count", SINK_UNIT_COUNT}};
    const sink_rows_t *activities = sink_tables_rows(tables, CREMA_TABLE_DICT_ACTIVITY);
    const sink_rows_t *names = sink_tables_rows(tables, CREMA_TABLE_DICT_UNIT);
    self->n_activities = sink_rows_count(activities);
    self->n_units = sink_rows_count(names);
    self->activity_kind = calloc(self->n_activities + 1, 1);
    self->unit_kind = calloc(self->n_units + 1, 1);
    if (!self->activity_kind || !self->unit_kind)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_activities; i++)
        self->activity_kind[i] = ((crema_dict_activity_row_t *)sink_rows_at(activities, i))->kind;
    for (size_t i = 0; i < self->n_units; i++) {
        const crema_dict_unit_row_t *unit = sink_rows_at(names, i);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++)
            if (strncmp(units[k].unit, unit->name, sizeof unit->name) == 0)
                self->unit_kind[i] = (uint8_t)units[k].kind;
    }
    return CREMA_OK;
}

typedef struct {
    uint32_t worker, prefix, activity, unit, context, side;
} metered_key_t;

static crema_err_t
s_take_activities(sink_facts_t *self, const sink_rows_t *rows)
{
    sink_intern_t *keys = NULL;
    size_t room = 0;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &keys);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        const crema_activities_row_t *row = sink_rows_at(rows, i);
        metered_key_t key = {row->worker_id, row->task_prefix_id, row->activity_id,
                             row->unit_id,   row->context,        row->side};
        uint32_t number;
        bool fresh;
        err = sink_intern_add(keys, &key, sizeof key, &number, &fresh);
        if (err == CREMA_OK && number >= room) {
            size_t more_room = room ? room * 2 : 256;
            sink_metered_t *more = realloc(self->metered, more_room * sizeof *more);
            if (!more) {
                err = CREMA_ENOMEM;
                break;
            }
            memset(more + room, 0, (more_room - room) * sizeof *more);
            self->metered = more;
            room = more_room;
        }
        if (err == CREMA_OK && fresh)
            self->metered[self->n_metered++] = (sink_metered_t){
                .worker = key.worker,
                .prefix = key.prefix,
                .activity = key.activity,
                .unit = key.unit,
                .context = (uint8_t)key.context,
                .side = (uint8_t)key.side,
                .kind = key.activity < self->n_activities ? self->activity_kind[key.activity]
                                                          : CREMA_ACTIVITY_USER,
                .in = key.unit < self->n_units ? self->unit_kind[key.unit] : SINK_UNIT_OTHER};
        if (err == CREMA_OK && !isnan(row->value))
            self->metered[number].value += row->value;
    }
    sink_intern_destroy(&keys);
    return err;
}

/* ---- slots */

/* If the scheduler saw a task lost whose worker had recorded its chunk, the slot counts once, as
 * the chunk. */
static crema_err_t
s_take_busy(sink_facts_t *self)
{
    self->busy = calloc(self->n_tasks + self->n_chunks + 1, sizeof *self->busy);
    self->ready = calloc(self->n_tasks + 1, sizeof *self->ready);
    self->last_arrival_ns = calloc(self->n_workers + 1, sizeof *self->last_arrival_ns);
    if (!self->busy || !self->ready || !self->last_arrival_ns)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_tasks; i++) {
        const sink_task_t *task = &self->tasks[i];
        if (task->worker >= self->n_workers || (task->is_chunk && task->status == CREMA_TASK_LOST))
            continue;
        self->busy[self->n_busy++] = (sink_busy_t){task->t_start_ns, task->t_stop_ns, task->worker,
                                                   task->is_chunk, task->side};
        if (task->side != CREMA_SIDE_FOREIGN && task->t_ready_ns != 0 &&
            task->t_ready_ns < task->t_start_ns)
            self->ready[self->n_ready++] =
                (sink_spell_t){task->t_ready_ns, task->t_start_ns, task->worker};
        if (task->is_chunk && task->t_submit_ns > self->last_arrival_ns[task->worker])
            self->last_arrival_ns[task->worker] = task->t_submit_ns;
    }
    for (size_t i = 0; i < self->n_chunks; i++) {
        const sink_chunk_t *chunk = &self->chunks[i];
        if (chunk->worker >= self->n_workers || chunk->in_task)
            continue;
        int64_t open_ns = isnan(chunk->open_s) ? 0 : (int64_t)(chunk->open_s * 1e9);
        self->busy[self->n_busy++] =
            (sink_busy_t){chunk->t_start_ns - open_ns, chunk->t_end_ns, chunk->worker, true, 0};
    }
    return CREMA_OK;
}

/* ---- window */

static void
s_widen(sink_facts_t *self, int64_t t_ns)
{
    if (t_ns == 0)
        return;
    if (self->t0_ns == 0 || t_ns < self->t0_ns)
        self->t0_ns = t_ns;
    if (t_ns > self->t1_ns)
        self->t1_ns = t_ns;
}

/* The window as reported; a missing bound is where the records begin or end. */
static void
s_take_window(sink_facts_t *self, const sink_decoder_t *run)
{
    for (size_t i = 0; i < sink_decoder_streams(run); i++) {
        s_widen(self, sink_decoder_stream(run, i)->t_first_ns);
        s_widen(self, sink_decoder_stream(run, i)->t_last_ns);
    }
    const sink_meta_t *meta = sink_decoder_meta(run);
    if (sink_meta_start_ns(meta) != 0)
        self->t0_ns = sink_meta_start_ns(meta);
    if (sink_meta_end_ns(meta) != 0)
        self->t1_ns = sink_meta_end_ns(meta);
    if (self->t1_ns <= self->t0_ns)
        self->t1_ns = self->t0_ns + 1;
}

crema_err_t
sink_facts_new(const sink_tables_t *tables, const sink_decoder_t *run, sink_facts_t **ret_self)
{
    sink_facts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->n_workers = sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_DICT_WORKER));
    s_take_window(self, run);
    crema_err_t err = s_take_chunks(self, sink_tables_rows(tables, CREMA_TABLE_CHUNKS));
    s_count_cached(self, sink_tables_rows(tables, CREMA_TABLE_CUSTOM), sink_decoder_dict(run));
    if (err == CREMA_OK)
        err = s_take_tasks(self, sink_tables_rows(tables, CREMA_TABLE_TASK_EVENTS));
    if (err == CREMA_OK)
        err = s_join(self);
    if (err == CREMA_OK)
        err = s_take_kinds(self, tables);
    if (err == CREMA_OK)
        err = s_take_activities(self, sink_tables_rows(tables, CREMA_TABLE_ACTIVITIES));
    if (err == CREMA_OK)
        err = sink_facts_take_samples(self, sink_tables_rows(tables, CREMA_TABLE_WORKER_SAMPLES));
    if (err == CREMA_OK)
        err = sink_facts_take_streams(self, run);
    if (err == CREMA_OK)
        err = sink_facts_take_presence(self, tables);
    if (err == CREMA_OK)
        err = s_take_busy(self);
    if (err == CREMA_OK) {
        sink_sweep_in_t in = {self->t0_ns,    self->t1_ns,      self->n_workers,
                              self->presence, self->n_presence, self->busy,
                              self->n_busy,   self->ready,      self->n_ready,
                              self->paused,   self->n_paused,   self->last_arrival_ns};
        err = sink_sweep_run(&in, &self->sweep);
    }
    if (err != CREMA_OK)
        sink_facts_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_facts_destroy(sink_facts_t **self_p)
{
    sink_facts_t *self = *self_p;
    if (!self)
        return;
    free(self->chunks);
    free(self->tasks);
    free(self->metered);
    free(self->samples);
    free(self->presence);
    free(self->busy);
    free(self->ready);
    free(self->paused);
    free(self->last_arrival_ns);
    free(self->activity_kind);
    free(self->unit_kind);
    free(self->cpu_wait_s);
    free(self->gil);
    free(self->gil_looks);
    free(self->killed);
    free(self->is_member);
    free(self->has_stream);
    sink_sweep_clear(&self->sweep);
    free(self);
    *self_p = NULL;
}
