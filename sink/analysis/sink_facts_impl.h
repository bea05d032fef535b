/* sink_facts_impl - shared by the source files of sink_facts; private to them. */
#ifndef SINK_FACTS_IMPL_H
#define SINK_FACTS_IMPL_H

#include "sink_facts.h"

CREMA_MUST_CHECK crema_err_t sink_facts_take_samples(sink_facts_t *self, const sink_rows_t *rows);
CREMA_MUST_CHECK crema_err_t sink_facts_take_streams(sink_facts_t *self, const sink_decoder_t *run);
CREMA_MUST_CHECK crema_err_t sink_facts_take_presence(sink_facts_t *self,
                                                      const sink_tables_t *tables);

/* Removes from the tasks what the scheduler saw lost and the worker had recorded itself. */
CREMA_MUST_CHECK crema_err_t sink_facts_leave_out_seen_twice(sink_facts_t *self);

/* The hooks count in /custom, one per row: chunks that the checkpointer had, and tasks, with their
 * hash, each time they were submitted again. Some of those are chunks. */
CREMA_MUST_CHECK crema_err_t sink_facts_take_repeated(sink_facts_t *self, const sink_rows_t *rows,
                                                      sink_dict_t *dict);

#endif
