#include "sink_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_grow.h"
#include "crema_life.h"
#include "crema_split.h"
#include "sink_attempt.h"
#include "sink_facts_impl.h"
#include "sink_intern.h"
#include "sink_scratch.h"
#include "sink_sort.h"

double
sink_chunk_s(const sink_chunk_t *chunk)
{
    double open_s = isnan(chunk->open_s) ? 0 : chunk->open_s;
    return isnan(chunk->wall_s) ? open_s : open_s + chunk->wall_s;
}

double
sink_chunk_process_s(const sink_chunk_t *chunk)
{
    return chunk->quality & SINK_QUALITY_WITH_OPENING ? NAN : chunk->wall_s;
}

/* ---- chunks */

static void
s_take_waits(sink_chunk_t *c, const crema_chunks_row_t *row)
{
    c->cpu_wait_s = row->cpu_wait_s;
    c->open_cpu_s = row->open_cpu_s;
    c->open_cpu_wait_s = row->open_cpu_wait_s;
    c->open_gil_s = row->open_gil_s;
    c->open_input_s = row->open_input_s;
    c->n_requests = row->n_requests;
    const double wait_s[CREMA_LOOK_COUNT] = {
        [CREMA_LOOK_UNKNOWN] = row->unknown_s, [CREMA_LOOK_GIL] = row->gil_s,
        [CREMA_LOOK_INPUT] = row->input_s,     [CREMA_LOOK_SERVICE] = row->service_s,
        [CREMA_LOOK_FILE] = row->file_s,       [CREMA_LOOK_LOCK] = row->lock_s,
        [CREMA_LOOK_SLEEP] = row->sleep_s,     [CREMA_LOOK_NATIVE] = row->native_s,
        [CREMA_LOOK_CHILD] = row->child_s,     [CREMA_LOOK_PAGE_FAULT] = row->page_fault_s,
    };
    memcpy(c->wait_s, wait_s, sizeof wait_s);
}

static crema_err_t
s_take_chunks(sink_facts_t *self, const sink_rows_t *rows)
{
    size_t n = sink_rows_count(rows);
    crema_err_t err = CREMA_OK;
    if (!(self->chunks = sink_scratch(self->dir, n + 1, sizeof *self->chunks, &err)))
        return err;
    for (size_t i = 0; i < n; i++) {
        const crema_chunks_row_t *row = sink_rows_at(rows, i);
        sink_chunk_t *c = &self->chunks[i];
        c->t_start_ns = row->t_start_ns;
        c->t_end_ns = row->t_end_ns;
        c->wall_s = row->wall_s;
        c->open_s = row->open_s;
        c->cpu_s = row->cpu_s;
        c->gc_s = row->gc_s;
        c->open_gc_s = row->open_gc_s;
        c->proc_cpu_s = row->proc_cpu_s;
        s_take_waits(c, row);
        c->n_events = row->n_events;
        c->bytes_read_b = row->bytes_read_b;
        c->bytes_accessed_b = row->bytes_accessed_b;
        c->bytes_uncompressed_b = row->bytes_uncompressed_b;
        c->rss_start_b = row->rss_start_b;
        c->rss_end_b = row->rss_end_b;
        c->rss_peak_b = row->rss_peak_b;
        c->task_key = row->task_key;
        c->chunk_id = row->chunk_id;
        c->entry_start = row->entry_start;
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

/* ---- tasks, and which of them were chunks */

static crema_err_t
s_take_tasks(sink_facts_t *self, const sink_rows_t *rows)
{
    size_t n = sink_rows_count(rows);
    crema_err_t err = CREMA_OK;
    if (!(self->tasks = sink_scratch(self->dir, n + 1, sizeof *self->tasks, &err)))
        return err;
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
    sink_scratch_trim(self->tasks, self->n_tasks, sizeof *self->tasks);
    return CREMA_OK;
}

/* What it takes to join a task or chunk. Rows are in order of their starts. */
typedef struct {
    int64_t key;
    uint32_t worker;
    uint32_t row; /* in facts->tasks or facts->chunks */
} joined_t;

static int
s_by_id(const joined_t *left, const joined_t *right)
{
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->worker > right->worker) - (left->worker < right->worker);
}

static int
s_by_id_and_start(const void *a, const void *b)
{
    const joined_t *left = a, *right = b;
    int order = s_by_id(left, right);
    return order != 0 ? order : (left->row > right->row) - (left->row < right->row);
}

static size_t
s_sort_tasks(const sink_facts_t *self, joined_t *tasks)
{
    for (size_t i = 0; i < self->n_tasks; i++)
        tasks[i] = (joined_t){self->tasks[i].task_key, self->tasks[i].worker, (uint32_t)i};
    sink_sort_by_int64(tasks, self->n_tasks, sizeof *tasks, s_by_id_and_start);
    return self->n_tasks;
}

static size_t
s_sort_chunks(const sink_facts_t *self, joined_t *chunks)
{
    size_t n = 0;
    for (size_t i = 0; i < self->n_chunks; i++)
        if (self->chunks[i].task_key != 0)
            chunks[n++] = (joined_t){self->chunks[i].task_key, self->chunks[i].worker, (uint32_t)i};
    sink_sort_by_int64(chunks, n, sizeof *chunks, s_by_id_and_start);
    return n;
}

/* Joins a chunk with the task of its key and worker that was running at the time. `tasks` are
 * the `n` that may have its key. */
static void
s_join_chunk(sink_facts_t *self, const joined_t *tasks, size_t n, const joined_t *joined)
{
    sink_chunk_t *chunk = &self->chunks[joined->row];
    for (size_t i = 0; i < n && s_by_id(&tasks[i], joined) == 0; i++) {
        sink_task_t *task = &self->tasks[tasks[i].row];
        if (task->t_start_ns > chunk->t_end_ns)
            return;
        if (task->t_stop_ns < chunk->t_start_ns)
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
    crema_err_t err =
        self->n_tasks > UINT32_MAX || self->n_chunks > UINT32_MAX ? CREMA_ELIMIT : CREMA_OK;
    joined_t *tasks = sink_scratch(self->dir, self->n_tasks + 1, sizeof *tasks, &err);
    joined_t *chunks = sink_scratch(self->dir, self->n_chunks + 1, sizeof *chunks, &err);
    if (err == CREMA_OK) {
        size_t n_tasks = s_sort_tasks(self, tasks), n_chunks = s_sort_chunks(self, chunks);
        size_t first = 0; /* of the tasks with the chunk's key and worker */
        for (size_t i = 0; i < n_chunks; i++) {
            while (first < n_tasks && s_by_id(&tasks[first], &chunks[i]) < 0)
                first++;
            s_join_chunk(self, tasks + first, n_tasks - first, &chunks[i]);
        }
    }
    sink_scratch_free(tasks);
    sink_scratch_free(chunks);
    return err;
}

/* ---- activities */

/* By row of /dict/activity; USER if there is none. */
static uint8_t
s_activity_kind(const sink_tables_t *tables, uint32_t id)
{
    const sink_rows_t *rows = sink_tables_rows(tables, CREMA_TABLE_DICT_ACTIVITY);
    if (id >= sink_rows_count(rows))
        return CREMA_ACTIVITY_USER;
    return ((const crema_dict_activity_row_t *)sink_rows_at(rows, id))->kind;
}

/* By row of /dict/unit. */
static uint8_t
s_unit_kind(const sink_tables_t *tables, uint32_t id)
{
    static const char *const units[] = {
        [SINK_UNIT_SECONDS] = "seconds", [SINK_UNIT_BYTES] = "bytes", [SINK_UNIT_COUNT] = "count"};
    const sink_rows_t *rows = sink_tables_rows(tables, CREMA_TABLE_DICT_UNIT);
    if (id >= sink_rows_count(rows))
        return SINK_UNIT_OTHER;
    const crema_dict_unit_row_t *unit = sink_rows_at(rows, id);
    for (int kind = SINK_UNIT_SECONDS; kind <= SINK_UNIT_COUNT; kind++)
        if (strncmp(units[kind], unit->name, sizeof unit->name) == 0)
            return (uint8_t)kind;
    return SINK_UNIT_OTHER;
}

typedef struct {
    uint32_t worker, prefix, activity, unit, context, side;
} metered_key_t;

static crema_err_t
s_add_metered(sink_facts_t *self, const sink_tables_t *tables, size_t *room,
              const metered_key_t *key)
{
    sink_metered_t *metered = crema_grow(self->metered, self->n_metered, room, sizeof *metered);
    if (!metered)
        return CREMA_ENOMEM;
    self->metered = metered;
    self->metered[self->n_metered++] =
        (sink_metered_t){.worker = key->worker,
                         .prefix = key->prefix,
                         .activity = key->activity,
                         .unit = key->unit,
                         .context = (uint8_t)key->context,
                         .side = (uint8_t)key->side,
                         .kind = s_activity_kind(tables, key->activity),
                         .in = s_unit_kind(tables, key->unit)};
    return CREMA_OK;
}

static crema_err_t
s_take_activities(sink_facts_t *self, const sink_tables_t *tables)
{
    const sink_rows_t *rows = sink_tables_rows(tables, CREMA_TABLE_ACTIVITIES);
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
        if (err == CREMA_OK && fresh)
            err = s_add_metered(self, tables, &room, &key);
        if (err == CREMA_OK && !isnan(row->value))
            self->metered[number].value += row->value;
    }
    sink_intern_destroy(&keys);
    return err;
}

/* ---- looks */

typedef struct {
    uint32_t prefix, dataset, section, place, stack, phase, state;
} look_key_t;

static crema_err_t
s_take_looks(sink_facts_t *self, const sink_rows_t *rows)
{
    sink_intern_t *keys = NULL;
    size_t room = 0;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &keys);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        const crema_looks_row_t *row = sink_rows_at(rows, i);
        const look_key_t key = {row->task_prefix_id, row->dataset_id, row->section_id,
                                row->place_id,       row->stack_id,   row->phase,
                                row->state};
        uint32_t number;
        bool fresh;
        if (row->phase >= CREMA_LOOK_PHASE_COUNT || row->state >= CREMA_LOOK_COUNT)
            continue; /* of a newer writer */
        err = sink_intern_add(keys, &key, sizeof key, &number, &fresh);
        if (err == CREMA_OK && fresh) {
            sink_look_t *more = crema_grow(self->looks, self->n_looks, &room, sizeof *more);
            if (!more) {
                err = CREMA_ENOMEM;
                break;
            }
            self->looks = more;
            self->looks[self->n_looks++] = (sink_look_t){.prefix = key.prefix,
                                                         .dataset = key.dataset,
                                                         .section = key.section,
                                                         .place = key.place,
                                                         .stack = key.stack,
                                                         .phase = row->phase,
                                                         .state = row->state};
        }
        if (err == CREMA_OK && !isnan(row->gc_s))
            self->looks[number].gc_s += row->gc_s;
        if (err == CREMA_OK && !isnan(row->seconds)) {
            self->looks[number].seconds += row->seconds;
            self->looks[number].n += row->looks > 0 ? (size_t)row->looks : 0;
        }
    }
    sink_intern_destroy(&keys);
    return err;
}

/* ---- slots */

/* If the scheduler saw a task lost whose worker had recorded its chunk, the slot counts once, as
 * the chunk. */
static bool
s_task_busy(const sink_facts_t *self, const sink_task_t *task, sink_busy_t *ret_busy)
{
    if (task->worker >= self->n_workers || (task->is_chunk && task->status == CREMA_TASK_LOST))
        return false;
    const bool waited = task->side != CREMA_SIDE_FOREIGN && task->t_ready_ns < task->t_start_ns;
    *ret_busy = (sink_busy_t){task->t_start_ns, task->t_stop_ns, waited ? task->t_ready_ns : 0,
                              task->worker,     task->is_chunk,  task->side};
    return true;
}

static bool
s_chunk_busy(const sink_facts_t *self, const sink_chunk_t *chunk, sink_busy_t *ret_busy)
{
    if (chunk->worker >= self->n_workers || chunk->in_task)
        return false;
    int64_t open_ns = isnan(chunk->open_s) ? 0 : (int64_t)(chunk->open_s * 1e9);
    *ret_busy =
        (sink_busy_t){chunk->t_start_ns - open_ns, chunk->t_end_ns, 0, chunk->worker, true, 0};
    return true;
}

bool
sink_facts_busy(const sink_facts_t *self, size_t i, sink_busy_t *ret_busy)
{
    return i < self->n_tasks ? s_task_busy(self, &self->tasks[i], ret_busy)
                             : s_chunk_busy(self, &self->chunks[i - self->n_tasks], ret_busy);
}

/* A chunk without a task. */
typedef struct {
    int64_t t0_ns;
    size_t row; /* in facts->chunks */
} loose_t;

/* Tasks and chunks without a task, merged by when they began. */
typedef struct {
    const sink_facts_t *facts;
    loose_t *loose; /* a sink_scratch() array, sorted */
    size_t n_loose, next_loose, next_task;
} cursor_t;

static int
s_by_begin(const void *a, const void *b)
{
    const loose_t *left = a, *right = b;
    if (left->t0_ns != right->t0_ns)
        return left->t0_ns < right->t0_ns ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

static crema_err_t
s_take_loose(cursor_t *self)
{
    const sink_facts_t *facts = self->facts;
    crema_err_t err = CREMA_OK;
    sink_busy_t busy;
    self->loose = sink_scratch(facts->dir, facts->n_chunks + 1, sizeof *self->loose, &err);
    for (size_t i = 0; err == CREMA_OK && i < facts->n_chunks; i++)
        if (s_chunk_busy(facts, &facts->chunks[i], &busy))
            self->loose[self->n_loose++] = (loose_t){busy.t0_ns, i};
    if (err == CREMA_OK)
        sink_sort_by_int64(self->loose, self->n_loose, sizeof *self->loose, s_by_begin);
    return err;
}

static void
s_rewind(void *cursor)
{
    cursor_t *self = cursor;
    self->next_task = self->next_loose = 0;
}

static bool
s_next(void *cursor, sink_busy_t *ret_busy)
{
    cursor_t *self = cursor;
    const sink_facts_t *facts = self->facts;
    bool task = false;
    while (self->next_task < facts->n_tasks &&
           !(task = s_task_busy(facts, &facts->tasks[self->next_task], ret_busy)))
        self->next_task++;
    if (self->next_loose < self->n_loose &&
        (!task || self->loose[self->next_loose].t0_ns < ret_busy->t0_ns))
        return s_chunk_busy(facts, &facts->chunks[self->loose[self->next_loose++].row], ret_busy);
    self->next_task += task;
    return task;
}

static crema_err_t
s_sweep(sink_facts_t *self)
{
    if (!(self->last_arrival_ns = calloc(self->n_workers + 1, sizeof *self->last_arrival_ns)))
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_tasks; i++) {
        const sink_task_t *task = &self->tasks[i];
        sink_busy_t busy;
        if (s_task_busy(self, task, &busy) && task->is_chunk &&
            task->t_submit_ns > self->last_arrival_ns[task->worker])
            self->last_arrival_ns[task->worker] = task->t_submit_ns;
    }
    cursor_t cursor = {.facts = self};
    crema_err_t err = s_take_loose(&cursor);
    if (err == CREMA_OK) {
        const sink_sweep_in_t in = {self->t0_ns,
                                    self->t1_ns,
                                    self->n_workers,
                                    self->presence,
                                    self->n_presence,
                                    s_next,
                                    &cursor,
                                    s_rewind,
                                    self->paused,
                                    self->n_paused,
                                    self->last_arrival_ns,
                                    self->dir};
        err = sink_sweep_run(&in, &self->sweep);
    }
    sink_scratch_free(cursor.loose);
    return err;
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

/* True if the aggregator ended the run, since its client had gone or its key was revoked. */
static bool
s_end_is_guessed(const sink_meta_t *meta)
{
    Crema__Reason *const *reasons;
    const size_t n = sink_meta_reasons(meta, &reasons);
    return crema_life_lacks_end(n, reasons);
}

/* Without the client's word the run lasts as long as what counts in its sums. */
static void
s_widen_to_work(sink_facts_t *self)
{
    for (size_t i = 0; i < self->n_chunks; i++)
        if (self->chunks[i].counted && self->chunks[i].t_end_ns > self->t1_ns)
            self->t1_ns = self->chunks[i].t_end_ns;
    for (size_t i = 0; i < self->n_tasks; i++)
        if (self->tasks[i].side != CREMA_SIDE_FOREIGN && self->tasks[i].t_stop_ns > self->t1_ns)
            self->t1_ns = self->tasks[i].t_stop_ns;
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
    self->end_is_guessed = s_end_is_guessed(meta);
}

crema_err_t
sink_facts_begin(const sink_tables_t *tables, const sink_decoder_t *run, sink_facts_t **ret_self)
{
    sink_facts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->dir = sink_tables_dir(tables);
    self->n_workers = sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_DICT_WORKER));
    s_take_window(self, run);
    crema_err_t err = sink_facts_take_streams(self, run);
    if (err == CREMA_OK)
        err = s_take_activities(self, tables);
    if (err != CREMA_OK)
        sink_facts_destroy(&self);
    else
        *ret_self = self;
    return err;
}

crema_err_t
sink_facts_take_chunks(sink_facts_t *self, const sink_tables_t *tables, const sink_decoder_t *run)
{
    crema_err_t err = s_take_chunks(self, sink_tables_rows(tables, CREMA_TABLE_CHUNKS));
    return err != CREMA_OK
               ? err
               : sink_facts_take_repeated(self, sink_tables_rows(tables, CREMA_TABLE_CUSTOM),
                                          sink_decoder_dict(run));
}

crema_err_t
sink_facts_finish(sink_facts_t *self, const sink_tables_t *tables)
{
    crema_err_t err = s_take_tasks(self, sink_tables_rows(tables, CREMA_TABLE_TASK_EVENTS));
    if (err == CREMA_OK && self->end_is_guessed)
        s_widen_to_work(self);
    if (err == CREMA_OK)
        err = sink_facts_leave_out_seen_twice(self);
    if (err == CREMA_OK)
        err = s_join(self);
    if (err == CREMA_OK)
        err = sink_facts_take_presence(self, tables);
    if (err == CREMA_OK)
        err = s_sweep(self);
    if (err == CREMA_OK)
        err = sink_facts_take_samples(self, sink_tables_rows(tables, CREMA_TABLE_WORKER_SAMPLES));
    if (err == CREMA_OK)
        err = s_take_looks(self, sink_tables_rows(tables, CREMA_TABLE_LOOKS));
    return err;
}

void
sink_facts_destroy(sink_facts_t **self_p)
{
    sink_facts_t *self = *self_p;
    if (!self)
        return;
    sink_scratch_free(self->chunks);
    sink_scratch_free(self->again);
    sink_scratch_free(self->tasks);
    free(self->metered);
    free(self->looks);
    sink_scratch_free(self->samples);
    free(self->presence);
    free(self->paused);
    free(self->last_arrival_ns);
    free(self->workers);
    sink_sweep_clear(&self->sweep);
    free(self);
    *self_p = NULL;
}
