/* The part of the facts about tasks that two saw: the worker that ran them, and the scheduler,
 * which counts as lost what ran on a worker by its last heartbeat. If the task had ended since,
 * the worker's row of that execution is the better one. */

#include "sink_attempt.h"
#include "sink_facts_impl.h"
#include "sink_scratch.h"
#include "sink_sort.h"

typedef struct {
    int64_t key;
    size_t row; /* in facts->tasks */
} seen_t;

static int
s_by_key(const void *a, const void *b)
{
    const seen_t *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

static bool
s_is_same_execution(const sink_task_t *lost, const sink_task_t *seen)
{
    return seen->status != CREMA_TASK_LOST && seen->worker == lost->worker &&
           seen->t_start_ns <= lost->t_stop_ns && seen->t_stop_ns > lost->t_start_ns;
}

/* Of the rows of one key, marks those that are another one's execution as rows of no task. */
static size_t
s_mark(sink_task_t *tasks, const seen_t *seen, size_t n)
{
    size_t marked = 0;
    for (size_t i = 0; i < n; i++) {
        sink_task_t *task = &tasks[seen[i].row];
        bool twice = false;
        for (size_t k = 0; k < n && task->status == CREMA_TASK_LOST && !twice; k++)
            twice = s_is_same_execution(task, &tasks[seen[k].row]);
        if (twice)
            task->t_start_ns = 0;
        marked += twice;
    }
    return marked;
}

static void
s_leave_out_marked(sink_facts_t *self)
{
    size_t kept = 0;
    for (size_t i = 0; i < self->n_tasks; i++)
        if (self->tasks[i].t_start_ns != 0)
            self->tasks[kept++] = self->tasks[i];
    self->n_tasks = kept;
}

crema_err_t
sink_facts_leave_out_seen_twice(sink_facts_t *self)
{
    size_t n_lost = 0, n = 0, n_marked = 0;
    for (size_t i = 0; i < self->n_tasks; i++)
        n_lost += self->tasks[i].status == CREMA_TASK_LOST;
    if (n_lost == 0)
        return CREMA_OK;
    crema_err_t err = CREMA_OK;
    seen_t *seen = sink_scratch(self->dir, self->n_tasks, sizeof *seen, &err);
    if (!seen)
        return err;
    for (size_t i = 0; i < self->n_tasks; i++)
        if (self->tasks[i].task_key != 0)
            seen[n++] = (seen_t){self->tasks[i].task_key, i};
    sink_sort_by_int64(seen, n, sizeof *seen, s_by_key);
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && seen[end].key == seen[i].key)
            end++;
        n_marked += s_mark(self->tasks, seen + i, end - i);
    }
    sink_scratch_free(seen);
    if (n_marked > 0)
        s_leave_out_marked(self);
    return CREMA_OK;
}
