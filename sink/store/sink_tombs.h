/* sink_tombs - the file `tombstones`: the ids of runs whose journal is gone.
 *
 * Frames of ids. Runs that are freed together are one frame, added with one append and one
 * fdatasync. All of it is read at a start, and takes 16 bytes of memory per run; a file of many
 * small frames is then replaced by one of few large ones, whose ids ascend. A freed run accepts
 * nothing more, so its streams need not be known. */
#ifndef SINK_TOMBS_H
#define SINK_TOMBS_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_ids.h"

#define SINK_TOMBS_FRAMES_MAX 1024u /* with more the file is replaced at a start */

/* Loads every run in the file and changes nothing; a torn end is ignored, as is a frame that is
 * damaged. A missing file counts as empty. *ret_frames: how many frames it has. */
CREMA_MUST_CHECK crema_err_t sink_tombs_read(const char *dir, sink_ids_t *runs, size_t *ret_frames);

/* Appends at most SINK_TOMBS_AT_ONCE runs and makes them durable. After an error the file holds
 * nothing new that counts. */
#define SINK_TOMBS_AT_ONCE 4096u
CREMA_MUST_CHECK crema_err_t sink_tombs_add(const char *dir, const crema_id_t *run_ids, size_t n);

/* Replaces the file by one of these runs. Durable on success, unchanged otherwise. */
CREMA_MUST_CHECK crema_err_t sink_tombs_replace(const char *dir, const sink_ids_t *runs);

#endif
