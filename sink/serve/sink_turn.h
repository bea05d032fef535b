/* sink_turn - of two copies of one store only one may write into an output directory at a time.
 *
 * A lock on one byte of <output>/.crema-sink. The store's id selects the byte, so stores that are
 * not copies of each other do not collide, and the file never needs to be removed. The system
 * drops the lock when the process ends. */
#ifndef SINK_TURN_H
#define SINK_TURN_H

#include <stddef.h>

#include "crema_error.h"
#include "crema_id.h"

/* *ret_fd stays open for as long as the turn lasts; -1 where the file system has no locks of this
 * kind, or the file is another user's, which is logged. CREMA_EBUSY: a copy of the store has its
 * turn; `ret_why` says so. */
CREMA_MUST_CHECK crema_err_t sink_turn_take(const char *output_dir, const crema_id_t *store_id,
                                            char *ret_why, size_t why_size, int *ret_fd);

#endif
