/* sink_survey - lists the runs of a store for an observer: it takes no lock and changes nothing,
 * so a sink may be serving the store. */
#ifndef SINK_SURVEY_H
#define SINK_SURVEY_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"

#define SINK_SURVEY_ASIDE "set aside" /* phase of a run whose journal cannot be read */

typedef struct {
    crema_id_t run_id;
    const char *phase;   /* crema_life_name(), or SINK_SURVEY_ASIDE */
    uint64_t bytes;      /* size of its journal on disk */
    uint64_t streams;    /* streams that began */
    int64_t t_start_ns;  /* real time, from its RUN_OPEN; 0: unknown */
    const char *user;    /* who ran it, from the same, cut if it is long; "" if unknown */
    const char *label;   /* that the user gave it; as above */
    int64_t revision;    /* of its file; 0: none, or unknown */
    const char *verdict; /* of that file; "" if unknown */
    /* where that file was made, relative to the directory the sink was started in */
    const char *path;
    const char *why; /* why the run is set aside; else "" */
} sink_surveyed_t;

typedef crema_err_t (*sink_survey_fn)(void *context, const sink_surveyed_t *run);

/* Calls `fn` for each run: first those with a journal in order of their ids, then the freed
 * ones. Of each journal only the beginning is read, and the end from the newest checkpoint on.
 * After an error `ret_why` is one sentence; CREMA_EMAGIC: the directory is not a store. */
CREMA_MUST_CHECK crema_err_t sink_survey(const char *dir, sink_survey_fn fn, void *context,
                                         char *ret_why, size_t why_size);

#endif
