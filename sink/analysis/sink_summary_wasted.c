/* Wasted work by worker, by whether it was a chunk, and by reason. */
#include <stdlib.h>

#include "sink_attempt.h"
#include "sink_cell.h"
#include "sink_intern.h"
#include "sink_summary.h"

typedef struct {
    int64_t attempts, recovered, events;
    double s;
} wasted_t;

static int
s_reason(const sink_chunk_t *chunk)
{
    static const int reasons[] = {
        [CREMA_CHUNK_OK] = CREMA_WASTED_SUPERSEDED,       [CREMA_CHUNK_ERROR] = CREMA_WASTED_ERROR,
        [CREMA_CHUNK_CANCELLED] = CREMA_WASTED_CANCELLED, [CREMA_CHUNK_LOST] = CREMA_WASTED_LOST,
        [CREMA_CHUNK_PARTIAL] = CREMA_WASTED_SUPERSEDED,
    };
    return chunk->status <= CREMA_CHUNK_PARTIAL ? reasons[chunk->status] : CREMA_WASTED_ERROR;
}

/* Chunks whose result is in the run's result, and tasks that succeeded in the end. */
static crema_err_t
s_find_successes(const sink_summary_t *self, sink_intern_t *chunks, sink_intern_t *tasks)
{
    const sink_facts_t *facts = self->facts;
    crema_err_t err = CREMA_OK;
    uint32_t number;
    bool fresh;
    for (size_t i = 0; err == CREMA_OK && i < facts->n_chunks; i++) {
        const int64_t key[2] = {facts->chunks[i].chunk_id, facts->chunks[i].pass};
        if (facts->chunks[i].counted && key[0] != 0)
            err = sink_intern_add(chunks, key, sizeof key, &number, &fresh);
    }
    for (size_t i = 0; err == CREMA_OK && i < facts->n_tasks; i++) {
        int64_t key = facts->tasks[i].task_key;
        if (facts->tasks[i].status == CREMA_TASK_OK && key != 0)
            err = sink_intern_add(tasks, &key, sizeof key, &number, &fresh);
    }
    return err;
}

static wasted_t *
s_cell(wasted_t *wasted, size_t n_workers, uint32_t worker, int what, int reason)
{
    size_t w = worker < n_workers ? worker : n_workers; /* nobody knows whose */
    return &wasted[(w * CREMA_WASTED_WHAT_COUNT + (size_t)what) * CREMA_WASTED_COUNT +
                   (size_t)reason];
}

static void
s_add_chunks(const sink_summary_t *self, const sink_intern_t *made_good, wasted_t *wasted)
{
    const sink_facts_t *facts = self->facts;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (chunk->counted)
            continue;
        wasted_t *cell = s_cell(wasted, facts->n_workers, chunk->worker, CREMA_WASTED_WHAT_CHUNK,
                                s_reason(chunk));
        const int64_t key[2] = {chunk->chunk_id, chunk->pass};
        cell->attempts++;
        cell->recovered += sink_intern_find(made_good, key, sizeof key) != SINK_INTERN_NONE;
        cell->events += chunk->n_entries > 0 ? chunk->n_entries : 0;
        cell->s += sink_chunk_s(chunk);
    }
}

static void
s_add_tasks(const sink_summary_t *self, const sink_intern_t *made_good, wasted_t *wasted)
{
    static const int reasons[] = {[CREMA_TASK_ERROR] = CREMA_WASTED_ERROR,
                                  [CREMA_TASK_CANCELLED] = CREMA_WASTED_CANCELLED,
                                  [CREMA_TASK_LOST] = CREMA_WASTED_LOST};
    const sink_facts_t *facts = self->facts;
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        if (task->is_chunk || task->side == CREMA_SIDE_FOREIGN || task->status == CREMA_TASK_OK ||
            task->status > CREMA_TASK_LOST)
            continue;
        wasted_t *cell = s_cell(wasted, facts->n_workers, task->worker, CREMA_WASTED_WHAT_TASK,
                                reasons[task->status]);
        cell->attempts++;
        cell->recovered +=
            sink_intern_find(made_good, &task->task_key, sizeof task->task_key) != SINK_INTERN_NONE;
        if (task->t_stop_ns > task->t_start_ns)
            cell->s += (double)(task->t_stop_ns - task->t_start_ns) * 1e-9;
    }
}

static crema_err_t
s_put(const sink_summary_t *self, size_t worker, int what, int reason, const wasted_t *cell)
{
    const crema_table_t *t = crema_table(CREMA_TABLE_WASTED);
    const crema_table_t *w = crema_table(CREMA_TABLE_DICT_WORKER);
    const sink_rows_t *workers = sink_tables_rows(self->tables, w->id);
    uint8_t row[SINK_ROW_BYTES_MAX];
    char name[129] = "";
    crema_row_clear(t, row);
    if (worker < sink_rows_count(workers))
        crema_row_get_text(w, sink_rows_at(workers, worker), sink_cell_column(w, "name"), name,
                           sizeof name);
    sink_cell_set(t, row, "worker_id",
                  worker < self->facts->n_workers ? (int64_t)worker : UINT32_MAX);
    sink_cell_set_text(t, row, "worker", name);
    sink_cell_set(t, row, "what", what);
    sink_cell_set(t, row, "reason", reason);
    sink_cell_set(t, row, "n_attempts", cell->attempts);
    sink_cell_set(t, row, "n_recovered", cell->recovered);
    sink_cell_set(t, row, "n_events", what == CREMA_WASTED_WHAT_CHUNK ? cell->events : -1);
    sink_cell_set_real(t, row, "wall_s", cell->s);
    return sink_tables_add(self->tables, t->id, row);
}

crema_err_t
sink_summary_wasted(const sink_summary_t *self)
{
    size_t n = self->facts->n_workers;
    sink_intern_t *chunks = NULL, *tasks = NULL;
    wasted_t *wasted =
        calloc((n + 1) * CREMA_WASTED_WHAT_COUNT * CREMA_WASTED_COUNT, sizeof *wasted);
    crema_err_t err = wasted ? sink_intern_new(SINK_INTERN_ANY, &chunks) : CREMA_ENOMEM;
    if (err == CREMA_OK)
        err = sink_intern_new(SINK_INTERN_ANY, &tasks);
    if (err == CREMA_OK)
        err = s_find_successes(self, chunks, tasks);
    if (err == CREMA_OK) {
        s_add_chunks(self, chunks, wasted);
        s_add_tasks(self, tasks, wasted);
    }
    for (size_t w = 0; w <= n; w++)
        for (int what = 0; what < CREMA_WASTED_WHAT_COUNT; what++)
            for (int reason = 0; reason < CREMA_WASTED_COUNT && err == CREMA_OK; reason++) {
                const wasted_t *cell = s_cell(wasted, n, (uint32_t)w, what, reason);
                if (cell->attempts > 0)
                    err = s_put(self, w, what, reason, cell);
            }
    free(wasted);
    sink_intern_destroy(&chunks);
    sink_intern_destroy(&tasks);
    return err;
}
