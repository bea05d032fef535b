/* sink_verdict - COMPLETE, or PARTIAL with reasons: the aggregator's verdict, minus what has
 * arrived since, plus what only the sink can see. No socket, file or clock. */
#ifndef SINK_VERDICT_H
#define SINK_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_budget.h"
#include "sink_decoder.h"
#include "sink_facts.h"

typedef struct sink_verdict sink_verdict_t;

/* Unreadable parts of the journal. They do no harm if they all lie before the verdict, no other
 * reason applies, the list of writers is complete and names each writer's stream, and every
 * agent's own stream is present: then the damaged records were delivered again. */
typedef struct {
    uint64_t bytes;  /* unreadable */
    uint64_t frames; /* entries known to have been there */
    bool is_before_seal;
    const char *unread; /* the file that the disk did not give, and why; NULL or "": none */
} sink_damage_t;

CREMA_MUST_CHECK crema_err_t sink_verdict_new(const sink_decoder_t *run, const sink_facts_t *facts,
                                              const sink_damage_t *damage,
                                              sink_verdict_t **ret_self);
void sink_verdict_destroy(sink_verdict_t **self_p);

/* Adds a note if the budget does not close: the sources of a run's seconds contradict each
 * other. */
CREMA_MUST_CHECK crema_err_t sink_verdict_take_budget(sink_verdict_t *self,
                                                      const sink_budget_t *budget);

/* "COMPLETE" or "PARTIAL". */
const char *sink_verdict_word(const sink_verdict_t *self);

size_t sink_verdict_reasons(const sink_verdict_t *self, const Crema__Reason **ret_reasons);

/* Facts worth knowing although nothing is missing: input that coffea was asked to drop,
 * attributes that were refused. */
size_t sink_verdict_notes(const sink_verdict_t *self, const Crema__Reason **ret_notes);

typedef enum { SINK_VERDICT_REASONS, SINK_VERDICT_NOTES, SINK_VERDICT_ALL } sink_verdict_part_t;

/* A list of {"code", "subject", "count", "text"}, which the caller frees; as many elements as
 * fit into `size` bytes, reasons first. */
CREMA_MUST_CHECK crema_err_t sink_verdict_json(const sink_verdict_t *self, sink_verdict_part_t part,
                                               size_t size, char **ret_json);

/* Records known to be lost, over all streams. */
int64_t sink_verdict_loss(const sink_verdict_t *self);

#endif
