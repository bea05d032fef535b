/* sink_tombs - the file `tombstones`: runs whose journal is gone.
 *
 * One frame per run, added with one append and one fdatasync. A freed run accepts nothing more,
 * so its streams need not be known. Earlier versions also wrote the streams, in several frames,
 * each with their total number; such a file is shrunk when it is read. */
#ifndef SINK_TOMBS_H
#define SINK_TOMBS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

/* A run in the file. */
typedef crema_err_t (*sink_tombs_fn)(void *context, const crema_id_t *run_id, int64_t revision);

/* Calls `fn` for every run in the file; a torn end is ignored. A missing file counts as empty. */
CREMA_MUST_CHECK crema_err_t sink_tombs_read(const char *dir, sink_tombs_fn fn, void *context);

/* The same without writing: the store may be in use by another process. */
CREMA_MUST_CHECK crema_err_t sink_tombs_look(const char *dir, sink_tombs_fn fn, void *context);

/* Appends a run and makes it durable. After an error the file holds nothing new that counts. */
CREMA_MUST_CHECK crema_err_t sink_tombs_add(const char *dir, const crema_id_t *run_id,
                                            int64_t revision);

/* Empties the file after its content was moved, see sink_past.h. */
CREMA_MUST_CHECK crema_err_t sink_tombs_clear(const char *dir);

#endif
