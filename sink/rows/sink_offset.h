/* sink_offset - how far each agent's clock is off, and times brought onto the aggregator's clock, which is what the samples compare it with.
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
#include "crema_limit.h"
#include "crema_wire.h"

/* Samples that are kept of one agent. When there are more, every second one goes, and then one in two, in four, ... is taken: a day and ten thousand
 * agents need no more memory than an hour. */
#define SINK_OFFSET_SAMPLES_MAX 512

typedef struct sink_offset sink_offset_t;

/* Samples of an agent beyond CREMA_LIMIT_AGENTS are counted in `limits`, which the caller keeps. */
CREMA_MUST_CHECK crema_err_t sink_offset_new(crema_limits_t *limits, sink_offset_t **ret_self);
void sink_offset_destroy(sink_offset_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_offset_add(sink_offset_t *self,
                                             const crema_clock_sample_t *sample);
/* Once, after the last sample and before the first question. */
void sink_offset_settle(sink_offset_t *self);

/* An agent has at least one sample. */
bool sink_offset_known(const sink_offset_t *self, const crema_id_t *agent_id);

/* A time of that agent's host on the aggregator's clock; 0 stays 0. */
int64_t sink_offset_correct(const sink_offset_t *self, const crema_id_t *agent_id, int64_t t_ns);

/* Corrects every time column of a row, except when it was received. */
void sink_offset_correct_row(const sink_offset_t *self, const crema_id_t *agent_id,
                             const crema_table_t *table, uint8_t *row);

/* Some agent's clock is corrected. */
bool sink_offset_applies(const sink_offset_t *self);

#endif
