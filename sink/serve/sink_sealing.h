/* sink_sealing - which runs are due for their final file, when to try again, and what was answered.
 *
 * A run is due when its RUN_SEAL is durable and it has no file yet, or when something came late for it: then once two seconds passed without
 * more, or a minute with more and more, but not before 2, 4, 8 ... 600 s have passed since the last file; an hour of rest begins this anew. A
 * failed attempt is repeated after five seconds, then ever later, eight times; a repeated RUN_SEAL starts over. All of it is elapsed time. */
#ifndef SINK_SEALING_H
#define SINK_SEALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_wire.h"
#include "sink_store.h"

typedef struct sink_sealing sink_sealing_t;

/* `store` and `output_dir` are borrowed. `memory_bytes`: see sink_sealer_new(). */
CREMA_MUST_CHECK crema_err_t sink_sealing_new(sink_store_t *store, const char *output_dir,
                                              size_t runs_max, int64_t memory_bytes,
                                              sink_sealing_t **ret_self);
/* Ends the processes that still seal: those runs are due again at the next start. */
void sink_sealing_destroy(sink_sealing_t **self_p);

/* RUN_SEAL is durable: seals the run if it is due, `again` after a failed attempt too. */
void sink_sealing_ask(sink_sealing_t *self, const crema_id_t *run_id, bool again, int64_t mono_ns);

/* Looks at all runs; call it about once a second. */
void sink_sealing_tick(sink_sealing_t *self, int64_t mono_ns);

/* After SIGCHLD, until false. The message is for all aggregators and borrowed until the next call; a file that holds everything was also
 * journaled, which waits for a commit. */
bool sink_sealing_reap(sink_sealing_t *self, int64_t mono_ns, int64_t real_ns,
                       crema_msg_t *ret_msg);

/* The answer to a repeated RUN_SEAL, in memory that the caller frees. False: there is none yet. */
bool sink_sealing_answer(sink_sealing_t *self, const crema_id_t *run_id, uint8_t **ret_bytes,
                         size_t *ret_size);

/* Files that are being made, and runs that wait for it. */
void sink_sealing_count(const sink_sealing_t *self, size_t *ret_running, size_t *ret_waiting);

#endif
