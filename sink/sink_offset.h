/* sink_offset - how far each agent's clock is off, and times brought onto the sink's clock.
 * Pure: arithmetic on samples.
 *
 * An agent's time = corrected time + offset, the offset interpolated between samples and held beyond the first and last. Samples more than twice as uncertain
 * as the agent's best are left out. A clock that never differed by more than its uncertainty is not touched: correcting it would only add noise. */
#ifndef SINK_OFFSET_H
#define SINK_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_wire.h"

/* Samples of one run; later ones are left out. */
#define SINK_OFFSET_SAMPLES_MAX (1u << 22)

typedef struct sink_offset sink_offset_t;

CREMA_MUST_CHECK crema_err_t sink_offset_new(sink_offset_t **ret_self);
void sink_offset_destroy(sink_offset_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_offset_add(sink_offset_t *self,
                                             const crema_clock_sample_t *sample);
/* Once, after the last sample and before the first question. */
void sink_offset_settle(sink_offset_t *self);

/* An agent has at least one sample. */
bool sink_offset_known(const sink_offset_t *self, const crema_id_t *agent_id);

/* A time of that agent's host on the sink's clock; 0 stays 0. */
int64_t sink_offset_correct(const sink_offset_t *self, const crema_id_t *agent_id, int64_t t_ns);

/* Corrects every time column of a row, except when it was received. */
void sink_offset_correct_row(const sink_offset_t *self, const crema_id_t *agent_id,
                             const crema_table_t *table, uint8_t *row);

/* Some agent's clock is corrected. */
bool sink_offset_applies(const sink_offset_t *self);

#endif
