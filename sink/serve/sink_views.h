/* sink_views - manages the process that makes the live files of open runs: `crema-sink view`,
 * see sink_viewer.h.
 *
 * It is started with the first open run, and again if it dies. It learns through a pipe what is
 * durable; the sink never waits for it and retries a full pipe at the next flush. A process that
 * takes nothing for 120 s is ended. */
#ifndef SINK_VIEWS_H
#define SINK_VIEWS_H

#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_journal.h"

#define SINK_VIEWS_MAX 64u /* runs that have a live file at the same time */

typedef struct sink_views sink_views_t;

/* The texts are borrowed. */
CREMA_MUST_CHECK crema_err_t sink_views_new(const char *store_dir, const char *output_dir,
                                            int64_t flush_interval_ns, sink_views_t **ret_self);
/* Gives the process two seconds to write what is left; the files stay. */
void sink_views_destroy(sink_views_t **self_p);

/* The run's journal is durable up to this position. If too many runs have a live file, one that
 * yields loses its own; CREMA_ELIMIT: none does, and this one gets none. */
CREMA_MUST_CHECK crema_err_t sink_views_feed(sink_views_t *self, const crema_id_t *run_id,
                                             sink_journal_position_t place);

/* Reports to the process what has grown since the last call; starts the process if there is
 * something to report. */
void sink_views_flush(sink_views_t *self, int64_t mono_ns);

/* The run gets no final file for now, and may never: until its journal grows, its live file makes
 * room for another run's. */
void sink_views_yield(sink_views_t *self, const crema_id_t *run_id);

/* The run has its final file, or makes room: removes its live file, including one left by an
 * earlier sink. */
void sink_views_end(sink_views_t *self, const crema_id_t *run_id);

/* A child has ended; if it was this process, it is started again at a later flush. */
void sink_views_reap(sink_views_t *self, int64_t mono_ns);

#endif
