/* crema_body - bodies of records and messages: the structs that protobuf-c generates from
 * crema.proto, and their ids.
 *
 * What a struct points to belongs to whoever fills it in; of a decoded one, to its arena. A text
 * or list of a struct that is built may be NULL, which is an empty one. An element of a list needs
 * its `base` (CREMA__WRITER__INIT and its like); that of the body itself is set when it is
 * encoded. Only proto/wire/ packs and unpacks. */
#ifndef CREMA_BODY_H
#define CREMA_BODY_H

#include "crema.pb-c.h"
#include "crema_id.h"

/* The id that a field of a checked body holds; an empty field is the zero id. */
static inline const crema_id_t *
crema_id_of(ProtobufCBinaryData field)
{
    static const crema_id_t c_zero;
    return field.len ? (const crema_id_t *)field.data : &c_zero;
}

/* A field that borrows the id; the zero id is an empty one. */
static inline ProtobufCBinaryData
crema_id_field(const crema_id_t *id)
{
    return (ProtobufCBinaryData){crema_id_is_zero(id) ? 0 : CREMA_ID_BYTES, (uint8_t *)id->bytes};
}

/* Borrows its texts. */
static inline Crema__Reason
crema_reason(const char *code, const char *subject, const char *text, uint64_t count)
{
    return (Crema__Reason){.base = PROTOBUF_C_MESSAGE_INIT(&crema__reason__descriptor),
                           .code = (char *)code,
                           .subject = (char *)subject,
                           .text = (char *)text,
                           .count = count};
}

#endif
