#include "sink_attempt.h"

#include <stdlib.h>
#include <string.h>

#include "crema_columns.h"
#include "crema_record.h"
#include "sink_cell.h"
#include "sink_intern.h"

/* A closed attempt keeps its key, so that a repeated provisional row does not open it again. */
typedef struct {
    uint8_t *row; /* NULL: closed */
} attempt_t;

struct sink_attempts {
    crema_limits_t *limits;
    sink_intern_t *keys;
    attempt_t *attempts;
    uint32_t room;
    sink_intern_t *chunks; /* chunks, each with the task that processes it */
    uint32_t *arrived;     /* arrived attempts by number in `chunks` */
    uint32_t n_arrived_room;
};

typedef struct {
    int64_t ref;
    uint64_t stream;
} attempt_key_t;

/* A chunk in one submission. */
typedef struct {
    int64_t chunk_id, task_key, submission_key;
} work_key_t;

crema_err_t
sink_attempts_new(crema_limits_t *limits, sink_attempts_t **ret_self)
{
    sink_attempts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->limits = limits;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &self->keys);
    if (err == CREMA_OK)
        err = sink_intern_new(SINK_INTERN_ANY, &self->chunks);
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
    uint32_t n = self->keys ? sink_intern_count(self->keys) : 0;
    for (uint32_t i = 0; i < n && i < self->room; i++)
        free(self->attempts[i].row);
    free(self->attempts);
    free(self->arrived);
    sink_intern_destroy(&self->keys);
    sink_intern_destroy(&self->chunks);
    free(self);
    *self_p = NULL;
}

/* NULL: the attempt is new and above the limit. */
static crema_err_t
s_attempt(sink_attempts_t *self, uint32_t stream, int64_t ref, attempt_t **ret_attempt,
          bool *ret_fresh)
{
    attempt_key_t key = {ref, stream};
    *ret_attempt = NULL;
    if (sink_intern_count(self->keys) >= self->limits->limit[CREMA_LIMIT_OPEN_ATTEMPTS] &&
        sink_intern_find(self->keys, &key, sizeof key) == SINK_INTERN_NONE) {
        crema_limits_met(self->limits, CREMA_LIMIT_OPEN_ATTEMPTS, 1);
        return CREMA_OK;
    }
    if (sink_intern_count(self->keys) == self->room) {
        uint32_t room = self->room ? self->room * 2 : 256;
        attempt_t *attempts = realloc(self->attempts, room * sizeof *attempts);
        if (!attempts)
            return CREMA_ENOMEM;
        self->attempts = attempts;
        self->room = room;
    }
    uint32_t number;
    crema_err_t err = sink_intern_add(self->keys, &key, sizeof key, &number, ret_fresh);
    if (err != CREMA_OK)
        return err;
    *ret_attempt = &self->attempts[number];
    if (*ret_fresh)
        (*ret_attempt)->row = NULL;
    return CREMA_OK;
}

crema_err_t
sink_attempts_open(sink_attempts_t *self, uint32_t stream, int64_t ref, const uint8_t *row)
{
    size_t size = crema_table_row_bytes(crema_table(CREMA_TABLE_CHUNKS));
    attempt_t *attempt;
    bool fresh;
    crema_err_t err = s_attempt(self, stream, ref, &attempt, &fresh);
    if (err != CREMA_OK || !attempt)
        return err;
    if (!fresh && !attempt->row)
        return CREMA_OK; /* its final row came before */
    if (!attempt->row && !(attempt->row = malloc(size)))
        return CREMA_ENOMEM;
    memcpy(attempt->row, row, size);
    return CREMA_OK;
}

crema_err_t
sink_attempts_close(sink_attempts_t *self, uint32_t stream, int64_t ref)
{
    attempt_t *attempt;
    bool fresh;
    crema_err_t err = s_attempt(self, stream, ref, &attempt, &fresh);
    if (err != CREMA_OK || !attempt)
        return err;
    free(attempt->row);
    attempt->row = NULL;
    return CREMA_OK;
}

const uint8_t *
sink_attempts_next(const sink_attempts_t *self, size_t *cursor)
{
    uint32_t n = sink_intern_count(self->keys);
    while (*cursor < n) {
        const uint8_t *row = self->attempts[(*cursor)++].row;
        if (row)
            return row;
    }
    return NULL;
}

/* ---- numbering */

uint32_t
sink_attempts_arrived(sink_attempts_t *self, const crema_chunks_row_t *row)
{
    const work_key_t key = {row->chunk_id, row->task_key, row->submission_key};
    uint32_t number;
    bool fresh;
    if (sink_intern_count(self->chunks) == self->n_arrived_room) {
        uint32_t room = self->n_arrived_room ? self->n_arrived_room * 2 : 256;
        uint32_t *arrived = realloc(self->arrived, room * sizeof *arrived);
        if (!arrived)
            return 0;
        memset(arrived + self->n_arrived_room, 0, (room - self->n_arrived_room) * sizeof *arrived);
        self->arrived = arrived;
        self->n_arrived_room = room;
    }
    if (key.chunk_id == 0 ||
        sink_intern_add(self->chunks, &key, sizeof key, &number, &fresh) != CREMA_OK)
        return 0;
    return ++self->arrived[number];
}

/* Attempts of one submitted task at one chunk; without Dask all attempts at the chunk. */
typedef struct {
    uint32_t n;       /* attempts so far in the current pass */
    uint16_t pass;    /* of the chunk */
    size_t winner;    /* row of the attempt that returned last */
    int64_t t_end_ns; /* of the winner */
    bool won;
} chunk_t;

static uint16_t
s_fit(uint32_t n)
{
    return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

static void
s_supersede(crema_chunks_row_t *row)
{
    row->quality |= SINK_QUALITY_SUPERSEDED;
}

/* True if a worker left between the two instants: only then are results computed again. */
static bool
s_some_left(const sink_rows_t *streams, int64_t t0_ns, int64_t t1_ns)
{
    for (size_t i = 0; i < sink_rows_count(streams); i++) {
        const crema_dict_stream_row_t *row = sink_rows_at(streams, i);
        int64_t t_ns = row->t_last_ns;
        if (row->kind == CREMA_STREAM_WORKER && t_ns >= t0_ns && t_ns <= t1_ns)
            return true;
    }
    return false;
}

/* True if an attempt after one that returned belongs to another pass. Dask recomputes a task of
 * one submission only if its result was lost; where submissions are not distinguished, that
 * requires a departed worker. Without Dask every result has reached the client. */
static bool
s_is_again(const work_key_t *key, const chunk_t *chunk, const sink_rows_t *streams,
           int64_t t_start_ns)
{
    if (!chunk->won || key->submission_key != 0)
        return false;
    return key->task_key == 0 || !s_some_left(streams, chunk->t_end_ns, t_start_ns);
}

/* Numbers attempts in the order of the rows, which is that of their start. */
static void
s_number_one(sink_rows_t *rows, size_t i, chunk_t *chunk)
{
    crema_chunks_row_t *row = sink_rows_at(rows, i);
    row->attempt = s_fit(++chunk->n);
    row->pass = chunk->pass;
    if (!sink_chunk_returned(row->status))
        return;
    int64_t t_end_ns = row->t_end_ns;
    if (chunk->won && chunk->t_end_ns > t_end_ns) {
        s_supersede(row);
        return;
    }
    if (chunk->won)
        s_supersede(sink_rows_at(rows, chunk->winner));
    *chunk = (chunk_t){chunk->n, chunk->pass, i, t_end_ns, true};
}

/* Number of a key among those seen so far; makes room for it in `counts`. */
static crema_err_t
s_seen(sink_intern_t *ids, const void *key, size_t size, chunk_t **counts, uint32_t *room,
       uint32_t *ret_number)
{
    bool fresh;
    crema_err_t err = sink_intern_add(ids, key, size, ret_number, &fresh);
    if (err != CREMA_OK || *ret_number < *room)
        return err;
    uint32_t more_room = *room ? *room * 2 : 256;
    chunk_t *more = realloc(*counts, more_room * sizeof *more);
    if (!more)
        return CREMA_ENOMEM;
    memset(more + *room, 0, (more_room - *room) * sizeof *more);
    *counts = more;
    *room = more_room;
    return CREMA_OK;
}

/* The submitted work, and the number of passes per chunk. */
typedef struct {
    sink_intern_t *works, *ids;
    chunk_t *of_work, *of_id; /* of an id only `n` is used: its passes */
    uint32_t works_room, ids_room;
} numbering_t;

static crema_err_t
s_number_row(numbering_t *self, sink_rows_t *rows, size_t i, const sink_rows_t *streams)
{
    crema_chunks_row_t *row = sink_rows_at(rows, i);
    const work_key_t key = {row->chunk_id, row->task_key, row->submission_key};
    uint32_t work, id;
    if (key.chunk_id == 0) { /* the chunk is unknown */
        row->attempt = row->pass = 1;
        return CREMA_OK;
    }
    crema_err_t err =
        s_seen(self->works, &key, sizeof key, &self->of_work, &self->works_room, &work);
    if (err == CREMA_OK)
        err = s_seen(self->ids, &key.chunk_id, sizeof key.chunk_id, &self->of_id, &self->ids_room,
                     &id);
    if (err != CREMA_OK)
        return err;
    chunk_t *chunk = &self->of_work[work];
    if (chunk->n == 0 || s_is_again(&key, chunk, streams, row->t_start_ns)) {
        uint32_t passes = ++self->of_id[id].n;
        *chunk = (chunk_t){.pass = (uint16_t)(passes < UINT16_MAX ? passes : UINT16_MAX - 1)};
    }
    s_number_one(rows, i, chunk);
    return CREMA_OK;
}

crema_err_t
sink_attempts_number(sink_rows_t *rows, const sink_rows_t *streams)
{
    numbering_t self = {0};
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &self.works);
    if (err == CREMA_OK)
        err = sink_intern_new(SINK_INTERN_ANY, &self.ids);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++)
        err = s_number_row(&self, rows, i, streams);
    free(self.of_work);
    free(self.of_id);
    sink_intern_destroy(&self.works);
    sink_intern_destroy(&self.ids);
    return err;
}

crema_err_t
sink_attempts_number_tasks(sink_rows_t *rows)
{
    sink_intern_t *ids = NULL;
    chunk_t *tasks = NULL;
    uint32_t room = 0, number;
    crema_err_t err = sink_intern_new(SINK_INTERN_ANY, &ids);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        crema_task_events_row_t *row = sink_rows_at(rows, i);
        int64_t id = row->task_key;
        if (id == 0 || row->action != CREMA_TASK_ACTION_COMPUTE || row->t_start_ns == 0)
            continue;
        err = s_seen(ids, &id, sizeof id, &tasks, &room, &number);
        if (err == CREMA_OK)
            row->attempt = s_fit(++tasks[number].n);
    }
    free(tasks);
    sink_intern_destroy(&ids);
    return err;
}
