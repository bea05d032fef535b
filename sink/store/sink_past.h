/* sink_past - the file `freed`: the ids of runs that were freed long ago, in order, so that neither a start nor memory depends on how many there
 * are.
 *
 * A frame with the number of ids and the first one of each block; then the blocks, a frame each of SINK_PAST_BLOCK ids, the last one of fewer.
 * Only the first frame is kept in memory. The file is replaced as a whole when SINK_PAST_LATEST more came together in `tombstones`. */
#ifndef SINK_PAST_H
#define SINK_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_PAST_BLOCK 255u
#define SINK_PAST_LATEST 1024u

typedef struct {
    char *path;
    crema_id_t *firsts; /* of each block */
    size_t n_blocks;
    uint64_t n;
} sink_past_t;

/* No file is as good as an empty one; of one whose beginning is damaged the blocks that can be read are written anew. */
CREMA_MUST_CHECK crema_err_t sink_past_open(sink_past_t *self, const char *dir);
/* False also if its block cannot be read. */
bool sink_past_has(const sink_past_t *self, const crema_id_t *id);
/* These too, in any order; durable on success, and nothing changed otherwise. */
CREMA_MUST_CHECK crema_err_t sink_past_add(sink_past_t *self, const char *dir,
                                           const crema_id_t *ids, size_t n);
/* Calls `fn` for every id that can be read, and never writes: for a store that may be another's. */
typedef crema_err_t (*sink_past_fn)(void *context, const crema_id_t *run_id);
CREMA_MUST_CHECK crema_err_t sink_past_look(const char *dir, sink_past_fn fn, void *context);

void sink_past_clear(sink_past_t *self);

#endif
