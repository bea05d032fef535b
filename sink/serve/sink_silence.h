/* sink_silence - finds open runs that have been silent for too long. Aggregators end silent runs
 * themselves; this is for runs that no aggregator knows any more. Time is an argument. */
#ifndef SINK_SILENCE_H
#define SINK_SILENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_store.h"

typedef struct sink_silence sink_silence_t;

/* `store` is borrowed. */
CREMA_MUST_CHECK crema_err_t sink_silence_new(const sink_store_t *store, size_t runs_max,
                                              int64_t after_ns, sink_silence_t **ret_self);
void sink_silence_destroy(sink_silence_t **self_p);

/* A message about the run has come. */
void sink_silence_heard(sink_silence_t *self, const crema_id_t *run_id, int64_t mono_ns);

/* Returns an open run that has been silent long enough; call it about once a second. */
bool sink_silence_look(sink_silence_t *self, int64_t mono_ns, crema_id_t *ret_run_id);

#endif
