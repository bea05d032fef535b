#define _GNU_SOURCE /* qsort_r */
#include "sink_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crema_split.h"
#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_intern.h"

#define METERED_MAX (1u << 24)

/* Values of /task_events.action and .status, /worker_samples.source, /membership.evidence. */
enum { ACTION_COMPUTE = 0 };
enum { TASK_OK = 0, TASK_LOST = 3 };
enum { SOURCE_AGENT = 0, SOURCE_SCHEDULER = 1, SOURCE_WORKER = 2 };
enum { EVIDENCE_BOUNDARY = 3 };

double
sink_chunk_s(const sink_chunk_t *chunk)
{
    double open_s = isnan(chunk->open_s) ? 0 : chunk->open_s;
    return isnan(chunk->wall_s) ? open_s : open_s + chunk->wall_s;
}

static size_t
s_column(crema_table_id_t table, const char *name)
{
    return sink_cell_column(crema_table(table), name);
}

/* ---- chunks */

static crema_err_t
s_take_chunks(sink_facts_t *self, const sink_rows_t *rows)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_CHUNKS);
    size_t n = sink_rows_count(rows);
    if (!(self->chunks = calloc(n + 1, sizeof *self->chunks)))
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        sink_chunk_t *c = &self->chunks[i];
        c->t_start_ns = sink_cell_int(t, row, "t_start_ns");
        c->t_end_ns = sink_cell_int(t, row, "t_end_ns");
        c->wall_s = sink_cell_real(t, row, "wall_s");
        c->open_s = sink_cell_real(t, row, "open_s");
        c->cpu_s = sink_cell_real(t, row, "cpu_s");
        c->gc_s = sink_cell_real(t, row, "gc_s");
        c->n_events = sink_cell_int(t, row, "n_events");
        c->bytes_read_b = sink_cell_int(t, row, "bytes_read_b");
        c->bytes_accessed_b = sink_cell_int(t, row, "bytes_accessed_b");
        c->bytes_uncompressed_b = sink_cell_int(t, row, "bytes_uncompressed_b");
        c->rss_peak_b = sink_cell_int(t, row, "rss_peak_b");
        c->task_key = sink_cell_int(t, row, "task_key");
        c->worker = (uint32_t)sink_cell_int(t, row, "worker_id");
        c->dataset = (uint32_t)sink_cell_int(t, row, "dataset_id");
        c->file = (uint32_t)sink_cell_int(t, row, "file_id");
        c->status = (uint8_t)sink_cell_int(t, row, "status");
        c->quality = (uint8_t)sink_cell_int(t, row, "quality");
        c->counted = sink_chunk_returned(c->status) && !(c->quality & SINK_QUALITY_SUPERSEDED);
    }
    self->n_chunks = n;
    return CREMA_OK;
}

/* ---- tasks, and which of them were chunks */

static crema_err_t
s_take_tasks(sink_facts_t *self, const sink_rows_t *rows)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_TASK_EVENTS);
    size_t n = sink_rows_count(rows);
    if (!(self->tasks = calloc(n + 1, sizeof *self->tasks)))
        return CREMA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        sink_task_t task = {.t_start_ns = sink_cell_int(t, row, "t_start_ns"),
                            .t_stop_ns = sink_cell_int(t, row, "t_stop_ns"),
                            .t_ready_ns = sink_cell_int(t, row, "t_ready_ns"),
                            .task_key = sink_cell_int(t, row, "task_key"),
                            .worker = (uint32_t)sink_cell_int(t, row, "worker_id"),
                            .prefix = (uint32_t)sink_cell_int(t, row, "task_prefix_id"),
                            .status = (uint8_t)sink_cell_int(t, row, "status"),
                            .side = (uint8_t)sink_cell_int(t, row, "side")};
        if (sink_cell_int(t, row, "action") == ACTION_COMPUTE && task.t_start_ns != 0)
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

/* First of the ordered tasks with at least this key and worker. */
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

/* A chunk ran in the task of its key and worker that was under way meanwhile. */
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
            TASK_LOST) /* seen from the scheduler; the worker knew the start better */
            continue;
        chunk->in_task = true;
        chunk->task_is_ok = task->status == TASK_OK;
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
    const crema_table_t *a = crema_table(CREMA_TABLE_DICT_ACTIVITY);
    const crema_table_t *u = crema_table(CREMA_TABLE_DICT_UNIT);
    const sink_rows_t *activities = sink_tables_rows(tables, a->id);
    const sink_rows_t *names = sink_tables_rows(tables, u->id);
    self->n_activities = sink_rows_count(activities);
    self->n_units = sink_rows_count(names);
    self->activity_kind = calloc(self->n_activities + 1, 1);
    self->unit_kind = calloc(self->n_units + 1, 1);
    if (!self->activity_kind || !self->unit_kind)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_activities; i++)
        self->activity_kind[i] = (uint8_t)sink_cell_int(a, sink_rows_at(activities, i), "kind");
    for (size_t i = 0; i < self->n_units; i++) {
        char name[SINK_ROW_BYTES_MAX];
        crema_row_get_text(u, sink_rows_at(names, i), s_column(u->id, "name"), name, sizeof name);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++)
            if (strcmp(units[k].unit, name) == 0)
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
    const crema_table_t *t = crema_table(CREMA_TABLE_ACTIVITIES);
    const size_t worker = s_column(t->id, "worker_id"), prefix = s_column(t->id, "task_prefix_id"),
                 activity = s_column(t->id, "activity_id"), unit = s_column(t->id, "unit_id"),
                 context = s_column(t->id, "context"), side = s_column(t->id, "side"),
                 value = s_column(t->id, "value");
    sink_intern_t *keys = NULL;
    size_t room = 0;
    crema_err_t err = sink_intern_new(METERED_MAX, &keys);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        metered_key_t key = {(uint32_t)crema_row_get_i64(t, row, worker),
                             (uint32_t)crema_row_get_i64(t, row, prefix),
                             (uint32_t)crema_row_get_i64(t, row, activity),
                             (uint32_t)crema_row_get_i64(t, row, unit),
                             (uint32_t)crema_row_get_i64(t, row, context),
                             (uint32_t)crema_row_get_i64(t, row, side)};
        double step = crema_row_get_f64(t, row, value);
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
        if (err == CREMA_OK && !isnan(step))
            self->metered[number].value += step;
    }
    sink_intern_destroy(&keys);
    return err;
}

/* ---- samples */

static int
s_by_worker(const void *a, const void *b)
{
    const sink_sample_t *left = a, *right = b;
    if (left->worker != right->worker)
        return left->worker < right->worker ? -1 : 1;
    return (left->t_ns > right->t_ns) - (left->t_ns < right->t_ns);
}

/* Of several observers of a worker the best one counts: itself, its agent, the scheduler. */
static int
s_rank(int64_t source)
{
    return source == SOURCE_WORKER ? 2 : source == SOURCE_AGENT ? 1 : 0;
}

static crema_err_t
s_take_samples(sink_facts_t *self, const sink_rows_t *rows)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_WORKER_SAMPLES);
    size_t n = sink_rows_count(rows);
    uint8_t *best = calloc(self->n_workers + 1, 1);
    self->samples = calloc(n + 1, sizeof *self->samples);
    if (!best || !self->samples) {
        free(best);
        return CREMA_ENOMEM;
    }
    const size_t worker = s_column(t->id, "worker_id"), source = s_column(t->id, "source");
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        int64_t w = crema_row_get_i64(t, row, worker);
        int rank = s_rank(crema_row_get_i64(t, row, source));
        if (w < (int64_t)self->n_workers && rank > best[w])
            best[w] = (uint8_t)rank;
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        int64_t w = crema_row_get_i64(t, row, worker);
        if (w >= (int64_t)self->n_workers || s_rank(crema_row_get_i64(t, row, source)) != best[w])
            continue;
        self->samples[self->n_samples++] =
            (sink_sample_t){.t_ns = sink_cell_int(t, row, "t_ns"),
                            .cpu_pct = sink_cell_real(t, row, "cpu_pct"),
                            .rss_b = sink_cell_int(t, row, "rss_b"),
                            .memory_limit_b = sink_cell_int(t, row, "memory_limit_b"),
                            .net_read_b = sink_cell_int(t, row, "net_read_b"),
                            .worker = (uint32_t)w,
                            .executing = (uint16_t)sink_cell_int(t, row, "executing"),
                            .nthreads = (uint16_t)sink_cell_int(t, row, "nthreads")};
    }
    free(best);
    qsort(self->samples, self->n_samples, sizeof *self->samples, s_by_worker);
    return CREMA_OK;
}

/* ---- presence */

static crema_err_t
s_take_streams(sink_facts_t *self, const sink_decoder_t *run)
{
    self->killed = calloc(self->n_workers + 1, sizeof *self->killed);
    self->is_member = calloc(self->n_workers + 1, sizeof *self->is_member);
    self->has_stream = calloc(self->n_workers + 1, sizeof *self->has_stream);
    if (!self->killed || !self->is_member || !self->has_stream)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < sink_decoder_streams(run); i++) {
        const sink_stream_t *stream = sink_decoder_stream(run, i);
        if (stream->worker >= self->n_workers)
            continue;
        self->has_stream[stream->worker] = true;
        if (!stream->closed || stream->end == CREMA_END_WRITER_GONE)
            self->killed[stream->worker] = true;
    }
    return CREMA_OK;
}

/* Change points of /membership, then first and last sight of workers that it does not know. */
static size_t
s_take_members(sink_facts_t *self, const sink_tables_t *tables, sink_member_t *events)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_MEMBERSHIP);
    const sink_rows_t *rows = sink_tables_rows(tables, t->id);
    size_t n = 0;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const uint8_t *row = sink_rows_at(rows, i);
        int64_t nthreads = sink_cell_int(t, row, "nthreads");
        sink_member_t event = {.t_ns = sink_cell_int(t, row, "t_ns"),
                               .t_uncertainty_ns = sink_cell_int(t, row, "t_uncertainty_ns"),
                               .worker = (uint32_t)sink_cell_int(t, row, "worker_id"),
                               .nthreads = nthreads == UINT16_MAX ? 0 : (uint32_t)nthreads,
                               .event = (sink_member_event_t)sink_cell_int(t, row, "event"),
                               .boundary = sink_cell_int(t, row, "evidence") == EVIDENCE_BOUNDARY};
        if (event.worker >= self->n_workers)
            continue;
        bool about_slots = event.event == SINK_MEMBER_PAUSE || event.event == SINK_MEMBER_RESUME;
        if (!about_slots) { /* a worker may tell of its own pauses where nobody watches the cluster */
            self->is_member[event.worker] = true;
            self->has_membership = true;
            if (event.t_uncertainty_ns > 0 && !event.boundary)
                self->members_bound_s += (double)event.t_uncertainty_ns * 1e-9 / 2;
        }
        events[n++] = event;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (self->is_member[events[i].worker])
            events[kept++] = events[i];
    const crema_table_t *w = crema_table(CREMA_TABLE_DICT_WORKER);
    const sink_rows_t *workers = sink_tables_rows(tables, w->id);
    for (uint32_t i = 0; i < self->n_workers; i++) {
        const uint8_t *row = sink_rows_at(workers, i);
        int64_t first = sink_cell_int(w, row, "t_first_ns"),
                last = sink_cell_int(w, row, "t_last_ns");
        if (self->is_member[i] || !self->has_stream[i] || first == 0)
            continue;
        events[kept++] = (sink_member_t){.t_ns = first, .worker = i, .event = SINK_MEMBER_JOIN};
        events[kept++] = (sink_member_t){.t_ns = last, .worker = i, .event = SINK_MEMBER_LEAVE};
    }
    return kept;
}

static crema_err_t
s_take_presence(sink_facts_t *self, const sink_tables_t *tables)
{
    const crema_table_t *w = crema_table(CREMA_TABLE_DICT_WORKER);
    const sink_rows_t *workers = sink_tables_rows(tables, w->id);
    size_t most =
        sink_rows_count(sink_tables_rows(tables, CREMA_TABLE_MEMBERSHIP)) + 2 * self->n_workers + 1;
    sink_member_t *events = calloc(most, sizeof *events);
    uint32_t *slots = calloc(self->n_workers + 1, sizeof *slots);
    self->presence = calloc(most, sizeof *self->presence);
    if (!events || !slots || !self->presence) {
        free(events);
        free(slots);
        return CREMA_ENOMEM;
    }
    for (uint32_t i = 0; i < self->n_workers; i++) {
        int64_t nthreads = sink_cell_int(w, sink_rows_at(workers, i), "nthreads");
        slots[i] = nthreads == UINT16_MAX ? 0 : (uint32_t)nthreads;
    }
    size_t n = s_take_members(self, tables, events);
    self->n_presence =
        sink_presence_from(events, n, slots, self->t0_ns, self->t1_ns, self->presence);
    free(events);
    free(slots);
    return CREMA_OK;
}

/* ---- slots */

/* A task that the scheduler saw lost and whose worker had told of its chunk is on its slot once, as the chunk. */
static crema_err_t
s_take_busy(sink_facts_t *self)
{
    self->busy = calloc(self->n_tasks + self->n_chunks + 1, sizeof *self->busy);
    self->ready = calloc(self->n_tasks + 1, sizeof *self->ready);
    if (!self->busy || !self->ready)
        return CREMA_ENOMEM;
    for (size_t i = 0; i < self->n_tasks; i++) {
        const sink_task_t *task = &self->tasks[i];
        if (task->worker >= self->n_workers || (task->is_chunk && task->status == TASK_LOST))
            continue;
        self->busy[self->n_busy++] = (sink_busy_t){task->t_start_ns, task->t_stop_ns, task->worker};
        if (task->t_ready_ns != 0 && task->t_ready_ns < task->t_start_ns)
            self->ready[self->n_ready++] = (sink_ready_t){task->t_ready_ns, task->t_start_ns};
    }
    for (size_t i = 0; i < self->n_chunks; i++) {
        const sink_chunk_t *chunk = &self->chunks[i];
        if (chunk->worker >= self->n_workers || chunk->in_task)
            continue;
        int64_t open_ns = isnan(chunk->open_s) ? 0 : (int64_t)(chunk->open_s * 1e9);
        self->busy[self->n_busy++] =
            (sink_busy_t){chunk->t_start_ns - open_ns, chunk->t_end_ns, chunk->worker};
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

/* As told; what nobody told is where the records begin and end. */
static void
s_take_window(sink_facts_t *self, const sink_decoder_t *run)
{
    for (size_t i = 0; i < sink_decoder_streams(run); i++) {
        s_widen(self, sink_decoder_stream(run, i)->t_first_ns);
        s_widen(self, sink_decoder_stream(run, i)->t_last_ns);
    }
    const sink_told_t *told = sink_decoder_told(run);
    if (sink_told_start_ns(told) != 0)
        self->t0_ns = sink_told_start_ns(told);
    if (sink_told_end_ns(told) != 0)
        self->t1_ns = sink_told_end_ns(told);
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
    if (err == CREMA_OK)
        err = s_take_tasks(self, sink_tables_rows(tables, CREMA_TABLE_TASK_EVENTS));
    if (err == CREMA_OK)
        err = s_join(self);
    if (err == CREMA_OK)
        err = s_take_kinds(self, tables);
    if (err == CREMA_OK)
        err = s_take_activities(self, sink_tables_rows(tables, CREMA_TABLE_ACTIVITIES));
    if (err == CREMA_OK)
        err = s_take_samples(self, sink_tables_rows(tables, CREMA_TABLE_WORKER_SAMPLES));
    if (err == CREMA_OK)
        err = s_take_streams(self, run);
    if (err == CREMA_OK)
        err = s_take_presence(self, tables);
    if (err == CREMA_OK)
        err = s_take_busy(self);
    if (err == CREMA_OK) {
        sink_sweep_in_t in = {self->t0_ns,    self->t1_ns,      self->n_workers,
                              self->presence, self->n_presence, self->busy,
                              self->n_busy,   self->ready,      self->n_ready};
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
    free(self->activity_kind);
    free(self->unit_kind);
    free(self->killed);
    free(self->is_member);
    free(self->has_stream);
    sink_sweep_clear(&self->sweep);
    free(self);
    *self_p = NULL;
}
