/* Of the simulated cluster, what its two halves share: machine and scheduler. */
#ifndef CLUSTER_IMPL_H
#define CLUSTER_IMPL_H

#include <stddef.h>

#include "diagnosis/cluster.h"

#define STEPS_MAX 96

typedef enum { WAITS, HOLDS_LOCK, COMPUTES, BEGINS_PROCESS, ENDS_TASK } step_kind_t;

typedef struct {
    step_kind_t kind;
    double s;
    bool collects; /* garbage */
} step_t;

typedef struct {
    unsigned worker, slot;
    bool busy;
    cluster_task_t task;
    step_t steps[STEPS_MAX];
    unsigned n_steps, step;
    double left_s;        /* of the step */
    double queued_s;      /* since when it wants a core */
    double asked_s;       /* since when it wants the lock */
    double process_cpu_s; /* of the worker when the task began */
} thread_t;

/* First come, first served. */
typedef struct {
    unsigned items[CLUSTER_WORKERS_MAX * 16];
    size_t first, n;
} fifo_t;

typedef enum {
    PENDING, /* on no worker, or what it needs is not there */
    SENT,
    DONE,
} task_state_t;

typedef struct {
    cluster_kind_t kind;
    task_state_t state;
    unsigned number, file, parent; /* parent: the merge that takes its result */
    unsigned needs, missing;       /* inputs, and those that are not there */
    unsigned worker;               /* that has it, or its result */
    unsigned batch;
    double events, submitted_s;
    double ready_s;
    unsigned attempts;
} work_t;

typedef struct {
    bool alive, paused;
    unsigned assigned; /* sent and not known to be over */
    unsigned running;
    fifo_t ready;
    unsigned lock_holder; /* thread; CLUSTER_NONE */
    fifo_t lock_queue;
    double cpu_s, no_core_s;
} worker_t;

typedef struct {
    unsigned free_cores;
    fifo_t queue;
} host_t;

typedef enum {
    STEP_OVER,  /* a wait, or a turn on a core */
    ARRIVES,    /* a task at a worker */
    KNOWN_OVER, /* the scheduler hears of an end */
    SUBMITS,    /* the client: a batch, or preprocessing */
    JOINS,
    IS_KILLED,
    LOOK,
    PAUSES,
} event_kind_t;

typedef struct {
    double t_s;
    uint64_t order;
    event_kind_t kind;
    unsigned a, b;
} event_t;

typedef struct {
    const cluster_plan_t *plan;
    const cluster_watch_t *watch;
    double now_s;
    event_t *events;
    size_t n_events, room;
    uint64_t order;
    worker_t *workers;
    host_t *hosts;
    thread_t *threads;
    work_t *works;
    unsigned n_works, n_chunks, n_preprocess, undone;
    unsigned first_pending; /* no chunk before it is pending */
    unsigned batch;         /* submitted so far */
    unsigned batch_left;    /* chunks of it that are not done */
    unsigned preprocess_left;
    double scheduler_free_s;
    bool opened; /* the client has come */
} cluster_t;

void cluster_at(cluster_t *self, double t_s, event_kind_t kind, unsigned a, unsigned b);
void fifo_put(fifo_t *fifo, unsigned item);
unsigned fifo_take(fifo_t *fifo);

/* machine */
void machine_start(cluster_t *self, unsigned worker); /* ready tasks on free threads */
void machine_step_over(cluster_t *self, unsigned thread);
void machine_kill(cluster_t *self, unsigned worker);

/* scheduler */
void scheduler_ended(cluster_t *self, thread_t *thread);

#endif
