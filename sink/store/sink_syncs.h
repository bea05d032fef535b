/* sink_syncs - fdatasync of files in threads, so that a slow one delays nobody but its own run.
 *
 * A file system that is asked for several files at the same time writes them together: 64 journals
 * with a few kilobytes each take a quarter of the time that they take one after the other. Threads
 * are started when they are needed; without any, a sync is done by the caller. */
#ifndef SINK_SYNCS_H
#define SINK_SYNCS_H

#include <stdbool.h>

#include "crema_error.h"
#include "crema_list.h"

typedef struct {
    int fd;
    int error;         /* once it has ended: errno, 0 if the file is durable */
    crema_link_t link; /* private */
} sink_sync_t;

typedef struct sink_syncs sink_syncs_t;

CREMA_MUST_CHECK crema_err_t sink_syncs_new(sink_syncs_t **ret_self);
/* Waits for the syncs that have started; those that have not are dropped. */
void sink_syncs_destroy(sink_syncs_t **self_p);

/* Calls fdatasync(sync->fd) at some time. `sync` is borrowed until sink_syncs_ended() returns it. */
void sink_syncs_begin(sink_syncs_t *self, sink_sync_t *sync);
/* One that has ended, the first first. NULL: none has; with `waits`: none was begun either. */
sink_sync_t *sink_syncs_ended(sink_syncs_t *self, bool waits);
/* Readable while there is one that has ended. */
int sink_syncs_fd(const sink_syncs_t *self);

#endif
