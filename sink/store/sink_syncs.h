/* sink_syncs - writes and syncs files in threads, so that a slow one delays only its own run.
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
    void (*fn)(void *context); /* writes and syncs, and keeps the outcome */
    void *context;
    crema_link_t link; /* private */
} sink_sync_t;

typedef struct sink_syncs sink_syncs_t;

CREMA_MUST_CHECK crema_err_t sink_syncs_new(sink_syncs_t **ret_self);
/* Waits for the syncs that have started; those that have not are dropped. */
void sink_syncs_destroy(sink_syncs_t **self_p);

/* Has its function called in a thread. `sync` is borrowed until sink_syncs_ended() returns it. */
void sink_syncs_begin(sink_syncs_t *self, sink_sync_t *sync);
/* One that has ended, the first first. NULL: none has; with `waits`: none was begun either. */
sink_sync_t *sink_syncs_ended(sink_syncs_t *self, bool waits);
bool sink_syncs_have_ended(sink_syncs_t *self);
/* Readable while there is one that has ended in a thread. */
int sink_syncs_fd(const sink_syncs_t *self);

#endif
