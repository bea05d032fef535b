/* sink_views - the live files of the runs that go on, see sink_live.h.
 *
 * A view begins with the first group that is committed after the sink started and then holds all of its run's journal. One that fails is
 * given up for its run: the run goes on without it. */
#ifndef SINK_VIEWS_H
#define SINK_VIEWS_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_journal.h"

typedef struct sink_views sink_views_t;

/* Files `<run_id>.live.h5` in output_dir. Runs above views_max get none. */
CREMA_MUST_CHECK crema_err_t sink_views_new(const char *output_dir, size_t views_max,
                                            sink_views_t **ret_self);
/* Closes all; the files stay. */
void sink_views_destroy(sink_views_t **self_p);

/* The journal's last group was committed. An error is told once: the view is given up. */
CREMA_MUST_CHECK crema_err_t sink_views_feed(sink_views_t *self, const crema_id_t *run_id,
                                             const sink_journal_t *journal,
                                             const char *journal_dir);

/* Makes everything visible. The first error, and the run whose view was given up for it. */
CREMA_MUST_CHECK crema_err_t sink_views_flush(sink_views_t *self, crema_id_t *ret_failed);

/* The run has its final file: closes the view and removes the live file, also one that an earlier sink left. */
void sink_views_end(sink_views_t *self, const crema_id_t *run_id);

#endif
