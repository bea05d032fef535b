/* sink_scratch - arrays that may be larger than memory, for one process that seals a run.
 *
 * Up to SINK_SCRATCH_MEMORY bytes an array is on the heap; beyond that it is in an unlinked,
 * mapped temporary file, so that the size of a run is limited by disk and not by memory. */
#ifndef SINK_SCRATCH_H
#define SINK_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "crema_error.h"

#define SINK_SCRATCH_MEMORY ((size_t)1 << 20)

/* `n` zeroed elements of `size` bytes, in `dir` if they are many; `dir` NULL: on the heap. Several
 * calls may follow each other: after an error in *err, NULL is returned at once. */
void *sink_scratch(const char *dir, size_t n, size_t size, crema_err_t *err);

/* Gives back what is behind the first `n` elements; an array that stays too long is not an
 * error. */
void sink_scratch_trim(void *array, size_t n, size_t size);

/* True if files in the directory can be mapped: those of some FUSE and 9p file systems cannot. */
bool sink_scratch_works(const char *dir);

/* Accepts NULL. */
void sink_scratch_free(void *array);

/* For arrays that grow. An unlinked file in the directory; the caller closes it. */
CREMA_MUST_CHECK crema_err_t sink_scratch_open(const char *dir, int *ret_fd);

/* Gives the file blocks for `bytes` bytes and maps them: a full disk is an error here instead of
 * a signal later. */
CREMA_MUST_CHECK crema_err_t sink_scratch_map(int fd, size_t bytes, void **ret_bytes);

#endif
