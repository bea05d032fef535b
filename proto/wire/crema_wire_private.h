/* crema_wire_private - decodes a body of a record or a message. */
#ifndef CREMA_WIRE_PRIVATE_H
#define CREMA_WIRE_PRIVATE_H

#include "crema_arena.h"
#include "crema_body.h"

/* Checks what holds for every field of a kind: texts are UTF-8, ids have 16 bytes or none, keys 32
 * or none, columns of a table are as long as it or missing, and neither a table nor frames are too
 * large. Ids and keys that are zero become empty. NULL: the body is not sound, or does not fit
 * into the arena, which crema_arena_refused() reports. */
ProtobufCMessage *crema_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                    const uint8_t *bytes, size_t size, crema_arena_t *arena);

#endif
