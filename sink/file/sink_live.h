/* sink_live - `<run_id>.live.h5`, the file that notebooks read during a run. SWMR, uncompressed,
 * never authoritative.
 *
 * It receives committed records only, in journal order. Rows wait in memory until the next
 * flush, at most one live chunk per table. A failure of HDF5 closes the view and is reported
 * once; the run continues without it. */
#ifndef SINK_LIVE_H
#define SINK_LIVE_H

#include "crema_error.h"
#include "sink_journal.h"

typedef struct sink_live sink_live_t;

/* Replaces an existing file. */
CREMA_MUST_CHECK crema_err_t sink_live_new(const char *path, const crema_id_t *run_id,
                                           sink_live_t **ret_self);
/* By which the file takes a journal. */
sink_journal_visitor_t sink_live_visitor(sink_live_t *self);
/* Makes everything put so far visible to readers. Cheap if there is nothing new. */
CREMA_MUST_CHECK crema_err_t sink_live_flush(sink_live_t *self);
void sink_live_close(sink_live_t **self_p);

#endif
