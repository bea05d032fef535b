/* sink_viewer - the process that makes the live files of all runs that go on, see sink_live.h: it reads on in their journals.
 *
 * The serving sink says up to where each journal is durable (sink_viewing.h) and never waits for this process: what it could not say, it says a
 * moment later, and if this process dies, the next one begins every live file anew. A file whose writing fails is given up for its run: the run
 * goes on without it. */
#ifndef SINK_VIEWER_H
#define SINK_VIEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef struct {
    const char *store_dir;  /* journals are its `<run_id>` */
    const char *output_dir; /* live files become `<run_id>.live.h5` there */
    int64_t flush_interval_ns;
    size_t views_max; /* runs beyond it get none */
} sink_viewer_config_t;

typedef struct sink_viewer sink_viewer_t;

/* Borrows the texts. */
CREMA_MUST_CHECK crema_err_t sink_viewer_new(const sink_viewer_config_t *config,
                                             sink_viewer_t **ret_self);
/* Closes all files; they stay. */
void sink_viewer_destroy(sink_viewer_t **self_p);

/* A line of the serving sink; what is none is passed over. */
void sink_viewer_take(sink_viewer_t *self, const char *line);

/* Reads at most one segment of one journal, of each in turn. False: there is nothing to read. */
bool sink_viewer_step(sink_viewer_t *self);

/* Makes visible what was read. */
void sink_viewer_flush(sink_viewer_t *self);

/* Does all that until `in`, which becomes non-blocking, ends. */
void sink_viewer_serve(sink_viewer_t *self, int in);

#endif
