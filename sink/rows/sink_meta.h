/* sink_meta - metadata of a run from the collector and the aggregator: its window, attributes,
 * processor prefixes and verdict. Pure: memory only.
 *
 * RUN_OPEN, RUN_END and RUN_SEAL may each come any number of times. The last value counts; an
 * attribute or prefix that a later message leaves out stays. */
#ifndef SINK_META_H
#define SINK_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_split.h"
#include "crema_wire.h"
#include "crema_writers.h"
#include "sink_texts.h"

typedef struct sink_meta sink_meta_t;

/* Attributes and prefixes beyond their limits are counted in `limits`, which the caller owns. */
CREMA_MUST_CHECK crema_err_t sink_meta_new(crema_limits_t *limits, sink_meta_t **ret_self);
void sink_meta_destroy(sink_meta_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_meta_take(sink_meta_t *self, const crema_msg_t *msg);

CREMA_MUST_CHECK crema_err_t sink_meta_writers(sink_meta_t *self, const Crema__RunWriters *msg);

/* The collector's list of writers; without any part if there is no list. */
const crema_writers_t *sink_meta_list(const sink_meta_t *self);

/* Number of parts of that list, from its latest part; 0: no list. */
uint32_t sink_meta_parts(const sink_meta_t *self);

/* The run's window; 0 if not given. */
int64_t sink_meta_start_ns(const sink_meta_t *self);
int64_t sink_meta_end_ns(const sink_meta_t *self);

/* True if the end of the run was announced. */
bool sink_meta_ended(const sink_meta_t *self);

/* True after a RUN_SEAL: an aggregator gave a verdict. */
bool sink_meta_judged(const sink_meta_t *self);

const sink_texts_t *sink_meta_attributes(const sink_meta_t *self);
/* True if the collector's host set its wall clock during the run: times after that are off. */
bool sink_meta_clock_stepped(const sink_meta_t *self);

/* The processor's prefixes for the split rules; valid until the next message is taken. */
crema_split_rules_t sink_meta_rules(const sink_meta_t *self);

/* Reasons of the last RUN_SEAL. */
size_t sink_meta_reasons(const sink_meta_t *self, Crema__Reason *const **ret_reasons);

#endif
