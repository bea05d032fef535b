/* The machine half of the simulated cluster: threads, Python's lock, cores. */
#include <assert.h>
#include <string.h>

#include "diagnosis/cluster_impl.h"

#define TURN_S 0.02 /* on a core, and with the lock where others want it */

static thread_t *
s_thread(cluster_t *self, unsigned number)
{
    return &self->threads[number];
}

static host_t *
s_host(cluster_t *self, unsigned worker)
{
    return &self->hosts[worker / self->plan->workers_per_host];
}

static void
s_run_turn(cluster_t *self, unsigned number)
{
    thread_t *thread = s_thread(self, number);
    double s = thread->left_s < TURN_S ? thread->left_s : TURN_S;
    cluster_at(self, self->now_s + s, STEP_OVER, number, 0);
}

static void
s_want_core(cluster_t *self, unsigned number)
{
    thread_t *thread = s_thread(self, number);
    host_t *host = s_host(self, thread->worker);
    if (host->free_cores == 0) {
        thread->queued_s = self->now_s;
        fifo_put(&host->queue, number);
        return;
    }
    host->free_cores--;
    s_run_turn(self, number);
}

static void
s_leave_core(cluster_t *self, unsigned worker)
{
    host_t *host = s_host(self, worker);
    host->free_cores++;
    while (host->queue.n > 0 && host->free_cores > 0) {
        unsigned number = fifo_take(&host->queue);
        thread_t *thread = s_thread(self, number);
        if (!self->workers[thread->worker].alive)
            continue;
        self->workers[thread->worker].no_core_s += self->now_s - thread->queued_s;
        thread->task.no_core_s += self->now_s - thread->queued_s;
        host->free_cores--;
        s_run_turn(self, number);
    }
}

static void
s_want_lock(cluster_t *self, unsigned number)
{
    worker_t *worker = &self->workers[s_thread(self, number)->worker];
    if (worker->lock_holder != CLUSTER_NONE) {
        s_thread(self, number)->asked_s = self->now_s;
        fifo_put(&worker->lock_queue, number);
        return;
    }
    worker->lock_holder = number;
    s_want_core(self, number);
}

static void
s_leave_lock(cluster_t *self, unsigned number)
{
    worker_t *worker = &self->workers[number];
    worker->lock_holder = CLUSTER_NONE;
    if (worker->lock_queue.n == 0)
        return;
    worker->lock_holder = fifo_take(&worker->lock_queue);
    thread_t *next = s_thread(self, worker->lock_holder);
    next->task.lock_s += self->now_s - next->asked_s;
    s_want_core(self, worker->lock_holder);
}

static void
s_end(cluster_t *self, thread_t *thread)
{
    worker_t *worker = &self->workers[thread->worker];
    thread->task.ended_s = self->now_s;
    thread->task.process_cpu_s = worker->cpu_s - thread->process_cpu_s;
    thread->busy = false;
    worker->running--;
    scheduler_ended(self, thread);
    machine_start(self, thread->worker);
}

/* Begins the thread's next step that takes any time. */
static void
s_next_step(cluster_t *self, unsigned number)
{
    thread_t *thread = s_thread(self, number);
    for (;; thread->step++) {
        const step_t *step = &thread->steps[thread->step];
        if (step->kind == BEGINS_PROCESS) {
            cluster_task_t *task = &thread->task;
            task->process_s = self->now_s;
            task->open_cpu_s = task->cpu_s;
            task->open_no_core_s = task->no_core_s;
            task->open_lock_s = task->lock_s;
            task->open_wait_s = task->wait_s;
        } else if (step->kind == ENDS_TASK) {
            s_end(self, thread);
            return;
        } else if (step->s > 0) {
            thread->left_s = step->s;
            if (step->kind == WAITS) {
                thread->task.wait_s += step->s;
                cluster_at(self, self->now_s + step->s, STEP_OVER, number, 0);
            } else if (step->kind == HOLDS_LOCK)
                s_want_lock(self, number);
            else
                s_want_core(self, number);
            return;
        }
    }
}

static void
s_turn_over(cluster_t *self, unsigned number, const step_t *step)
{
    thread_t *thread = s_thread(self, number);
    worker_t *worker = &self->workers[thread->worker];
    double s = thread->left_s < TURN_S ? thread->left_s : TURN_S;
    thread->left_s -= s;
    thread->task.cpu_s += s;
    thread->task.gc_s += step->collects ? s : 0;
    worker->cpu_s += s;
    bool over = thread->left_s <= 1e-9;
    bool gives_lock = step->kind == HOLDS_LOCK && (over || worker->lock_queue.n > 0);
    s_leave_core(self, thread->worker);
    if (gives_lock)
        s_leave_lock(self, thread->worker);
    if (over) {
        thread->step++;
        s_next_step(self, number);
    } else if (gives_lock) {
        s_want_lock(self, number);
    } else {
        s_want_core(self, number);
    }
}

void
machine_step_over(cluster_t *self, unsigned number)
{
    thread_t *thread = s_thread(self, number);
    if (!self->workers[thread->worker].alive)
        return;
    const step_t *step = &thread->steps[thread->step];
    if (step->kind != WAITS) {
        s_turn_over(self, number, step);
        return;
    }
    thread->step++;
    s_next_step(self, number);
}

static void
s_add(thread_t *thread, step_kind_t kind, double s, bool collects)
{
    assert(thread->n_steps < STEPS_MAX);
    thread->steps[thread->n_steps++] = (step_t){kind, s, collects};
}

static void
s_plan_chunk(const cluster_plan_t *plan, thread_t *thread, const work_t *work)
{
    uint64_t key = 1000 + work->number;
    double cpu_s = plan->cpu_s * work->events * cluster_lognormal(plan->seed, key, 1, plan->noise),
           wait_s =
               plan->wait_s * work->events * cluster_lognormal(plan->seed, key, 2, plan->noise),
           open_wait_s = plan->open_wait_s * cluster_lognormal(plan->seed, key, 3, 0.4),
           open_cpu_s = plan->open_cpu_s * cluster_lognormal(plan->seed, key, 4, plan->noise);
    if (work->file == plan->slow_file)
        wait_s = wait_s * plan->slow_file_factor + plan->cpu_s * (plan->slow_file_factor - 1);
    if (thread->worker == plan->slow_worker) {
        cpu_s *= plan->slow_worker_factor;
        wait_s *= plan->slow_worker_factor;
        open_cpu_s *= plan->slow_worker_factor;
    }
    double n = plan->rounds, gc_s = cpu_s * plan->garbage, own_s = cpu_s - gc_s;
    s_add(thread, WAITS, open_wait_s, false);
    s_add(thread, HOLDS_LOCK, open_cpu_s, false);
    s_add(thread, BEGINS_PROCESS, 0, false);
    for (unsigned i = 0; i < plan->rounds; i++) {
        /* Rounds are of different lengths, or threads would march in step. */
        double part = 0.5 + cluster_uniform(plan->seed, key, 100 + i);
        s_add(thread, WAITS, wait_s / n * (1.5 - part + 0.5), false);
        s_add(thread, HOLDS_LOCK, own_s * plan->python / n * part, false);
        s_add(thread, COMPUTES, own_s * (1 - plan->python) / n, false);
        s_add(thread, HOLDS_LOCK, gc_s / n, true);
    }
}

static void
s_begin(cluster_t *self, unsigned number, work_t *work)
{
    thread_t *thread = s_thread(self, number);
    const cluster_plan_t *plan = self->plan;
    thread->busy = true;
    thread->n_steps = thread->step = 0;
    thread->process_cpu_s = self->workers[thread->worker].cpu_s;
    thread->task = (cluster_task_t){.kind = work->kind,
                                    .number = work->number,
                                    .file = work->file,
                                    .worker = thread->worker,
                                    .slot = thread->slot,
                                    .events = work->events,
                                    .submitted_s = work->submitted_s,
                                    .ready_s = work->ready_s,
                                    .started_s = self->now_s,
                                    .process_s = self->now_s};
    work->attempts++;
    if (work->kind == CLUSTER_CHUNK)
        s_plan_chunk(plan, thread, work);
    else
        s_add(thread, COMPUTES,
              work->kind == CLUSTER_MERGE ? plan->merge_s * work->needs : plan->preprocess_s,
              false);
    s_add(thread, ENDS_TASK, 0, false);
    self->workers[thread->worker].running++;
    s_next_step(self, number);
}

void
machine_start(cluster_t *self, unsigned number)
{
    worker_t *worker = &self->workers[number];
    for (unsigned slot = 0; slot < self->plan->threads && !worker->paused; slot++) {
        unsigned thread = number * self->plan->threads + slot;
        if (worker->ready.n == 0)
            return;
        if (!self->threads[thread].busy)
            s_begin(self, thread, &self->works[fifo_take(&worker->ready)]);
    }
}

/* A killed worker has its host for itself: its cores and its lock die with it. */
void
machine_kill(cluster_t *self, unsigned number)
{
    worker_t *worker = &self->workers[number];
    worker->alive = false;
    for (unsigned slot = 0; slot < self->plan->threads; slot++) {
        thread_t *thread = s_thread(self, number * self->plan->threads + slot);
        if (!thread->busy)
            continue;
        thread->task.lost = true;
        thread->task.ended_s = self->now_s;
        if (self->watch)
            self->watch->task(self->watch->context, &thread->task);
    }
}
