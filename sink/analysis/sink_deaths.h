/* sink_deaths - of each worker that was killed: why, what ran on it, and which of that counts
 * elsewhere; as sentences. */
#ifndef SINK_DEATHS_H
#define SINK_DEATHS_H

#include "sink_facts.h"

#define SINK_DEATHS_CHUNKS 4096 /* lost chunks that are looked at */

typedef struct sink_deaths sink_deaths_t;

CREMA_MUST_CHECK crema_err_t sink_deaths_new(const sink_facts_t *facts, const sink_decoder_t *run,
                                             sink_deaths_t **ret_self);

/* Accepts NULL. */
void sink_deaths_destroy(sink_deaths_t **self_p);

/* "tcp://... was killed by signal 11 (SIGSEGV); it ran ...": of row `worker` of /dict/worker, which
 * is called `name`. */
void sink_deaths_tell(const sink_deaths_t *self, uint32_t worker, const char *name, char *text,
                      size_t size);

/* True if the worker's process was killed after it had left. */
bool sink_deaths_killed_after(const sink_deaths_t *self, uint32_t worker);

/* The `i`-th chunk on which several workers ended: its file, and the sentence. False: no more. */
bool sink_deaths_deadly(const sink_deaths_t *self, size_t i, const char **ret_file,
                        size_t *ret_workers, char *text, size_t size);

#endif
