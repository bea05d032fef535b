/* agent_sampler - the agent's own streams: for each run with living workers beside it, and each user that has some there, one stream of kind AGENT, given
 * to that user, with a row of /worker_samples for each of those workers at each sample, and in /heartbeats what the agent itself has cost.
 *
 * A worker is a stream of kind WORKER that is not closed and whose process can be seen from here; a process that is gone, or lives in another PID
 * namespace, is passed over. A run's stream ends with its last worker, when the run ends, or when the sampler is stopped. What is
 * written goes through the spool like any other stream. */
#ifndef AGENT_SAMPLER_H
#define AGENT_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_spool.h"

typedef struct {
    const char *dir;  /* of the spool */
    const char *proc; /* "/proc"; both differ in tests only */
    const char *sys;  /* "/sys" */
    const char *host;
    const char *version;
    crema_id_t agent_id;
    crema_id_t run_id; /* sample this run only; zero: all */
    bool tree;         /* a worker's child processes are part of it */
    double sample_interval_s;
    double heartbeat_interval_s;
} agent_sampler_config_t;

typedef struct agent_sampler agent_sampler_t;

/* Texts of the config are borrowed for the sampler's life. */
CREMA_MUST_CHECK crema_err_t agent_sampler_new(const agent_sampler_config_t *config,
                                               agent_sampler_t **ret_self);

/* Ends all streams. Accepts NULL. */
void agent_sampler_destroy(agent_sampler_t **self_p);

/* After a scan: takes up workers that are new, lets go of those that are gone. True if a stream of its own began or ended, so
 * that another scan finds more. */
bool agent_sampler_follow(agent_sampler_t *self, const crema_spool_t *spool);

/* So much went out, of any stream. */
void agent_sampler_note_sent(agent_sampler_t *self, uint64_t records, uint64_t bytes);

/* One row for each worker, and one of the agent itself. False if there is no worker. */
bool agent_sampler_sample(agent_sampler_t *self);

/* The run is over: a last sample, END, and no stream for it again. True if it had one. */
bool agent_sampler_end_run(agent_sampler_t *self, const crema_id_t *run_id);

/* Ends all streams; none begins again. */
void agent_sampler_stop(agent_sampler_t *self);

/* Workers that are alive and recording now. */
size_t agent_sampler_workers(const agent_sampler_t *self);

typedef struct {
    uint64_t streams; /* begun */
    uint64_t rows;
    uint64_t
        passed_over;  /* workers whose process could not be seen, or for which there was no room */
    uint64_t dropped; /* rows the spool would not take */
} agent_sampler_stats_t;
agent_sampler_stats_t agent_sampler_stats(const agent_sampler_t *self);

#endif
