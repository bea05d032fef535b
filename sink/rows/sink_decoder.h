/* sink_decoder - decodes the committed records of one run into rows of its tables. Pure: record
 * frames and messages in, rows out through a function. The live view and the final file use the
 * same decoder.
 *
 * Names become numbers of the run's dictionaries, totals become increments, each prefix gets its
 * side of the time budget, losses become rows of /gaps. Times stay as the writer's clock gave
 * them. Rows of an unfinished chunk are held back until its final row comes, or until
 * sink_decoder_finish() declares the attempt lost. */
#ifndef SINK_DECODER_H
#define SINK_DECODER_H

#include <stdint.h>

#include "crema_columns.h"
#include "crema_error.h"
#include "crema_limit.h"
#include "crema_wire.h"
#include "sink_dict.h"
#include "sink_journal.h"
#include "sink_meta.h"
#include "sink_stream.h"
#include "sink_texts.h"

typedef struct sink_decoder sink_decoder_t;

/* Called with `n` packed rows of a stream table, of /gaps or of /clock, at most
 * CREMA_BATCH_BLOCK. An error ends the call that produced the rows. Dictionaries are not emitted:
 * see sink_decoder_dict(). */
typedef crema_err_t (*sink_rows_fn)(void *context, crema_table_id_t table, const uint8_t *rows,
                                    size_t n);

CREMA_MUST_CHECK crema_err_t sink_decoder_new(sink_rows_fn emit, void *context,
                                              sink_decoder_t **ret_self);
void sink_decoder_destroy(sink_decoder_t **self_p);

/* Records are decoded with the prefixes known at that time: for a final file pass all messages
 * first. */
CREMA_MUST_CHECK crema_err_t sink_decoder_msg(sink_decoder_t *self, const crema_msg_t *msg);
CREMA_MUST_CHECK crema_err_t sink_decoder_writers(sink_decoder_t *self,
                                                  const Crema__RunWriters *msg);
CREMA_MUST_CHECK crema_err_t sink_decoder_put(sink_decoder_t *self, const sink_journal_put_t *put);
CREMA_MUST_CHECK crema_err_t sink_decoder_clock(sink_decoder_t *self,
                                                const Crema__ClockSample *sample);

/* The journal once held the stream's numbers up to `hi`: those that do not come are a gap at the
 * end. */
CREMA_MUST_CHECK crema_err_t sink_decoder_mark(sink_decoder_t *self,
                                               const sink_journal_mark_t *mark);

/* Writes first and last times, ends and last numbers to the dictionaries. */
void sink_decoder_settle(sink_decoder_t *self);

/* After the last record: emits the rows that were held back. */
CREMA_MUST_CHECK crema_err_t sink_decoder_finish(sink_decoder_t *self);

sink_dict_t *sink_decoder_dict(const sink_decoder_t *self);
const sink_meta_t *sink_decoder_meta(const sink_decoder_t *self);
/* Software versions and similar facts from the writers; the first value of a name counts. */
const sink_texts_t *sink_decoder_versions(const sink_decoder_t *self);

size_t sink_decoder_streams(const sink_decoder_t *self);
/* In the order of /dict/stream. */
const sink_stream_t *sink_decoder_stream(const sink_decoder_t *self, size_t i);

/* The limits of this run and how often each was met. They may be lowered before the first
 * record. */
crema_limits_t *sink_decoder_limits(const sink_decoder_t *self);

/* The stream of this run with that id; NULL if there is none. The second takes the id as text,
 * as in reasons. */
const sink_stream_t *sink_decoder_find_id(const sink_decoder_t *self, const crema_id_t *stream_id);
const sink_stream_t *sink_decoder_find(const sink_decoder_t *self, const char *stream_id);

/* After sink_decoder_finish(): true if every agent named by a record or clock sample has its own
 * stream here. */
bool sink_decoder_has_agents(const sink_decoder_t *self);

#endif
