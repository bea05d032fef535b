/* sink_scrub - re-reads a whole journal while it is being written to, one bounded piece at a
 * time, and finds how far each stream is readable without a hole. A checkpoint records how far
 * the streams were; only reading shows whether the records are still there. */
#ifndef SINK_SCRUB_H
#define SINK_SCRUB_H

#include <stdbool.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "sink_commit.h"
#include "sink_unread.h"

typedef struct sink_scrub sink_scrub_t;

CREMA_MUST_CHECK crema_err_t sink_scrub_new(const char *dir, const crema_id_t *run_id,
                                            size_t streams_max, sink_scrub_t **ret_self);
void sink_scrub_destroy(sink_scrub_t **self_p);

/* Reads the next piece, up to the end of segment `newest`. *ret_end: nothing is left to read for
 * now. After an error nothing is known of what is left; the next call tries it again. */
CREMA_MUST_CHECK crema_err_t sink_scrub_read(sink_scrub_t *self, uint32_t newest, bool *ret_end);

typedef struct {
    uint64_t damaged_bytes;  /* unreadable bytes */
    uint64_t missing_frames; /* numbers that no frame carries */
} sink_scrub_found_t;

/* The part of the damage that is what the disk did not give. */
const sink_unread_t *sink_scrub_unread(const sink_scrub_t *self);
/* At the end: what was found so far. */
sink_scrub_found_t sink_scrub_found(const sink_scrub_t *self);
/* How far each stream is readable. */
const sink_commit_t *sink_scrub_marks(const sink_scrub_t *self);

#endif
