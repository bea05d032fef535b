/* sink_viewer - the process that makes the live files of all open runs (sink_live.h) by
 * following their journals.
 *
 * The serving sink reports how far each journal is durable (sink_viewing.h) and never waits for
 * this process: a line that the pipe could not take is sent later, and if this process dies, its
 * successor starts every live file again. If a file cannot be written, its run continues without
 * a live file. */
#ifndef SINK_VIEWER_H
#define SINK_VIEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    const char *store_dir;  /* contains the journals as `<run_id>` */
    const char *output_dir; /* receives the live files `<run_id>.live.h5` */
    int64_t flush_interval_ns;
    size_t views_max; /* further runs get no live file */
} sink_viewer_config_t;

typedef struct sink_viewer sink_viewer_t;

/* The texts are borrowed. */
CREMA_MUST_CHECK crema_err_t sink_viewer_new(const sink_viewer_config_t *config,
                                             sink_viewer_t **ret_self);
/* Closes all files without removing them. */
void sink_viewer_destroy(sink_viewer_t **self_p);

/* Takes a line from the serving sink; invalid lines are ignored. */
void sink_viewer_take(sink_viewer_t *self, const char *line);

/* Reads at most one segment of one journal, taking turns. False: nothing to read. */
bool sink_viewer_step(sink_viewer_t *self);

/* Makes what was read visible to readers. */
void sink_viewer_flush(sink_viewer_t *self);

/* Runs the loop until `in`, which becomes non-blocking, is closed. */
void sink_viewer_serve(sink_viewer_t *self, int in);

#endif
