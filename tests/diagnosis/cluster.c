/* The other half of the simulated cluster: time, the client, the scheduler and its workers'
 * fates. */
#include "diagnosis/cluster.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "diagnosis/cluster_impl.h"

#define LOOK_EVERY_S 0.5
#define PAUSE_PERIOD_S 6.0

/* ---- chance */

static uint64_t
s_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double
cluster_uniform(uint64_t seed, uint64_t a, uint64_t b)
{
    return (double)(s_mix(s_mix(s_mix(seed) ^ a) ^ b) >> 11) * 0x1p-53;
}

double
cluster_lognormal(uint64_t seed, uint64_t a, uint64_t b, double sigma)
{
    double u = cluster_uniform(seed, a, 2 * b + 1000), v = cluster_uniform(seed, a, 2 * b + 1001);
    double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
    return exp(sigma * normal - sigma * sigma / 2);
}

/* ---- queues */

void
fifo_put(fifo_t *fifo, unsigned item)
{
    const size_t room = sizeof fifo->items / sizeof *fifo->items;
    assert(fifo->n < room);
    fifo->items[(fifo->first + fifo->n++) % room] = item;
}

unsigned
fifo_take(fifo_t *fifo)
{
    unsigned item = fifo->items[fifo->first];
    fifo->first = (fifo->first + 1) % (sizeof fifo->items / sizeof *fifo->items);
    fifo->n--;
    return item;
}

static bool
s_before(const event_t *a, const event_t *b)
{
    return a->t_s != b->t_s ? a->t_s < b->t_s : a->order < b->order;
}

void
cluster_at(cluster_t *self, double t_s, event_kind_t kind, unsigned a, unsigned b)
{
    if (self->n_events == self->room) {
        self->room = self->room ? 2 * self->room : 1024;
        self->events = realloc(self->events, self->room * sizeof *self->events);
        if (!self->events)
            abort();
    }
    event_t event = {t_s, self->order++, kind, a, b};
    size_t i = self->n_events++;
    for (; i > 0 && s_before(&event, &self->events[(i - 1) / 2]); i = (i - 1) / 2)
        self->events[i] = self->events[(i - 1) / 2];
    self->events[i] = event;
}

static event_t
s_next(cluster_t *self)
{
    event_t first = self->events[0], last = self->events[--self->n_events];
    size_t i = 0;
    for (size_t child = 1; child < self->n_events; i = child, child = 2 * i + 1) {
        if (child + 1 < self->n_events && s_before(&self->events[child + 1], &self->events[child]))
            child++;
        if (!s_before(&self->events[child], &last))
            break;
        self->events[i] = self->events[child];
    }
    self->events[i] = last;
    return first;
}

/* ---- scheduler */

static void
s_send(cluster_t *self, unsigned number, unsigned worker)
{
    work_t *work = &self->works[number];
    double begin_s = fmax(self->now_s, self->scheduler_free_s);
    self->scheduler_free_s = begin_s + self->plan->send_s;
    work->state = SENT;
    work->worker = worker;
    self->workers[worker].assigned++;
    cluster_at(self, self->scheduler_free_s + self->plan->latency_s, ARRIVES, number, worker);
}

/* The worker with the fewest tasks that may have one more; CLUSTER_NONE if all are full. */
static unsigned
s_least_loaded(const cluster_t *self)
{
    unsigned best = CLUSTER_NONE, most = self->plan->threads + self->plan->ahead;
    for (unsigned w = 0; w < self->plan->workers; w++) {
        const worker_t *worker = &self->workers[w];
        if (worker->alive && !worker->paused && worker->assigned < most &&
            (best == CLUSTER_NONE || worker->assigned < self->workers[best].assigned))
            best = w;
    }
    return best;
}

/* Merges and preprocessing before chunks; CLUSTER_NONE if nothing is to be done now. */
static unsigned
s_next_work(cluster_t *self)
{
    for (unsigned i = self->n_chunks; i < self->n_works; i++)
        if (self->works[i].state == PENDING && self->works[i].missing == 0 &&
            (self->works[i].kind == CLUSTER_MERGE || self->opened))
            return i;
    if (self->preprocess_left > 0)
        return CLUSTER_NONE;
    while (self->first_pending < self->n_chunks &&
           self->works[self->first_pending].state != PENDING)
        self->first_pending++;
    for (unsigned i = self->first_pending; i < self->n_chunks; i++)
        if (self->works[i].state == PENDING && self->works[i].batch < self->batch)
            return i;
    return CLUSTER_NONE;
}

static void
s_dispatch(cluster_t *self)
{
    for (;;) {
        unsigned worker = s_least_loaded(self), work = s_next_work(self);
        if (worker == CLUSTER_NONE || work == CLUSTER_NONE)
            return;
        s_send(self, work, worker);
    }
}

/* Where a pinned chunk's file is. */
static unsigned
s_home(const cluster_t *self, unsigned file)
{
    const cluster_plan_t *plan = self->plan;
    if (plan->crowded_share > 0)
        return file % plan->crowded_share == 0 ? (file / plan->crowded_share) % plan->workers : 0;
    return file % plan->workers;
}

static void
s_submit(cluster_t *self)
{
    self->batch++;
    self->batch_left = 0;
    for (unsigned i = 0; i < self->n_chunks; i++) {
        if (self->works[i].batch + 1 != self->batch)
            continue;
        self->batch_left++;
        if (self->plan->pinned)
            s_send(self, i, s_home(self, self->works[i].file));
    }
    s_dispatch(self);
}

void
scheduler_ended(cluster_t *self, thread_t *thread)
{
    const cluster_plan_t *plan = self->plan;
    cluster_task_t *task = &thread->task;
    const work_t *work = &self->works[task->number];
    task->failed = task->kind == CLUSTER_CHUNK && work->attempts < 4 &&
                   cluster_uniform(plan->seed, 5000 + task->number, work->attempts) < plan->fails;
    if (self->watch)
        self->watch->task(self->watch->context, task);
    double spill_s = task->kind == CLUSTER_CHUNK ? plan->spill_s : 0;
    cluster_at(self, self->now_s + spill_s + plan->executor_s + plan->latency_s, KNOWN_OVER,
               task->number, 2 * thread->worker + task->failed);
    if (spill_s + plan->executor_s > 0) /* the slot is held meanwhile */
        thread->busy = true;
}

static void
s_free_slot(cluster_t *self, unsigned worker)
{
    if (self->plan->spill_s + self->plan->executor_s <= 0)
        return;
    for (unsigned slot = 0; slot < self->plan->threads; slot++) {
        thread_t *thread = &self->threads[worker * self->plan->threads + slot];
        bool held = thread->busy && thread->steps[thread->step].kind == ENDS_TASK;
        if (held && thread->task.ended_s < self->now_s) {
            thread->busy = false;
            break;
        }
    }
    machine_start(self, worker);
}

static void
s_done(cluster_t *self, work_t *work)
{
    work->state = DONE;
    self->undone--;
    if (work->kind == CLUSTER_PREPROCESS && --self->preprocess_left == 0)
        s_submit(self);
    if (work->parent != CLUSTER_NONE)
        self->works[work->parent].missing--;
    if (work->kind == CLUSTER_CHUNK && --self->batch_left == 0 && self->batch < self->plan->batches)
        cluster_at(self, self->now_s + self->plan->batch_pause_s, SUBMITS, 0, 0);
}

static void
s_known_over(cluster_t *self, unsigned number, unsigned from)
{
    unsigned worker = from / 2;
    bool failed = from % 2;
    work_t *work = &self->works[number];
    if (!self->workers[worker].alive)
        return;
    self->workers[worker].assigned--;
    s_free_slot(self, worker);
    if (failed) {
        work->state = PENDING;
        if (number < self->first_pending)
            self->first_pending = number;
    } else {
        s_done(self, work);
    }
    s_dispatch(self);
}

/* What it ran, what it had queued and what it had computed but no merge had taken is to be done
 * again. */
static void
s_kill(cluster_t *self, unsigned number)
{
    machine_kill(self, number);
    for (unsigned i = 0; i < self->n_works; i++) {
        work_t *work = &self->works[i];
        if (work->worker != number || work->state == PENDING)
            continue;
        bool merged = work->parent != CLUSTER_NONE && self->works[work->parent].state == DONE;
        if (work->state == DONE && (merged || work->kind == CLUSTER_PREPROCESS))
            continue;
        if (work->state == DONE) {
            self->undone++;
            self->batch_left += work->kind == CLUSTER_CHUNK;
            if (work->parent != CLUSTER_NONE)
                self->works[work->parent].missing++;
        }
        work->state = PENDING;
        self->first_pending = 0;
    }
    if (self->watch)
        self->watch->left(self->watch->context, number, self->now_s, true);
    s_dispatch(self);
}

/* ---- the rest */

static void
s_look(cluster_t *self)
{
    for (unsigned w = 0; w < self->plan->workers && self->watch; w++) {
        const worker_t *worker = &self->workers[w];
        cluster_sample_t sample = {.t_s = self->now_s,
                                   .worker = w,
                                   .executing = worker->running,
                                   .ready = (unsigned)worker->ready.n,
                                   .lock_held = worker->lock_holder != CLUSTER_NONE,
                                   .no_core_s = worker->no_core_s,
                                   .paused = worker->paused};
        if (worker->alive)
            self->watch->sample(self->watch->context, &sample);
    }
    /* Not quite regular, or it might see the same moment of every chunk. */
    double u = cluster_uniform(self->plan->seed, 77, (uint64_t)(1000 * self->now_s));
    cluster_at(self, self->now_s + LOOK_EVERY_S * (0.9 + 0.2 * u), LOOK, 0, 0);
}

static void
s_pause(cluster_t *self, unsigned number)
{
    worker_t *worker = &self->workers[number];
    double share = self->plan->pause_share;
    worker->paused = !worker->paused;
    if (self->watch && worker->alive)
        self->watch->paused(self->watch->context, number, self->now_s, worker->paused);
    double u = 0.5 + cluster_uniform(self->plan->seed, 88 + number, (uint64_t)self->now_s);
    cluster_at(self, self->now_s + u * PAUSE_PERIOD_S * (worker->paused ? share : 1 - share),
               PAUSES, number, 0);
    if (!worker->paused) {
        machine_start(self, number);
        s_dispatch(self);
    }
}

static void
s_join(cluster_t *self, unsigned worker)
{
    self->workers[worker].alive = true;
    if (self->watch)
        self->watch->joined(self->watch->context, worker, self->now_s);
    s_dispatch(self);
}

static void
s_handle(cluster_t *self, const event_t *event)
{
    self->now_s = event->t_s;
    switch (event->kind) {
    case STEP_OVER:
        machine_step_over(self, event->a);
        break;
    case ARRIVES:
        if (!self->workers[event->b].alive)
            break;
        self->works[event->a].submitted_s = self->works[event->a].ready_s = self->now_s;
        fifo_put(&self->workers[event->b].ready, event->a);
        machine_start(self, event->b);
        break;
    case KNOWN_OVER:
        s_known_over(self, event->a, event->b);
        break;
    case SUBMITS:
        self->opened = true;
        if (self->preprocess_left > 0)
            s_dispatch(self);
        else
            s_submit(self);
        break;
    case JOINS:
        s_join(self, event->a);
        break;
    case IS_KILLED:
        s_kill(self, event->a);
        break;
    case LOOK:
        s_look(self);
        break;
    case PAUSES:
        s_pause(self, event->a);
        break;
    }
}

/* Chunks, preprocessing, then merges level by level. */
static void
s_plan_works(cluster_t *self)
{
    const cluster_plan_t *plan = self->plan;
    unsigned n = plan->files * plan->chunks_per_file;
    self->works = calloc(3 * (size_t)n + plan->files + 2, sizeof *self->works);
    self->n_chunks = n;
    for (unsigned i = 0; i < n; i++) {
        double events = cluster_lognormal(plan->seed, i, 9, plan->size_spread);
        if (plan->long_chunk > 0 && i + 1 == n)
            events = plan->long_chunk;
        self->works[i] = (work_t){.number = i,
                                  .file = i / plan->chunks_per_file,
                                  .parent = CLUSTER_NONE,
                                  .batch = i * plan->batches / n,
                                  .events = events};
    }
    self->n_works = n;
    for (unsigned i = 0; plan->preprocess_s > 0 && i < plan->files; i++, self->n_works++)
        self->works[self->n_works] = (work_t){
            .kind = CLUSTER_PREPROCESS, .number = self->n_works, .file = i, .parent = CLUSTER_NONE};
    self->preprocess_left = self->n_works - n;
    unsigned first = 0, last = n;
    while (last - first > 1) {
        unsigned next = self->n_works;
        for (unsigned i = first; i < last; i += plan->merge_width) {
            work_t merge = {.kind = CLUSTER_MERGE, .number = self->n_works, .parent = CLUSTER_NONE};
            for (unsigned k = i; k < last && k < i + plan->merge_width; k++, merge.needs++)
                self->works[k].parent = self->n_works;
            merge.missing = merge.needs;
            self->works[self->n_works++] = merge;
        }
        first = next;
        last = self->n_works;
    }
    self->undone = self->n_works;
}

static void
s_plan_machines(cluster_t *self)
{
    const cluster_plan_t *plan = self->plan;
    unsigned n_hosts = (plan->workers + plan->workers_per_host - 1) / plan->workers_per_host;
    self->workers = calloc(plan->workers, sizeof *self->workers);
    self->hosts = calloc(n_hosts, sizeof *self->hosts);
    self->threads = calloc((size_t)plan->workers * plan->threads, sizeof *self->threads);
    for (unsigned h = 0; h < n_hosts; h++)
        self->hosts[h].free_cores = plan->cores;
    for (unsigned w = 0; w < plan->workers; w++) {
        bool late = w + plan->late_workers >= plan->workers;
        self->workers[w].lock_holder = CLUSTER_NONE;
        for (unsigned t = 0; t < plan->threads; t++)
            self->threads[w * plan->threads + t] = (thread_t){.worker = w, .slot = t};
        cluster_at(self, late ? plan->late_s : 0, JOINS, w, 0);
        if (w < plan->killed_workers)
            cluster_at(self, plan->kill_s, IS_KILLED, w, 0);
        if (plan->pause_share > 0)
            cluster_at(self, plan->startup_s + 1 + w * 0.7, PAUSES, w, 0);
    }
}

double
cluster_run(const cluster_plan_t *plan, const cluster_watch_t *watch)
{
    cluster_t self = {.plan = plan, .watch = watch};
    s_plan_works(&self);
    s_plan_machines(&self);
    cluster_at(&self, 0.1, LOOK, 0, 0);
    cluster_at(&self, plan->startup_s, SUBMITS, 0, 0);
    while (self.undone > 0 && self.n_events > 0) {
        event_t event = s_next(&self);
        s_handle(&self, &event);
    }
    assert(self.undone == 0);
    double end_s = self.now_s + 0.2;
    for (unsigned w = 0; watch && w < plan->workers; w++)
        if (self.workers[w].alive)
            watch->left(watch->context, w, end_s, false);
    free(self.events);
    free(self.workers);
    free(self.hosts);
    free(self.threads);
    free(self.works);
    return end_s;
}
