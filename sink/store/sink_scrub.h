/* sink_scrub - reads all of a journal once more while it is written to, a bounded piece at a time, and says how far its streams come without a
 * hole. A checkpoint tells how far they were; only this tells whether that can still be read. */
#ifndef SINK_SCRUB_H
#define SINK_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_commit.h"

typedef struct sink_scrub sink_scrub_t;

CREMA_MUST_CHECK crema_err_t sink_scrub_new(const char *dir, const crema_id_t *run_id,
                                            size_t streams_max, sink_scrub_t **ret_self);
void sink_scrub_destroy(sink_scrub_t **self_p);

/* Reads on, up to the end of segment `newest`. *ret_end: there is nothing more just now. */
CREMA_MUST_CHECK crema_err_t sink_scrub_read(sink_scrub_t *self, uint32_t newest, bool *ret_end);

typedef struct {
    uint64_t damaged_bytes;  /* that cannot be read */
    uint64_t missing_frames; /* numbers that no frame carries */
} sink_scrub_found_t;
/* At the end: what was found by then. */
sink_scrub_found_t sink_scrub_found(const sink_scrub_t *self);
/* How far each stream comes. */
const sink_commit_t *sink_scrub_marks(const sink_scrub_t *self);

#endif
