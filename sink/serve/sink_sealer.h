/* sink_sealer - one process per run being sealed: `crema-sink rebuild JOURNAL --output FILE
 * --json`, the same program that a person would run.
 *
 * At most SINK_SEALERS_MAX processes run at a time. The process prints one line of JSON, see
 * sink_report.h. */
#ifndef SINK_SEALER_H
#define SINK_SEALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_SEALERS_MAX 2

typedef struct sink_sealer sink_sealer_t;

/* The result of a sealing process. */
typedef struct {
    crema_id_t run_id;
    uint64_t puts;    /* as given to sink_sealer_start */
    const char *line; /* what it printed; borrowed until the next sink_sealer_reap() */
    int status;       /* as returned by waitpid */
    int64_t late_ns;  /* it had not ended after this time and was killed; 0: it ended by itself */
} sink_sealer_end_t;

/* Each process may use `memory_bytes`; 0: no limit. */
CREMA_MUST_CHECK crema_err_t sink_sealer_new(int64_t memory_bytes, sink_sealer_t **ret_self);
/* Kills running processes: their runs are sealed at the next start. */
void sink_sealer_destroy(sink_sealer_t **self_p);

/* Starts sealing a run. `puts` is the number of PUTs in its journal. CREMA_EAGAIN: no process can
 * be started now. */
CREMA_MUST_CHECK crema_err_t sink_sealer_start(sink_sealer_t *self, const crema_id_t *run_id,
                                               uint64_t puts, const char *journal_dir,
                                               const char *output_path);
/* Processes that run. */
size_t sink_sealer_count(const sink_sealer_t *self);
bool sink_sealer_is_busy(const sink_sealer_t *self, const crema_id_t *run_id);

/* Gives the process of that run so long. */
void sink_sealer_limit(sink_sealer_t *self, const crema_id_t *run_id, int64_t limit_ns,
                       int64_t mono_ns);
/* Kills processes whose time is over. One that does not even end then, such as one that waits for
 * a file system that is gone, no longer takes the place of others. */
void sink_sealer_end_late(sink_sealer_t *self, int64_t mono_ns);

/* After SIGCHLD: the next process that has ended; false if there is none. */
bool sink_sealer_reap(sink_sealer_t *self, sink_sealer_end_t *ret_end);

#endif
