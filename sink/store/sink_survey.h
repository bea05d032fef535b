/* sink_survey - the runs of a store as somebody sees them who only looks: it takes no lock and changes nothing, so a sink may be serving it. */
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
    uint64_t bytes;      /* of its journal on the disk */
    uint64_t streams;    /* that began */
    int64_t t_start_ns;  /* real time, from its RUN_OPEN; 0: not known */
    int64_t revision;    /* of its file; 0: there was none, or it is not known */
    const char *verdict; /* of that file, likewise "" */
    const char *path;    /* where that was made; relative to where the sink was started */
    const char *why;     /* it is set aside; else "" */
} sink_surveyed_t;

typedef crema_err_t (*sink_survey_fn)(void *context, const sink_surveyed_t *run);

/* Calls `fn` for each run: those with a journal by their ids, then those that were freed. Of a journal it reads the beginning, and the end from
 * the newest checkpoint on. After an error `ret_why` is one sentence; CREMA_EMAGIC: the directory is not a store. */
CREMA_MUST_CHECK crema_err_t sink_survey(const char *dir, sink_survey_fn fn, void *context,
                                         char *ret_why, size_t why_size);

#endif
