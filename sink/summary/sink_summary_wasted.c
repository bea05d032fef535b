/* Wasted work by worker, by whether it was a chunk, and by reason. */
#include "sink_scratch.h"
#include "sink_sort.h"
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

/* An attempt at a chunk in a pass, or at a task. */
typedef struct {
    int64_t key;
    int64_t t_start_ns;
    size_t row;
    uint32_t pass;
    bool in_vain;
    bool returned; /* never set without a key, since several attempts may have none */
} outcome_t;

/* The last attempt at the same comes first; of two that began at once, the one that returned. */
static int
s_by_last(const void *a, const void *b)
{
    const outcome_t *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    if (left->pass != right->pass)
        return left->pass < right->pass ? -1 : 1;
    if (left->t_start_ns != right->t_start_ns)
        return left->t_start_ns > right->t_start_ns ? -1 : 1;
    return (int)right->returned - (int)left->returned;
}

/* Marks the attempts in vain that a successful one follows. */
static void
s_mark_recovered(outcome_t *outcomes, size_t n, bool *recovered)
{
    const outcome_t *later = NULL;
    sink_sort_by_int64(outcomes, n, sizeof *outcomes, s_by_last);
    for (size_t i = 0; i < n; i++) {
        const outcome_t *now = &outcomes[i];
        if (now->in_vain)
            recovered[now->row] = later && later->key == now->key && later->pass == now->pass;
        if (now->returned)
            later = now;
    }
}

static wasted_t *
s_cell(wasted_t *wasted, size_t n_workers, uint32_t worker, int what, int reason)
{
    size_t w = worker < n_workers ? worker : n_workers; /* whose is not known */
    return &wasted[(w * CREMA_WASTED_WHAT_COUNT + (size_t)what) * CREMA_WASTED_COUNT +
                   (size_t)reason];
}

/* ---- chunks */

static size_t
s_take_chunks(const sink_facts_t *facts, outcome_t *outcomes)
{
    size_t n = 0;
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        bool returned = chunk->status == CREMA_CHUNK_OK || chunk->status == CREMA_CHUNK_PARTIAL;
        outcomes[n++] = (outcome_t){
            .key = chunk->chunk_id,
            .t_start_ns = chunk->t_start_ns,
            .row = i,
            .pass = chunk->pass,
            .in_vain = !chunk->counted,
            .returned = returned && chunk->chunk_id != 0,
        };
    }
    return n;
}

static void
s_add_chunks(const sink_facts_t *facts, const bool *recovered, wasted_t *wasted)
{
    for (size_t i = 0; i < facts->n_chunks; i++) {
        const sink_chunk_t *chunk = &facts->chunks[i];
        if (chunk->counted)
            continue;
        wasted_t *cell = s_cell(wasted, facts->n_workers, chunk->worker, CREMA_WASTED_WHAT_CHUNK,
                                s_reason(chunk));
        cell->attempts++;
        cell->recovered += recovered[i];
        cell->events += chunk->n_entries > 0 ? chunk->n_entries : 0;
        cell->s += sink_chunk_s(chunk);
    }
}

/* ---- tasks */

static bool
s_is_in_vain(const sink_task_t *task)
{
    return !task->is_chunk && task->side != CREMA_SIDE_FOREIGN && task->status != CREMA_TASK_OK &&
           task->status <= CREMA_TASK_LOST;
}

static size_t
s_take_tasks(const sink_facts_t *facts, outcome_t *outcomes)
{
    size_t n = 0;
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        outcomes[n++] = (outcome_t){
            .key = task->task_key,
            .t_start_ns = task->t_start_ns,
            .row = i,
            .in_vain = s_is_in_vain(task),
            .returned = task->status == CREMA_TASK_OK && task->task_key != 0,
        };
    }
    return n;
}

static void
s_add_tasks(const sink_facts_t *facts, const bool *recovered, wasted_t *wasted)
{
    static const int reasons[] = {[CREMA_TASK_ERROR] = CREMA_WASTED_ERROR,
                                  [CREMA_TASK_CANCELLED] = CREMA_WASTED_CANCELLED,
                                  [CREMA_TASK_LOST] = CREMA_WASTED_LOST};
    for (size_t i = 0; i < facts->n_tasks; i++) {
        const sink_task_t *task = &facts->tasks[i];
        if (!s_is_in_vain(task))
            continue;
        wasted_t *cell = s_cell(wasted, facts->n_workers, task->worker, CREMA_WASTED_WHAT_TASK,
                                reasons[task->status]);
        cell->attempts++;
        cell->recovered += recovered[i];
        if (task->t_stop_ns > task->t_start_ns)
            cell->s += (double)(task->t_stop_ns - task->t_start_ns) * 1e-9;
    }
}

/* ---- the table */

static crema_err_t
s_put(const sink_summary_t *self, size_t worker, int what, int reason, const wasted_t *cell)
{
    const uint32_t id = worker < self->facts->n_workers ? (uint32_t)worker : UINT32_MAX;
    crema_wasted_row_t row = {
        .worker_id = id,
        .what = what,
        .reason = reason,
        .n_attempts = cell->attempts,
        .n_recovered = cell->recovered,
        .n_events = what == CREMA_WASTED_WHAT_CHUNK ? cell->events : -1,
        .wall_s = cell->s,
    };
    SINK_NAME(row.worker, sink_dict_text(sink_decoder_dict(self->run), CREMA_DICT_WORKER, id));
    return sink_tables_add(self->tables, CREMA_TABLE_WASTED, &row);
}

crema_err_t
sink_summary_wasted(const sink_summary_t *self)
{
    size_t n = self->facts->n_workers;
    const sink_facts_t *facts = self->facts;
    size_t most = facts->n_chunks > facts->n_tasks ? facts->n_chunks : facts->n_tasks;
    crema_err_t err = CREMA_OK;
    outcome_t *outcomes = sink_scratch(facts->dir, most + 1, sizeof *outcomes, &err);
    bool *recovered = sink_scratch(facts->dir, most + 1, sizeof *recovered, &err);
    wasted_t *wasted = sink_scratch(NULL, (n + 1) * CREMA_WASTED_WHAT_COUNT * CREMA_WASTED_COUNT,
                                    sizeof *wasted, &err);
    if (err == CREMA_OK) {
        s_mark_recovered(outcomes, s_take_chunks(facts, outcomes), recovered);
        s_add_chunks(facts, recovered, wasted);
        s_mark_recovered(outcomes, s_take_tasks(facts, outcomes), recovered);
        s_add_tasks(facts, recovered, wasted);
    }
    for (size_t w = 0; w <= n; w++)
        for (int what = 0; what < CREMA_WASTED_WHAT_COUNT; what++)
            for (int reason = 0; reason < CREMA_WASTED_COUNT && err == CREMA_OK; reason++) {
                const wasted_t *cell = s_cell(wasted, n, (uint32_t)w, what, reason);
                if (cell->attempts > 0)
                    err = s_put(self, w, what, reason, cell);
            }
    sink_scratch_free(wasted);
    sink_scratch_free(recovered);
    sink_scratch_free(outcomes);
    return err;
}
