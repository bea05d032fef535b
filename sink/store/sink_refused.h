/* sink_refused - the file `refused`: what spools still held of runs that were freed. It is in no run file, and nobody keeps it any longer.
 *
 * A line says which numbers of a stream were refused. A run has SINK_REFUSED_STREAMS_MAX of them, then one that counts the rest of it; there are
 * SINK_REFUSED_LINES_MAX of the first kind and as many of the second, then one line that counts everything else. What is said again
 * of a stream that has a line changes nothing; counted without one it counts again. The file is written anew, whole,
 * when there is something new. */
#ifndef SINK_REFUSED_H
#define SINK_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_REFUSED_STREAMS_MAX 64u
#define SINK_REFUSED_LINES_MAX 4096u

typedef struct {
    crema_id_t run_id;    /* zero: of all runs without a line */
    crema_id_t stream_id; /* zero: of all streams without a line */
    uint64_t first, last; /* numbers; 1 and how many where they are of several streams */
} sink_refused_line_t;

typedef struct {
    sink_refused_line_t *lines;
    size_t n, room;
    size_t n_streams; /* lines of one stream */
    bool is_new;      /* something is not in the file yet */
} sink_refused_t;

/* What the file in `dir` holds, as far as it can be read. No file is as good as an empty one. */
CREMA_MUST_CHECK crema_err_t sink_refused_read(sink_refused_t *self, const char *dir);
/* Numbers first..last of a stream are refused; *ret_new: that was not known. Nothing if last < first. */
CREMA_MUST_CHECK crema_err_t sink_refused_note(sink_refused_t *self, const crema_id_t *run_id,
                                               const crema_id_t *stream_id, uint64_t first,
                                               uint64_t last, bool *ret_new);
/* Makes it durable if there is something new. After an error it is still new. */
CREMA_MUST_CHECK crema_err_t sink_refused_keep(sink_refused_t *self, const char *dir);
/* Numbers in all lines. */
uint64_t sink_refused_records(const sink_refused_t *self);
void sink_refused_clear(sink_refused_t *self);

#endif
