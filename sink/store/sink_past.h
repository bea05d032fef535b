/* sink_past - the file `freed`: the sorted ids of runs freed long ago, so that neither start-up
 * time nor memory grows with their number.
 *
 * The first frame holds the number of ids and the first id of each block; each block is a frame
 * of SINK_PAST_BLOCK ids, the last one may be shorter. Only the first frame is kept in memory.
 * The file is replaced as a whole each time SINK_PAST_LATEST more ids have collected in
 * `tombstones`. */
#ifndef SINK_PAST_H
#define SINK_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_ids.h"

#define SINK_PAST_BLOCK 255u
#define SINK_PAST_LATEST 1024u

typedef struct {
    char *path;
    crema_id_t *firsts; /* first id of each block */
    size_t n_blocks;
    uint64_t n;
} sink_past_t;

/* A missing file counts as empty. If the beginning is damaged, the file is rewritten from the
 * readable blocks. */
CREMA_MUST_CHECK crema_err_t sink_past_open(sink_past_t *self, const char *dir);
/* Also false if the block cannot be read. */
bool sink_past_has(const sink_past_t *self, const crema_id_t *id);
/* Adds the ids. Durable on success, unchanged otherwise. */
CREMA_MUST_CHECK crema_err_t sink_past_add(sink_past_t *self, const char *dir,
                                           const sink_ids_t *runs);
/* Loads every readable id and never writes: the store may be in use by another process. */
CREMA_MUST_CHECK crema_err_t sink_past_look(const char *dir, sink_ids_t *runs);

void sink_past_clear(sink_past_t *self);

#endif
