#include "sink_attempt.h"

#include <stdlib.h>
#include <string.h>

#include "crema_columns.h"
#include "crema_map.h"
#include "crema_record.h"
#include "sink_intern.h"
#include "sink_scratch.h"
#include "sink_sort.h"

/* An open attempt, in the order they were opened. */
typedef struct attempt {
    struct attempt *before, *next;
    crema_id_t key;
    uint8_t row[];
} attempt_t;

/* Numbers of attempts, first to last, that a stream has not used so far. Streams count upwards,
 * so that one range, or few, say of all attempts which are closed. */
typedef struct {
    int64_t first, last;
} range_t;

typedef struct {
    range_t *unused; /* ascending; NULL: all */
    size_t n, room;
} refs_t;

struct sink_attempts {
    crema_limits_t *limits;
    crema_map_t *open; /* attempt_t by stream and number */
    attempt_t *first, *last;
    refs_t *streams; /* by row of /dict/stream */
    size_t n_streams;
    size_t n_ranges; /* of all streams, but for two of each */
};

crema_err_t
sink_attempts_new(crema_limits_t *limits, sink_attempts_t **ret_self)
{
    sink_attempts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = crema_map_new(limits->limit[CREMA_LIMIT_OPEN_ATTEMPTS], &self->open);
    if (err != CREMA_OK)
        sink_attempts_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_attempts_destroy(sink_attempts_t **self_p)
{
    sink_attempts_t *self = *self_p;
    if (!self)
        return;
    for (attempt_t *next, *at = self->first; at; at = next) {
        next = at->next;
        free(at);
    }
    for (size_t i = 0; i < self->n_streams; i++)
        free(self->streams[i].unused);
    free(self->streams);
    crema_map_destroy(&self->open);
    free(self);
    *self_p = NULL;
}

/* ---- numbers that were used */

static bool
s_is_full(sink_attempts_t *self)
{
    if (crema_map_count(self->open) + self->n_ranges <
        self->limits->limit[CREMA_LIMIT_OPEN_ATTEMPTS])
        return false;
    crema_limits_met(self->limits, CREMA_LIMIT_OPEN_ATTEMPTS, 1);
    return true;
}

static crema_err_t
s_refs(sink_attempts_t *self, uint32_t stream, refs_t **ret_refs)
{
    if (stream >= self->n_streams) {
        size_t room = self->n_streams ? 2 * self->n_streams : 64;
        while (room <= stream)
            room *= 2;
        refs_t *streams = realloc(self->streams, room * sizeof *streams);
        if (!streams)
            return CREMA_ENOMEM;
        memset(streams + self->n_streams, 0, (room - self->n_streams) * sizeof *streams);
        self->streams = streams;
        self->n_streams = room;
    }
    refs_t *refs = &self->streams[stream];
    if (!refs->unused) {
        if (!(refs->unused = malloc(2 * sizeof *refs->unused)))
            return CREMA_ENOMEM;
        refs->unused[0] = (range_t){INT64_MIN, INT64_MAX};
        refs->room = 2;
        refs->n = 1;
    }
    *ret_refs = refs;
    return CREMA_OK;
}

/* The first range that does not end before `ref`. */
static size_t
s_range(const refs_t *refs, int64_t ref)
{
    size_t low = 0, high = refs->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (refs->unused[middle].last < ref)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
s_is_unused(const refs_t *refs, int64_t ref)
{
    size_t i = s_range(refs, ref);
    return i < refs->n && refs->unused[i].first <= ref;
}

/* Divides range `i` at `ref`. */
static crema_err_t
s_split(sink_attempts_t *self, refs_t *refs, size_t i, int64_t ref)
{
    if (refs->n >= 2) {
        if (s_is_full(self))
            return CREMA_OK;
        self->n_ranges++;
    }
    if (refs->n == refs->room) {
        range_t *more = realloc(refs->unused, 2 * refs->room * sizeof *more);
        if (!more)
            return CREMA_ENOMEM;
        refs->unused = more;
        refs->room *= 2;
    }
    memmove(&refs->unused[i + 1], &refs->unused[i], (refs->n++ - i) * sizeof *refs->unused);
    refs->unused[i].last = ref - 1;
    refs->unused[i + 1].first = ref + 1;
    return CREMA_OK;
}

/* An unused number becomes a used one. */
static crema_err_t
s_use(sink_attempts_t *self, refs_t *refs, int64_t ref)
{
    size_t i = s_range(refs, ref);
    range_t *range = &refs->unused[i];
    if (range->first == ref && range->last == ref) {
        memmove(range, range + 1, (--refs->n - i) * sizeof *range);
        self->n_ranges -= refs->n >= 2;
    } else if (range->first == ref) {
        range->first++;
    } else if (range->last == ref) {
        range->last--;
    } else {
        return s_split(self, refs, i, ref);
    }
    return CREMA_OK;
}

/* ---- open attempts */

static crema_id_t
s_key(uint32_t stream, int64_t ref)
{
    const uint64_t key[2] = {(uint64_t)ref, stream};
    crema_id_t id;
    memcpy(id.bytes, key, sizeof id.bytes);
    return id;
}

static crema_err_t
s_add(sink_attempts_t *self, const crema_id_t *key, attempt_t **ret_attempt)
{
    attempt_t *attempt = malloc(sizeof *attempt + sizeof(crema_chunks_row_t));
    if (!attempt)
        return CREMA_ENOMEM;
    *attempt = (attempt_t){.before = self->last, .key = *key};
    crema_err_t err = crema_map_add(self->open, &attempt->key, attempt);
    if (err != CREMA_OK) {
        free(attempt);
        return err;
    }
    *(self->last ? &self->last->next : &self->first) = attempt;
    self->last = attempt;
    *ret_attempt = attempt;
    return CREMA_OK;
}

crema_err_t
sink_attempts_open(sink_attempts_t *self, uint32_t stream, int64_t ref, const uint8_t *row)
{
    const crema_id_t key = s_key(stream, ref);
    attempt_t *attempt = crema_map_find(self->open, &key);
    refs_t *refs;
    crema_err_t err = s_refs(self, stream, &refs);
    if (err == CREMA_OK && !attempt) {
        if (!s_is_unused(refs, ref) || s_is_full(self)) /* its final row came before */
            return CREMA_OK;
        err = s_use(self, refs, ref);
        if (err == CREMA_OK)
            err = s_add(self, &key, &attempt);
    }
    if (err == CREMA_OK)
        memcpy(attempt->row, row, sizeof(crema_chunks_row_t));
    return err;
}

crema_err_t
sink_attempts_close(sink_attempts_t *self, uint32_t stream, int64_t ref)
{
    const crema_id_t key = s_key(stream, ref);
    attempt_t *attempt = crema_map_take(self->open, &key);
    if (attempt) {
        *(attempt->before ? &attempt->before->next : &self->first) = attempt->next;
        *(attempt->next ? &attempt->next->before : &self->last) = attempt->before;
        free(attempt);
        return CREMA_OK;
    }
    refs_t *refs;
    crema_err_t err = s_refs(self, stream, &refs);
    return err == CREMA_OK && s_is_unused(refs, ref) ? s_use(self, refs, ref) : err;
}

const uint8_t *
sink_attempts_next(const sink_attempts_t *self, const void **cursor)
{
    const attempt_t *at = *cursor ? ((const attempt_t *)*cursor)->next : self->first;
    *cursor = at;
    return at ? at->row : NULL;
}

/* ---- numbering */

/* Attempts of one submitted task at one chunk; without Dask all attempts at the chunk. */
typedef struct {
    int64_t task_key, submission_key;
    uint32_t n;       /* attempts so far in the current pass */
    uint16_t pass;    /* of the chunk */
    size_t winner;    /* row of the attempt that returned last */
    int64_t t_end_ns; /* of the winner */
    bool won;
} work_t;

static uint16_t
s_fit(size_t n)
{
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

static void
s_supersede(crema_chunks_row_t *row)
{
    row->quality |= SINK_QUALITY_SUPERSEDED;
}

/* When workers left, in order. */
typedef struct {
    int64_t *t_ns;
    size_t n;
} departures_t;

static int
s_by_time(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void
s_take_departures(const sink_rows_t *streams, departures_t *departures)
{
    for (size_t i = 0; i < sink_rows_count(streams); i++) {
        const crema_dict_stream_row_t *row = sink_rows_at(streams, i);
        if (row->kind == CREMA_STREAM_WORKER)
            departures->t_ns[departures->n++] = row->t_last_ns;
    }
    sink_sort(departures->t_ns, departures->n, sizeof *departures->t_ns, s_by_time);
}

/* True if a worker left between the two instants: only then are results computed again. */
static bool
s_some_left(const departures_t *departures, int64_t t0_ns, int64_t t1_ns)
{
    size_t first = sink_sort_first(departures->t_ns, departures->n, t0_ns);
    return first < departures->n && departures->t_ns[first] <= t1_ns;
}

/* True if an attempt after one that returned belongs to another pass. Dask recomputes a task of
 * one submission only if its result was lost; where submissions are not distinguished, that
 * requires a departed worker. Without Dask every result has reached the client. */
static bool
s_is_again(const work_t *work, const departures_t *departures, int64_t t_start_ns)
{
    if (!work->won || work->submission_key != 0)
        return false;
    return work->task_key == 0 || !s_some_left(departures, work->t_end_ns, t_start_ns);
}

/* Numbers attempts in the order of the rows, which is that of their start. */
static void
s_number_one(sink_rows_t *rows, size_t i, work_t *work)
{
    crema_chunks_row_t *row = sink_rows_at(rows, i);
    row->attempt = s_fit(++work->n);
    row->pass = work->pass;
    if (!sink_chunk_returned(row->status))
        return;
    int64_t t_end_ns = row->t_end_ns;
    if (work->won && work->t_end_ns > t_end_ns) {
        s_supersede(row);
        return;
    }
    if (work->won)
        s_supersede(sink_rows_at(rows, work->winner));
    work->winner = i;
    work->t_end_ns = t_end_ns;
    work->won = true;
}

/* A row and what it is an attempt at: a chunk or a task. */
typedef struct {
    int64_t id;
    size_t row;
} attempted_t;

static int
s_by_id(const void *a, const void *b)
{
    const attempted_t *left = a, *right = b;
    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

/* The end of the group of equal ids that begins at `i`. */
static size_t
s_group_end(const attempted_t *all, size_t i, size_t n)
{
    size_t end = i + 1;
    while (end < n && all[end].id == all[i].id)
        end++;
    return end;
}

/* What was submitted of one chunk. */
typedef struct {
    sink_intern_t *keys; /* (task key, submission) */
    work_t *works;
    uint32_t room;
} works_t;

static crema_err_t
s_work(works_t *self, const crema_chunks_row_t *row, work_t **ret_work)
{
    const int64_t key[2] = {row->task_key, row->submission_key};
    uint32_t number;
    bool fresh;
    crema_err_t err = sink_intern_add(self->keys, key, sizeof key, &number, &fresh);
    if (err == CREMA_OK && number >= self->room) {
        uint32_t room = self->room ? self->room * 2 : 4;
        work_t *works = realloc(self->works, room * sizeof *works);
        if (!works)
            return CREMA_ENOMEM;
        self->works = works;
        self->room = room;
    }
    if (err != CREMA_OK)
        return err;
    *ret_work = &self->works[number];
    if (fresh)
        **ret_work = (work_t){.task_key = key[0], .submission_key = key[1]};
    return CREMA_OK;
}

/* The attempts at one chunk, in the order of their start. */
static crema_err_t
s_number_chunk(sink_rows_t *rows, const attempted_t *attempts, size_t n,
               const departures_t *departures)
{
    works_t works = {0};
    uint32_t passes = 0;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &works.keys);
    for (size_t i = 0; err == CREMA_OK && i < n; i++) {
        const crema_chunks_row_t *row = sink_rows_at(rows, attempts[i].row);
        work_t *work;
        err = s_work(&works, row, &work);
        if (err != CREMA_OK)
            break;
        if (work->n == 0 || s_is_again(work, departures, row->t_start_ns)) {
            passes++;
            work->pass = (uint16_t)(passes < UINT16_MAX ? passes : UINT16_MAX - 1);
            work->n = 0;
            work->won = false;
        }
        s_number_one(rows, attempts[i].row, work);
    }
    sink_intern_destroy(&works.keys);
    free(works.works);
    return err;
}

/* A chunk with one attempt, as nearly all, or one that is not known. */
static void
s_number_alone(sink_rows_t *rows, size_t i)
{
    crema_chunks_row_t *row = sink_rows_at(rows, i);
    row->attempt = row->pass = 1;
}

static crema_err_t
s_number_chunks(sink_rows_t *rows, attempted_t *all, const departures_t *departures)
{
    size_t n = sink_rows_count(rows);
    crema_err_t err = CREMA_OK;
    for (size_t i = 0; i < n; i++)
        all[i] = (attempted_t){((const crema_chunks_row_t *)sink_rows_at(rows, i))->chunk_id, i};
    sink_sort_by_int64(all, n, sizeof *all, s_by_id);
    for (size_t i = 0, end = 0; err == CREMA_OK && i < n; i = end) {
        end = s_group_end(all, i, n);
        if (end - i > 1 && all[i].id != 0)
            err = s_number_chunk(rows, all + i, end - i, departures);
        else
            for (size_t k = i; k < end; k++)
                s_number_alone(rows, all[k].row);
    }
    return err;
}

crema_err_t
sink_attempts_number(sink_rows_t *rows, const sink_rows_t *streams, const char *dir)
{
    crema_err_t err = CREMA_OK;
    departures_t departures = {0};
    departures.t_ns =
        sink_scratch(dir, sink_rows_count(streams) + 1, sizeof *departures.t_ns, &err);
    attempted_t *all = sink_scratch(dir, sink_rows_count(rows) + 1, sizeof *all, &err);
    if (err == CREMA_OK) {
        s_take_departures(streams, &departures);
        err = s_number_chunks(rows, all, &departures);
    }
    sink_scratch_free(all);
    sink_scratch_free(departures.t_ns);
    return err;
}

crema_err_t
sink_attempts_number_tasks(sink_rows_t *rows, const char *dir)
{
    size_t n = 0;
    crema_err_t err = CREMA_OK;
    attempted_t *all = sink_scratch(dir, sink_rows_count(rows) + 1, sizeof *all, &err);
    if (!all)
        return err;
    for (size_t i = 0; i < sink_rows_count(rows); i++) {
        const crema_task_events_row_t *row = sink_rows_at(rows, i);
        if (row->task_key != 0 && row->action == CREMA_TASK_ACTION_COMPUTE && row->t_start_ns != 0)
            all[n++] = (attempted_t){row->task_key, i};
    }
    sink_sort_by_int64(all, n, sizeof *all, s_by_id);
    for (size_t i = 0, end = 0; i < n; i = end) {
        end = s_group_end(all, i, n);
        for (size_t k = i; k < end; k++)
            ((crema_task_events_row_t *)sink_rows_at(rows, all[k].row))->attempt = s_fit(k - i + 1);
    }
    sink_scratch_free(all);
    return CREMA_OK;
}
