/* sink_segments - the files in a journal's directory: `000001.journal` and so on;
 * `000001.journal.damaged`, in which nothing was readable; `000001.journal.torn`, which was cut
 * off a segment's end; `000001.journal.unread`, of which the segment is what could be read. */
#ifndef SINK_SEGMENTS_H
#define SINK_SEGMENTS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_journal.h"

#define SINK_SEGMENT_NUMBER_MAX 99999999u
#define SINK_SEGMENT ".journal"
#define SINK_SEGMENT_TORN ".journal.torn"
#define SINK_SEGMENT_DAMAGED ".journal.damaged"
#define SINK_SEGMENT_UNREAD ".journal.unread"

/* Returns `path`; see sink_fs_path(). */
char *sink_segments_path(const char *dir, uint32_t number, char path[PATH_MAX]);

typedef struct {
    uint32_t *numbers; /* of all segments in ascending order; the caller frees it */
    size_t n;
    uint32_t newest;        /* number of the newest one, also if it is damaged; 0: there is none */
    uint64_t bytes;         /* size of these segments */
    uint64_t damaged_bytes; /* size of damaged ones */
    uint32_t last_damaged;  /* number of the newest of those; 0: there is none */
} sink_segments_t;

/* Other names are ignored. CREMA_ENOENT: the directory was not found. */
CREMA_MUST_CHECK crema_err_t sink_segments_find(const char *dir, sink_segments_t *ret_found);

#endif
