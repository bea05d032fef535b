/* crema_wire_private - shared by the source files of crema_wire, of which each uses only those before it: crema_wire_fields.c
 * copies a field, crema_wire_messages.c has the table of messages, crema_wire.c the envelope. */
#ifndef CREMA_WIRE_PRIVATE_H
#define CREMA_WIRE_PRIVATE_H

#include "crema.pb-c.h"
#include "crema_protobuf.h"
#include "crema_wire.h"

typedef enum {
    WORD,    /* 4 bytes, any type */
    LONG,    /* 8 bytes, any type */
    FLAG,    /* bool */
    ID,      /* a zero id is encoded as an empty field */
    NEED_ID, /* a zero id is refused */
    KEY,     /* a public key of 32 bytes; zeros are encoded as an empty field */
    TEXT,
    FRAMES,     /* bytes with their size */
    TEXTS,      /* a list of texts with its length */
    SAME_TEXTS, /* another list of the same length as the one before */
    REASONS,
    WRITERS,
    TABLE,
} how_t;

typedef struct {
    how_t how;
    uint16_t wire, plain;     /* offsets of the field */
    uint16_t wire_n, plain_n; /* offsets of its length */
} crema_wire_field_t;

typedef struct {
    crema_msg_type_t type;
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    const crema_wire_field_t *fields;
    size_t n_fields;
    bool (*check)(const crema_msg_t *msg); /* NULL: no further checks */
} crema_wire_kind_t;

typedef struct {
    crema_arena_t *scratch; /* NULL until needed */
    crema_err_t err;        /* the first error */
} crema_wire_encoder_t;

/* Copies a field of a decoded body into the message. False: it is not sound, or does not fit into the arena. */
bool crema_wire_get_field(const crema_wire_field_t *field, const uint8_t *body,
                          crema_arena_t *arena, uint8_t *msg);
/* Sets a field of the body that is to be packed. */
void crema_wire_put_field(crema_wire_encoder_t *self, const crema_wire_field_t *field,
                          const uint8_t *msg, uint8_t *body);

/* NULL: there is no such message. */
const crema_wire_kind_t *crema_wire_kind(crema_msg_type_t type);

#endif
