/* sink_export - copies a run's journal into another store directory, from which its file can be made as from its own. */
#ifndef SINK_EXPORT_H
#define SINK_EXPORT_H

#include <limits.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"

/* Copies what is there now, beside a running sink too; the source is not changed. `to` is made if it is missing, and becomes a store with the
 * identity of the first, which the journal names. The run appears there whole or not at all. On success ret_path is its directory; after an
 * error ret_why is one sentence. CREMA_ENOENT: the store has no journal of it; CREMA_EINVAL: `to` cannot take it; CREMA_EBUSY: a sink serves
 * `to`. */
CREMA_MUST_CHECK crema_err_t sink_export(const char *store, const crema_id_t *run_id,
                                         const char *to, char ret_path[PATH_MAX], char *ret_why,
                                         size_t why_size);

#endif
