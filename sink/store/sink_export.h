/* sink_export - copies a run's journal into another store directory, from which the run file can
 * be rebuilt. */
#ifndef SINK_EXPORT_H
#define SINK_EXPORT_H

#include <limits.h>
#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"

/* Copies the journal as it is now, also while a sink is running; the source is not changed. `to`
 * is created if it is missing and becomes a store with the identity of the source, which the
 * journal names. The run appears there whole or not at all. On success ret_path is its
 * directory; after an error ret_why is one sentence. CREMA_ENOENT: the store has no journal of
 * the run; CREMA_EINVAL: `to` cannot take it; CREMA_EBUSY: a sink is serving `to`. */
CREMA_MUST_CHECK crema_err_t sink_export(const char *store, const crema_id_t *run_id,
                                         const char *to, char ret_path[PATH_MAX], char *ret_why,
                                         size_t why_size);

#endif
