/* sink_tombs - the file `tombstones`: runs whose journal is gone.
 *
 * One frame per run, added with one append and one fdatasync. A freed run takes nothing more, so its streams need not be known. Earlier
 * versions wrote these as well, in as many frames as it took, each naming how many there were in all; such a file is made
 * smaller when it is read. */
#ifndef SINK_TOMBS_H
#define SINK_TOMBS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

/* A run as the file holds it. */
typedef crema_err_t (*sink_tombs_fn)(void *context, const crema_id_t *run_id, int64_t revision);

/* Calls `fn` for every run in the file; a torn end is left out. No file is as good as an empty one. */
CREMA_MUST_CHECK crema_err_t sink_tombs_read(const char *dir, sink_tombs_fn fn, void *context);

/* The same, and never writes: for a store that may be another's. */
CREMA_MUST_CHECK crema_err_t sink_tombs_look(const char *dir, sink_tombs_fn fn, void *context);

/* Appends a run and makes it durable. After an error the file holds nothing new that counts. */
CREMA_MUST_CHECK crema_err_t sink_tombs_add(const char *dir, const crema_id_t *run_id,
                                            int64_t revision);

/* The file holds nothing any more: all that it did stands elsewhere, see sink_past.h. */
CREMA_MUST_CHECK crema_err_t sink_tombs_clear(const char *dir);

#endif
