/* sink_segments - the files in a journal's directory: `000001.journal` and so on;
 * `000001.journal.damaged`, in which nothing was readable; `000001.journal.torn`, which was cut
 * off a segment's end. */
#ifndef SINK_SEGMENTS_H
#define SINK_SEGMENTS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_journal.h"

#define SINK_SEGMENT_NUMBER_MAX 99999999u
#define SINK_SEGMENT_TORN ".journal.torn"
#define SINK_SEGMENT_DAMAGED ".journal.damaged"

CREMA_MUST_CHECK crema_err_t sink_segments_path(const char *dir, uint32_t number,
                                                char path[PATH_MAX]);

/* Numbers of all segments in ascending order, which the caller frees; other names are ignored.
 * CREMA_ENOENT: no such directory. */
CREMA_MUST_CHECK crema_err_t sink_segments_list(const char *dir, uint32_t **ret_numbers,
                                                size_t *ret_n);

/* Number of the newest segment, including damaged ones; 0: there is none. */
CREMA_MUST_CHECK crema_err_t sink_segments_newest(const char *dir, uint32_t *ret_number);
/* Total size of damaged segments. */
CREMA_MUST_CHECK crema_err_t sink_segments_damaged(const char *dir, uint64_t *ret_bytes);

#endif
