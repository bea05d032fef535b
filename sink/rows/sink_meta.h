/* sink_meta - what the collector and the aggregator said of a run: its window, its attributes, the processor's prefixes, the verdict.
 * Pure: memory only.
 *
 * RUN_OPEN, RUN_END and RUN_SEAL may each come any number of times; a later word stands for an earlier one, an attribute or prefix that a later
 * message leaves out stays. */
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

/* Attributes and prefixes beyond their limits are counted in `limits`, which the caller keeps. */
CREMA_MUST_CHECK crema_err_t sink_meta_new(crema_limits_t *limits, sink_meta_t **ret_self);
void sink_meta_destroy(sink_meta_t **self_p);

CREMA_MUST_CHECK crema_err_t sink_meta_take(sink_meta_t *self, crema_msg_type_t type,
                                            const crema_run_msg_t *msg);

CREMA_MUST_CHECK crema_err_t sink_meta_writers(sink_meta_t *self, const crema_writers_msg_t *msg);

/* Who wrote records, as the collector listed it; without any part where nobody did. */
const crema_writers_t *sink_meta_list(const sink_meta_t *self);

/* How many parts that list has by the last word that says so; 0: nobody did. */
uint32_t sink_meta_parts(const sink_meta_t *self);

/* Window; 0 where nobody said. */
int64_t sink_meta_start_ns(const sink_meta_t *self);
int64_t sink_meta_end_ns(const sink_meta_t *self);

/* The end of the run was announced. */
bool sink_meta_ended(const sink_meta_t *self);

/* There was a RUN_SEAL: an aggregator judged it. */
bool sink_meta_judged(const sink_meta_t *self);

const sink_texts_t *sink_meta_attributes(const sink_meta_t *self);

/* Prefixes of the processor, for the rules of the split; valid until the next take. */
crema_split_rules_t sink_meta_rules(const sink_meta_t *self);

/* Reasons of the last RUN_SEAL. */
size_t sink_meta_reasons(const sink_meta_t *self, const crema_reason_t **ret_reasons);

#endif
