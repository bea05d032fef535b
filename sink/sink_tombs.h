/* sink_tombs - the file `tombstones`: streams of runs whose journal is gone, with their final numbers.
 *
 * A run is written with one append and one fdatasync, in as many frames as it takes; each names how many streams there are in all, so a
 * run of which only a part is there does not count. */
#ifndef SINK_TOMBS_H
#define SINK_TOMBS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

typedef struct {
    crema_id_t stream_id;
    uint64_t final_seq;
} sink_tomb_t;

/* A whole run as the file holds it. */
typedef crema_err_t (*sink_tombs_fn)(void *context, const crema_id_t *run_id, int64_t revision,
                                     const sink_tomb_t *tombs, size_t n);

/* Calls `fn` for every run in the file; a torn end is left out. No file is as good as an empty one. */
CREMA_MUST_CHECK crema_err_t sink_tombs_read(const char *dir, sink_tombs_fn fn, void *context);

/* Appends a run and makes it durable. After an error the file holds nothing new that counts. */
CREMA_MUST_CHECK crema_err_t sink_tombs_add(const char *dir, const crema_id_t *run_id,
                                            int64_t revision, const sink_tomb_t *tombs, size_t n);

#endif
