/* sink_filter - what HDF5's filters shuffle and deflate make of one chunk, so that chunks of a
 * final file can be compressed on two cores; HDF5 itself runs on one. Pure: bytes in, bytes out.
 *
 * Shuffle puts byte k of all rows together, for each k; deflate is a zlib stream (RFC 1950). Any
 * HDF5 library reads the result. An object serves one thread at a time. */
#ifndef SINK_FILTER_H
#define SINK_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

#define SINK_FILTER_LEVEL 1 /* of deflate: more takes several times as long for a few percent */

typedef struct sink_filter sink_filter_t;

/* For chunks of `chunk_rows` rows. */
CREMA_MUST_CHECK crema_err_t sink_filter_new(size_t row_bytes, size_t chunk_rows,
                                             sink_filter_t **ret_self);
void sink_filter_destroy(sink_filter_t **self_p);

/* Bytes that a compressed chunk may have. */
size_t sink_filter_bound(const sink_filter_t *self);

/* Compresses a chunk that begins with `n` rows, followed by zeros, to `packed` with room for
 * sink_filter_bound(); returns its length. */
size_t sink_filter_pack(sink_filter_t *self, const uint8_t *rows, size_t n, uint8_t *packed);

/* True if a compressed chunk is sound and holds these rows. */
bool sink_filter_holds(sink_filter_t *self, const uint8_t *packed, size_t bytes,
                       const uint8_t *rows, size_t n);

/* Continues a CRC-32 (0 at first) with these bytes. */
uint32_t sink_filter_sum(uint32_t sum, const void *bytes, size_t n);

#endif
