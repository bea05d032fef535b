#include "sink_attempt.h"

#include <stdlib.h>
#include <string.h>

#include "crema_columns.h"
#include "sink_cell.h"
#include "sink_intern.h"

/* An attempt that is closed keeps its key, so that a repeated provisional row does not open it again. */
typedef struct {
    uint8_t *row; /* NULL: closed */
} attempt_t;

struct sink_attempts {
    sink_intern_t *keys;
    attempt_t *attempts;
    uint32_t room;
    sink_intern_t *chunks; /* chunk ids */
    uint32_t *arrived;     /* attempts that arrived, by number of the chunk */
    uint32_t n_arrived_room;
};

typedef struct {
    int64_t ref;
    uint64_t stream;
} attempt_key_t;

crema_err_t
sink_attempts_new(sink_attempts_t **ret_self)
{
    sink_attempts_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = sink_intern_new(SINK_ATTEMPTS_MAX, &self->keys);
    if (err == CREMA_OK)
        err = sink_intern_new(SINK_ATTEMPTS_MAX, &self->chunks);
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

static crema_err_t
s_attempt(sink_attempts_t *self, uint32_t stream, int64_t ref, attempt_t **ret_attempt,
          bool *ret_fresh)
{
    attempt_key_t key = {ref, stream};
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
    if (err != CREMA_OK)
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
    if (err != CREMA_OK)
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
sink_attempts_arrived(sink_attempts_t *self, int64_t chunk_id)
{
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
    if (chunk_id == 0 ||
        sink_intern_add(self->chunks, &chunk_id, sizeof chunk_id, &number, &fresh) != CREMA_OK)
        return 0;
    return ++self->arrived[number];
}

typedef struct {
    uint32_t n;       /* attempts so far */
    size_t winner;    /* row of the attempt that returned last */
    int64_t t_end_ns; /* of the winner */
    bool won;
} chunk_t;

static void
s_supersede(uint8_t *row)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_CHUNKS);
    int64_t quality = sink_cell_int(table, row, "quality");
    sink_cell_set(table, row, "quality", quality | SINK_QUALITY_SUPERSEDED);
}

/* Attempts count up in the order of the rows, which is that of their start. */
static void
s_number_one(sink_rows_t *rows, size_t i, chunk_t *chunk)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_CHUNKS);
    uint8_t *row = sink_rows_at(rows, i);
    chunk->n++;
    sink_cell_set(table, row, "attempt", chunk->n);
    if (!sink_chunk_returned(sink_cell_int(table, row, "status")))
        return;
    int64_t t_end_ns = sink_cell_int(table, row, "t_end_ns");
    if (chunk->won && chunk->t_end_ns > t_end_ns) {
        s_supersede(row);
        return;
    }
    if (chunk->won)
        s_supersede(sink_rows_at(rows, chunk->winner));
    *chunk = (chunk_t){chunk->n, i, t_end_ns, true};
}

/* Number of `id` among those seen so far, with room for it in `counts`. */
static crema_err_t
s_seen(sink_intern_t *ids, int64_t id, chunk_t **counts, uint32_t *room, uint32_t *ret_number)
{
    bool fresh;
    crema_err_t err = sink_intern_add(ids, &id, sizeof id, ret_number, &fresh);
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

crema_err_t
sink_attempts_number(sink_rows_t *rows)
{
    const crema_table_t *table = crema_table(CREMA_TABLE_CHUNKS);
    sink_intern_t *ids = NULL;
    chunk_t *chunks = NULL;
    uint32_t room = 0, number;
    crema_err_t err = sink_intern_new(SINK_ATTEMPTS_MAX, &ids);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        int64_t id = sink_cell_int(table, sink_rows_at(rows, i), "chunk_id");
        if (id == 0) { /* nobody knows which chunk it was */
            sink_cell_set(table, sink_rows_at(rows, i), "attempt", 1);
            continue;
        }
        err = s_seen(ids, id, &chunks, &room, &number);
        if (err == CREMA_OK)
            s_number_one(rows, i, &chunks[number]);
    }
    free(chunks);
    sink_intern_destroy(&ids);
    return err;
}

crema_err_t
sink_attempts_number_tasks(sink_rows_t *rows)
{
    enum { ACTION_COMPUTE = 0 };
    const crema_table_t *table = crema_table(CREMA_TABLE_TASK_EVENTS);
    sink_intern_t *ids = NULL;
    chunk_t *tasks = NULL;
    uint32_t room = 0, number;
    crema_err_t err = sink_intern_new(SINK_ATTEMPTS_MAX, &ids);
    for (size_t i = 0; err == CREMA_OK && i < sink_rows_count(rows); i++) {
        uint8_t *row = sink_rows_at(rows, i);
        int64_t id = sink_cell_int(table, row, "task_key");
        if (id == 0 || sink_cell_int(table, row, "action") != ACTION_COMPUTE ||
            sink_cell_int(table, row, "t_start_ns") == 0)
            continue;
        err = s_seen(ids, id, &tasks, &room, &number);
        if (err == CREMA_OK) {
            uint32_t n = ++tasks[number].n;
            sink_cell_set(table, row, "attempt", n < UINT16_MAX ? n : UINT16_MAX);
        }
    }
    free(tasks);
    sink_intern_destroy(&ids);
    return err;
}
