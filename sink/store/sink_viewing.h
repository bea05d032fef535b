/* sink_viewing - lines in which the serving sink reports to the live view process what is durable:
 *
 *     grown RUN 3 1048576     its journal is durable up to this byte of segment 3
 *     ended RUN               the run has its final file */
#ifndef SINK_VIEWING_H
#define SINK_VIEWING_H

#include <limits.h>
#include <stdbool.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_journal.h"

/* Size with newline and NUL; far below PIPE_BUF, so a pipe takes a whole line or nothing. */
#define SINK_VIEWING_BYTES 96

typedef struct {
    bool ended;
    crema_id_t run_id;
    sink_journal_position_t position; /* durable end of a journal that has grown */
} sink_viewing_t;

/* Returns `out`, the line including its newline. */
char *sink_viewing_line(const sink_viewing_t *viewing, char out[SINK_VIEWING_BYTES]);

/* False: not a valid line. A final newline is optional. */
bool sink_viewing_parse(const char *line, sink_viewing_t *ret_viewing);

/* The live file of a run: `<run_id>.live.h5` in output_dir. Returns `ret_path`; see
 * sink_fs_path(). */
char *sink_viewing_path(const char *output_dir, const crema_id_t *run_id, char ret_path[PATH_MAX]);

#endif
