/* agent_sampler - the agent's own streams. For each run with live workers on this host, and each
 * user that owns some of them, there is one stream of kind AGENT, owned by that user, with a row
 * of /worker_samples per worker and sample, and the agent's own cost in /heartbeats.
 *
 * A worker is an open stream of kind WORKER whose process is visible here; a process that is
 * gone or lives in another PID namespace is skipped. A run's stream ends with its last worker,
 * at the end of the run, or when the sampler is stopped. It goes through the spool like any
 * other stream. */
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
    const char *proc; /* "/proc"; `proc` and `sys` differ only in tests */
    const char *sys;  /* "/sys" */
    const char *host;
    const char *version;
    crema_id_t agent_id;
    crema_id_t run_id; /* sample this run only; zero: all */
    double sample_interval_s;
    double heartbeat_interval_s;
} agent_sampler_config_t;

typedef struct agent_sampler agent_sampler_t;

/* Texts of the configuration are borrowed for the sampler's life. */
CREMA_MUST_CHECK crema_err_t agent_sampler_new(const agent_sampler_config_t *config,
                                               agent_sampler_t **ret_self);

/* Ends all streams. Accepts NULL. */
void agent_sampler_destroy(agent_sampler_t **self_p);

/* After a scan: starts sampling new workers and drops those that are gone. True if one of its
 * own streams began or ended, so that another scan is needed. */
bool agent_sampler_follow(agent_sampler_t *self, crema_spool_t *spool);

/* Records and bytes of any stream were sent. */
void agent_sampler_note_sent(agent_sampler_t *self, uint64_t records, uint64_t bytes);

/* Writes one row per worker, and one about the agent. False if there is no worker. */
bool agent_sampler_sample(agent_sampler_t *self);

/* The run is over: a last sample and END; the run gets no further stream. True if it had one. */
bool agent_sampler_end_run(agent_sampler_t *self, const crema_id_t *run_id);

/* Ends all streams and starts no more. */
void agent_sampler_stop(agent_sampler_t *self);

/* Number of other users' streams so far whose processes were not sampled, as this process lacks the
 * rights to examine them or to give their user a stream. */
uint64_t agent_sampler_hidden(const agent_sampler_t *self);

/* Number of workers that are alive and recording. */
size_t agent_sampler_workers(const agent_sampler_t *self);

#endif
