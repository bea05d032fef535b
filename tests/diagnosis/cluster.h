/* cluster - a simulated Dask cluster that runs an analysis: discrete events, seconds as doubles,
 * everything from one seed.
 *
 * Threads run on the cores of their host, in turns where there are more threads than cores, and
 * take Python's lock in turns of the same length. A scheduler, one message after another, sends
 * tasks to workers; chunks are merged in a tree; workers are killed, paused, slow or late as
 * planned. What crema's hooks would have seen is handed to a `cluster_watch_t`. It shares no code
 * and no constant with the sink: it knows causes, not rules. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_WORKERS_MAX 64
#define CLUSTER_NONE UINT32_MAX

/* What is run, and on what; seconds. */
typedef struct {
    uint64_t seed;
    /* machines */
    unsigned workers, threads; /* threads of each */
    unsigned workers_per_host; /* that share its cores */
    unsigned cores;            /* of each host */
    unsigned slow_worker;      /* CLUSTER_NONE: none */
    double slow_worker_factor; /* of its CPU and waiting */
    unsigned late_workers;     /* so many join at late_s only */
    double late_s;
    unsigned killed_workers; /* so many are killed at kill_s, and not replaced */
    double kill_s;
    /* chunks */
    unsigned files, chunks_per_file;
    double size_spread;             /* of events: sigma of a lognormal */
    double noise;                   /* of CPU and waiting: the same */
    double cpu_s, wait_s;           /* in process(), of a chunk of mean size */
    unsigned rounds;                /* of computing and waiting in turns */
    double python;                  /* share of the CPU that holds the lock */
    double garbage;                 /* share of the CPU that collects garbage */
    double open_cpu_s, open_wait_s; /* of every chunk, whatever its size */
    double executor_s;              /* of every task, before it */
    double spill_s;                 /* of every chunk, after it */
    double pause_share;             /* of time that a worker is paused, its memory full */
    unsigned slow_file;             /* CLUSTER_NONE: none */
    double slow_file_factor;
    double long_chunk; /* the last chunk's events, in means; 0: like others */
    double fails;      /* share of attempts that raise at their end */
    /* scheduler and client */
    double send_s, latency_s;
    unsigned ahead; /* tasks sent to a worker beyond its threads */
    bool pinned;    /* each chunk is sent to its file's worker at once and stays there */
    /* pinned: every so-many-th file has a worker of its own, all others share the first; 0: even */
    unsigned crowded_share;
    double startup_s;     /* before the client submits anything */
    unsigned batches;     /* the chunks are submitted in so many parts */
    double batch_pause_s; /* and the client thinks for so long between them */
    double preprocess_s;  /* of each file; 0: none */
    double merge_s;       /* for each input of a merge */
    unsigned merge_width;
} cluster_plan_t;

typedef enum { CLUSTER_CHUNK, CLUSTER_MERGE, CLUSTER_PREPROCESS } cluster_kind_t;

/* A task that ended, or was lost with its worker. */
typedef struct {
    cluster_kind_t kind;
    unsigned number, file, worker, slot;
    double events;
    double submitted_s, ready_s, started_s, process_s, ended_s;
    double cpu_s, gc_s, process_cpu_s; /* of its thread; of the whole worker meanwhile */
    double no_core_s, lock_s,
        wait_s; /* it had no core; wanted the lock; waited for something else */
    double open_cpu_s, open_no_core_s, open_lock_s, open_wait_s; /* the same, before process() */
    bool failed, lost;
} cluster_task_t;

typedef struct {
    double t_s;
    unsigned worker, executing, ready;
    bool lock_held;
    double no_core_s; /* all threads so far */
    bool paused;
} cluster_sample_t;

typedef struct {
    void *context;
    void (*joined)(void *context, unsigned worker, double t_s);
    void (*left)(void *context, unsigned worker, double t_s, bool killed);
    void (*task)(void *context, const cluster_task_t *task);
    void (*sample)(void *context, const cluster_sample_t *sample);
    void (*paused)(void *context, unsigned worker, double t_s, bool paused);
} cluster_watch_t;

/* Runs it to the end; returns how long it took. `watch` may be NULL. */
double cluster_run(const cluster_plan_t *plan, const cluster_watch_t *watch);

/* Uniform in [0, 1), and lognormal of mean 1: functions of their arguments alone. */
double cluster_uniform(uint64_t seed, uint64_t a, uint64_t b);
double cluster_lognormal(uint64_t seed, uint64_t a, uint64_t b, double sigma);

#endif
