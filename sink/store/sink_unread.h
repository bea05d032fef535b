/* sink_unread - reads files of which the disk may not give everything. Segments of journals are
 * read only by these functions: what cannot be read of them is damage, which is counted and named,
 * and never a reason to read no further. */
#ifndef SINK_UNREAD_H
#define SINK_UNREAD_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

/* What could not be read of one or more files; zero: nothing yet. */
typedef struct {
    uint64_t bytes;
    unsigned failed;     /* pages of one file, of which not too many are asked for one by one */
    int why;             /* errno of the first failure; 0: everything could be read */
    char path[PATH_MAX]; /* the file that it was met in */
} sink_unread_t;

#define SINK_UNREAD_TEXT_BYTES 512

/* Writes "<name of the file>: <text of errno>", or nothing. Returns `text`. */
const char *sink_unread_text(const sink_unread_t *self, char text[SINK_UNREAD_TEXT_BYTES]);

/* Reads `size` bytes from `offset`. What the disk does not give becomes zeros, which are no frame,
 * and is added to `unread`. CREMA_ENOENT: the file is shorter or missing; CREMA_ENOMEM: no memory
 * or descriptor at the moment, so that nothing is known of the file. */
CREMA_MUST_CHECK crema_err_t sink_unread_read_at(const char *path, uint64_t offset, uint8_t *bytes,
                                                 size_t size, sink_unread_t *unread);

/* Reads a whole file of at most `max` bytes; the caller frees it. A longer one, and what cannot be
 * opened or is no file, has no bytes (NULL) and is unread as a whole, which counts as one byte or
 * more. Errors as above. */
CREMA_MUST_CHECK crema_err_t sink_unread_read(const char *path, size_t max, uint8_t **ret_bytes,
                                              size_t *ret_size, sink_unread_t *unread);

#endif
