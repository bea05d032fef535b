/* sink_payload - the checksum of a run file's payload: SHA-256 over the rows of all tables in
 * the order of the tables' paths. Pure: bytes in, checksum out. */
#ifndef SINK_PAYLOAD_H
#define SINK_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

#define SINK_PAYLOAD_BYTES 32

typedef struct sink_payload sink_payload_t;

CREMA_MUST_CHECK crema_err_t sink_payload_new(sink_payload_t **ret_self);
void sink_payload_add(sink_payload_t *self, const void *bytes, size_t size);
/* Writes the checksum and frees the object. */
void sink_payload_end(sink_payload_t **self_p, uint8_t ret_sha256[SINK_PAYLOAD_BYTES]);

void sink_payload_destroy(sink_payload_t **self_p);

/* Lower-case hex with a NUL. */
void sink_payload_hex(const uint8_t sha256[SINK_PAYLOAD_BYTES],
                      char text[2 * SINK_PAYLOAD_BYTES + 1]);

#endif
