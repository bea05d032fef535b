/* sink_tombs - the file `tombstones`: runs whose journal is gone.
 *
 * One frame per run; those that are freed together are added with one append and one fdatasync. A
 * freed run accepts nothing more, so its streams need not be known. Earlier versions also wrote
 * the streams, in several frames, each with their total number. */
#ifndef SINK_TOMBS_H
#define SINK_TOMBS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_ids.h"

/* Loads every run in the file and changes nothing; a torn end is ignored. A missing file counts as
 * empty. *ret_n: how many tombstones the file has room for, which is more than it holds if an
 * earlier version wrote it; of a damaged file only those that can be read. */
CREMA_MUST_CHECK crema_err_t sink_tombs_read(const char *dir, sink_ids_t *runs, size_t *ret_n);

/* Appends runs and makes them durable. After an error the file holds nothing new that counts. */
CREMA_MUST_CHECK crema_err_t sink_tombs_add(const char *dir, const crema_id_t *run_ids, size_t n);

/* Empties the file after its content was moved, see sink_past.h. */
CREMA_MUST_CHECK crema_err_t sink_tombs_clear(const char *dir);

#endif
