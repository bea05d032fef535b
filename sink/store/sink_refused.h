/* sink_refused - the file `refused`: records of freed runs that spools still held. They are in
 * no run file and are no longer kept anywhere.
 *
 * A line lists a range of refused numbers of one stream. Each run has up to
 * SINK_REFUSED_STREAMS_MAX lines, then one line that counts the rest of the run. There are at
 * most SINK_REFUSED_LINES_MAX lines of each kind, then one line that counts everything else.
 * Repeating a range of a stream that has a line changes nothing; without a line it is counted
 * again. The file is rewritten as a whole when something new has been added. */
#ifndef SINK_REFUSED_H
#define SINK_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_REFUSED_STREAMS_MAX 64u
#define SINK_REFUSED_LINES_MAX 4096u

/* As it lies in its frame. */
typedef struct {
    crema_id_t run_id;    /* zero: all runs without a line */
    crema_id_t stream_id; /* zero: all streams without a line */
    uint64_t first, last; /* numbers; 1 and the count if the line covers several streams */
} sink_refused_line_t;

typedef struct {
    sink_refused_line_t *lines;
    size_t n, room;
    size_t n_streams; /* lines that cover one stream */
    bool is_new;      /* something is not in the file, and is not being written */
    /* What is being written; only `err` is changed by sink_refused_write(). */
    uint8_t *bytes;
    size_t size;
    crema_err_t err; /* of the last writing, until it was returned */
} sink_refused_t;

/* Reads the file in `dir` as far as possible. A missing file counts as empty. */
CREMA_MUST_CHECK crema_err_t sink_refused_read(sink_refused_t *self, const char *dir);
/* Numbers first..last of a stream are refused; *ret_new: this was not known before. Does nothing
 * if last < first. */
CREMA_MUST_CHECK crema_err_t sink_refused_note(sink_refused_t *self, const crema_id_t *run_id,
                                               const crema_id_t *stream_id, uint64_t first,
                                               uint64_t last, bool *ret_new);
/* Takes what is new to be written. *ret_begins is false if there is nothing to write, or after an
 * error, which may be that of the last writing. Any thread may write; what comes meanwhile is new
 * again. */
CREMA_MUST_CHECK crema_err_t sink_refused_begin(sink_refused_t *self, bool *ret_begins);
void sink_refused_write(sink_refused_t *self, const char *dir);
void sink_refused_end(sink_refused_t *self);
/* Refused records over all lines. */
uint64_t sink_refused_records(const sink_refused_t *self);
void sink_refused_clear(sink_refused_t *self);

#endif
