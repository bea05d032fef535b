/* sink_segments - the files of a journal's directory: `000001.journal` and so on. */
#ifndef SINK_SEGMENTS_H
#define SINK_SEGMENTS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "sink_journal.h"

#define SINK_SEGMENT_NUMBER_MAX 99999999u

CREMA_MUST_CHECK crema_err_t sink_segments_path(const char *dir, uint32_t number,
                                                char path[PATH_MAX]);

/* Numbers of all segments in order, in memory that the caller frees; other names are passed over. CREMA_ENOENT: no such directory. */
CREMA_MUST_CHECK crema_err_t sink_segments_list(const char *dir, uint32_t **ret_numbers,
                                                size_t *ret_n);

#endif
