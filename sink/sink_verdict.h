/* sink_verdict - COMPLETE, or PARTIAL and why: what the aggregator said, less what has come since, plus what only the sink can see.
 * No socket, file or clock. */
#ifndef SINK_VERDICT_H
#define SINK_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_decoder.h"
#include "sink_facts.h"

typedef struct sink_verdict sink_verdict_t;

/* `damaged_bytes`: unreadable in the journal. */
CREMA_MUST_CHECK crema_err_t sink_verdict_new(const sink_decoder_t *run, const sink_facts_t *facts,
                                              uint64_t damaged_bytes, sink_verdict_t **ret_self);
void sink_verdict_destroy(sink_verdict_t **self_p);

/* "COMPLETE" or "PARTIAL". */
const char *sink_verdict_word(const sink_verdict_t *self);

size_t sink_verdict_reasons(const sink_verdict_t *self, const crema_reason_t **ret_reasons);

/* A list of {"code", "subject", "count", "text"} in memory that the caller frees; as many of them as fit into `size` bytes. */
CREMA_MUST_CHECK crema_err_t sink_verdict_json(const sink_verdict_t *self, size_t size,
                                               char **ret_json);

/* Records known lost, in all streams. */
int64_t sink_verdict_loss(const sink_verdict_t *self);

#endif
