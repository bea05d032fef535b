/* crema_wire_private - shared by the codecs of records and of messages: each body is described by a table of its fields,
 * which serves both directions. crema_wire_fields.c copies fields, crema_record.c and crema_wire_messages.c have the tables,
 * crema_wire.c the envelope. */
#ifndef CREMA_WIRE_PRIVATE_H
#define CREMA_WIRE_PRIVATE_H

#include "crema.pb-c.h"
#include "crema_arena.h"
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
    ROWS,       /* a list of structs with its length */
    TABLE,
} how_t;

typedef struct crema_wire_layout crema_wire_layout_t;

typedef struct {
    how_t how;
    uint16_t wire, plain;            /* offsets of the field */
    uint16_t wire_n, plain_n;        /* offsets of its length */
    const crema_wire_layout_t *rows; /* ROWS: of each of them */
} crema_wire_field_t;

/* A struct of protobuf-c and the plain one. */
struct crema_wire_layout {
    const ProtobufCMessageDescriptor *descriptor;
    const crema_wire_field_t *fields;
    size_t n_fields, plain_bytes;
};

/* Rows of these tables: the offsets of a field in protobuf-c's struct and in PLAIN, which the file of the table defines. */
#define AT(how_, message, field, name)                                                             \
    {                                                                                              \
        .how = how_, .wire = offsetof(message, field), .plain = offsetof(PLAIN, name)              \
    }
/* 0; does not compile if the two fields differ in size. */
#define SAME_SIZE(message, field, name)                                                            \
    (0 * sizeof(char[sizeof((message *)0)->field == sizeof((PLAIN *)0)->name ? 1 : -1]))
#define NUMBER(how_, message, field, name)                                                         \
    {                                                                                              \
        .how = how_, .wire = offsetof(message, field) + SAME_SIZE(message, field, name),           \
        .plain = offsetof(PLAIN, name)                                                             \
    }
#define LIST(how_, message, field, name, n_name, ...)                                              \
    {                                                                                              \
        .how = how_, .wire = offsetof(message, field), .plain = offsetof(PLAIN, name),             \
        .wire_n = offsetof(message, n_##field), .plain_n = offsetof(PLAIN, n_name), __VA_ARGS__    \
    }
#define LAYOUT(descriptor, fields)                                                                 \
    {                                                                                              \
        &descriptor, fields, sizeof fields / sizeof fields[0], sizeof(PLAIN)                       \
    }

typedef struct {
    crema_msg_type_t type;
    const char *name;
    crema_wire_layout_t layout;
} crema_wire_kind_t;

typedef struct {
    crema_arena_t *scratch; /* NULL until needed */
    crema_err_t err;        /* the first error */
} crema_wire_encoder_t;

/* Any of protobuf-c's structs, to be packed. */
typedef union {
    ProtobufCMessage base;
    uint8_t bytes[512];
} crema_wire_body_t;

/* Takes all memory from the arena, whose crema_arena_refused() reports afterwards whether it ran out. */
ProtobufCAllocator crema_wire_allocator(crema_arena_t *arena);

/* Decodes a body into the plain struct. False: it is not sound, or does not fit into the arena. */
bool crema_wire_unpack(const crema_wire_layout_t *layout, const uint8_t *bytes, size_t size,
                       crema_arena_t *arena, void *plain);
/* Fills in a body from the plain struct, whose texts and lists it borrows; the caller destroys the
 * encoder's scratch when it is packed. */
void crema_wire_fill(crema_wire_encoder_t *self, const crema_wire_layout_t *layout,
                     const void *plain, crema_wire_body_t *ret_body);

/* Checks what the tables cannot. */
bool crema_wire_is_sound(const crema_msg_t *msg);

/* NULL: not a type of message. */
const crema_wire_kind_t *crema_wire_kind(crema_msg_type_t type);

#endif
