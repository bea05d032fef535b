/* sink_syncs - fdatasync of many files at a time.
 *
 * A file system that is asked for several files at the same time writes them together: 64 journals
 * with a few kilobytes each take a quarter of the time that they take one after the other. Threads
 * are started when there is more than one file, and wait between two rounds. */
#ifndef SINK_SYNCS_H
#define SINK_SYNCS_H

#include <stddef.h>

#include "crema_error.h"

typedef struct {
    int fd;
    int error; /* afterwards: errno, 0 if it is durable */
} sink_sync_t;

typedef struct sink_syncs sink_syncs_t;

CREMA_MUST_CHECK crema_err_t sink_syncs_new(sink_syncs_t **ret_self);
void sink_syncs_destroy(sink_syncs_t **self_p);

/* Calls fdatasync for each and returns when all have been called; fewer threads than wanted only
 * make it slower. */
void sink_syncs_run(sink_syncs_t *self, sink_sync_t *syncs, size_t n);

#endif
