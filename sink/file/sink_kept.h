/* sink_kept - whether a run file holds what the journal that is being sealed lacks: then it must
 * not be replaced by that journal's file.
 *
 * So it is with a store that was brought back from an older copy. Compared are the records of each
 * stream, and whether the end of the run is known. */
#ifndef SINK_KEPT_H
#define SINK_KEPT_H

#include <stdbool.h>

#include "crema_error.h"
#include "sink_report.h"
#include "sink_tables.h"

typedef struct {
    bool file_has_more;    /* than the journal: records of some stream, or the end of the run */
    bool journal_has_more; /* records of some stream */
} sink_kept_t;

/* `tables` are those of the journal, summaries too. A file that is not there, or cannot be read,
 * has nothing. */
CREMA_MUST_CHECK crema_err_t sink_kept_compare(const char *path, const sink_tables_t *tables,
                                               bool end_is_known, sink_kept_t *ret_kept);

/* The result that stands in the file, as if it had just been made. */
CREMA_MUST_CHECK crema_err_t sink_kept_result(const char *path, sink_seal_result_t *ret_result);

#endif
