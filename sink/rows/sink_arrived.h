/* sink_arrived - counts the attempts at each chunk as their final rows arrive, for the live view.
 * Pure: memory only. */
#ifndef SINK_ARRIVED_H
#define SINK_ARRIVED_H

#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"

typedef struct sink_arrived sink_arrived_t;

CREMA_MUST_CHECK crema_err_t sink_arrived_new(sink_arrived_t **ret_self);
void sink_arrived_destroy(sink_arrived_t **self_p);

/* Number of attempts so far at the row's chunk in its submission, with this one; UINT16_MAX:
 * unknown, or more than the column holds. */
uint16_t sink_arrived_count(sink_arrived_t *self, const crema_chunks_row_t *row);

#endif
