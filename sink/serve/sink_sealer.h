/* sink_sealer - one process for each run that is being sealed: `crema-sink rebuild JOURNAL --output FILE --json`, the very program and code path
 * that a person would use.
 *
 * At most SINK_SEALERS_MAX run at a time, further ones wait their turn. The process writes one line of JSON, see sink_report.h. */
#ifndef SINK_SEALER_H
#define SINK_SEALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_SEALERS_MAX 2

typedef struct sink_sealer sink_sealer_t;

/* How a sealing ended. */
typedef struct {
    crema_id_t run_id;
    uint64_t puts;    /* as given to sink_sealer_start */
    const char *line; /* what it printed; borrowed until the next call */
    int status;       /* as of waitpid */
} sink_sealer_end_t;

/* Each process may have `memory_bytes` of memory; 0: as much as it likes. */
CREMA_MUST_CHECK crema_err_t sink_sealer_new(size_t waiting_max, int64_t memory_bytes,
                                             sink_sealer_t **ret_self);
/* Ends what still runs: a run that is not sealed is sealed at the next start. */
void sink_sealer_destroy(sink_sealer_t **self_p);

/* Starts, or queues. `puts` is how much of the run the journal held. CREMA_EREPEAT: it is being sealed or waits for it; CREMA_ELIMIT: the
 * queue is full. */
CREMA_MUST_CHECK crema_err_t sink_sealer_start(sink_sealer_t *self, const crema_id_t *run_id,
                                               uint64_t puts, const char *journal_dir,
                                               const char *output_path);
/* Processes that run, and runs that wait for one. */
void sink_sealer_count(const sink_sealer_t *self, size_t *ret_running, size_t *ret_waiting);
bool sink_sealer_is_busy(const sink_sealer_t *self, const crema_id_t *run_id);

/* After SIGCHLD: the next process that has ended, false when there is none. A queued one takes its place. */
bool sink_sealer_reap(sink_sealer_t *self, sink_sealer_end_t *ret_end);

#endif
