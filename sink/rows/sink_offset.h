/* sink_offset - how far each agent's clock is off, and conversion of times to the aggregator's
 * clock, the reference of the samples. Pure: arithmetic on samples.
 *
 * An agent's time = corrected time + offset; the offset is interpolated between samples and
 * constant before the first and after the last. Samples more than twice as uncertain as the
 * agent's best one are ignored. A clock that never differed by more than its uncertainty is left
 * alone: correcting it would only add noise. */
#ifndef SINK_OFFSET_H
#define SINK_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_id.h"
#include "crema_limit.h"
#include "crema_wire.h"

/* Samples kept per agent. When the limit is reached, every second one is dropped, and from then
 * on one in two, four, ... is kept: memory does not grow with the length of a run. */
#define SINK_OFFSET_SAMPLES_MAX 512

typedef struct sink_offset sink_offset_t;

/* Samples of agents beyond CREMA_LIMIT_AGENTS are counted in `limits`, which the caller owns. */
CREMA_MUST_CHECK crema_err_t sink_offset_new(crema_limits_t *limits, sink_offset_t **ret_self);
void sink_offset_destroy(sink_offset_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_offset_add(sink_offset_t *self, const Crema__ClockSample *sample);
/* Call once, after the last sample and before the first correction. */
void sink_offset_settle(sink_offset_t *self);

/* True if the agent has at least one sample. */
bool sink_offset_known(const sink_offset_t *self, const crema_id_t *agent_id);

/* Converts a time of that agent's host to the aggregator's clock; 0 stays 0. */
int64_t sink_offset_correct(const sink_offset_t *self, const crema_id_t *agent_id, int64_t t_ns);

/* Corrects every time column of a row except the time of receipt. */
void sink_offset_correct_row(const sink_offset_t *self, const crema_id_t *agent_id,
                             const crema_table_t *table, uint8_t *row);

/* True if any agent's clock is corrected. */
bool sink_offset_applies(const sink_offset_t *self);

#endif
