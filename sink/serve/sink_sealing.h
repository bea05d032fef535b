/* sink_sealing - decides when runs are sealed and retried, and keeps the answers.
 *
 * A run is due when its RUN_SEAL is durable and it has no file yet, or when something came late
 * for it. A late run is sealed after two seconds without further records, or after a minute if
 * they keep coming, but at least 2, 4, 8 ... 600 s after its last file; an idle hour resets this
 * delay. A failed attempt is retried after five seconds, then at growing intervals, eight times;
 * a repeated RUN_SEAL starts over. All times are elapsed time. */
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
/* Kills sealing processes: their runs are due again at the next start. */
void sink_sealing_destroy(sink_sealing_t **self_p);

/* A RUN_SEAL is durable: seals the run if it is due; `again`: also after a failed attempt. */
void sink_sealing_ask(sink_sealing_t *self, const crema_id_t *run_id, bool again, int64_t mono_ns);

/* Checks all runs; call it about once a second. */
void sink_sealing_tick(sink_sealing_t *self, int64_t mono_ns);

/* Whether a clock sample of the run is journaled. It is not once the verdict is given and all
 * records are in the file, or in the one being made: a rebuild would then differ from the file. */
bool sink_sealing_takes_clock(const sink_sealing_t *self, const sink_run_t *run);

/* After SIGCHLD, call until false. The message is for all aggregators and borrowed until the
 * next call. A complete file is also noted in the journal, which needs a commit. */
bool sink_sealing_reap(sink_sealing_t *self, int64_t mono_ns, int64_t real_ns,
                       crema_msg_t *ret_msg);

/* The answer to a repeated RUN_SEAL. It borrows from `run_id`, and until the next call from `self`
 * and the arena. False: there is none yet. */
bool sink_sealing_answer(sink_sealing_t *self, const crema_id_t *run_id, crema_arena_t *arena,
                         crema_msg_t *ret_msg);

/* Files that are being made, and runs that wait for it. */
void sink_sealing_count(const sink_sealing_t *self, size_t *ret_running, size_t *ret_waiting);

#endif
