/* crema_wire - messages between agent, aggregator, sink and collector: a 24-byte envelope and a
 * protobuf body.
 *
 *   offset 0      4    5     6      8         12     16       24
 *          | magic | ver | type | flags | body_len | crc32 | session | body
 *
 * Little-endian. crc32 is zlib's CRC-32 over bytes 0..11, 16..23 and the body. One message is one
 * ZeroMQ frame (behind the routing id at a ROUTER). A decoded body points into the arena given,
 * until its next use. */
#ifndef CREMA_WIRE_H
#define CREMA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "crema_arena.h"
#include "crema_body.h"
#include "crema_error.h"
#include "crema_stream_table.h"

#define CREMA_WIRE_MAGIC 0x616d7263u /* "crma" */
#define CREMA_WIRE_VERSION 2
#define CREMA_WIRE_VERSION_MIN 2 /* of a peer */
#define CREMA_WIRE_VERSION_KEPT_MIN                                                                \
    2 /* of a message that was kept: journals have them, envelope and all */
#define CREMA_WIRE_HEADER_BYTES 24
#define CREMA_WIRE_MESSAGE_MAX (256u << 10)
#define CREMA_WIRE_BATCH_MAX (192u << 10) /* frames bytes in one DATA or PUT */
#define CREMA_WIRE_WRITER_PARTS_MAX 4096u /* of one list of writers */

/* Arena size that suffices for every well-formed message. */
#define CREMA_WIRE_ARENA_BYTES                                                                     \
    (CREMA_ARENA_FACTOR * (size_t)CREMA_WIRE_MESSAGE_MAX + CREMA_ARENA_SLACK)

/* X(TYPE, number, body): the name of its body in crema.proto. Numbers are the protocol: append
 * only. RUN_OPEN, RUN_END and RUN_WRITERS go from the collector to the aggregator, and on to the
 * sink. */
#define CREMA_MESSAGES(X)                                                                          \
    X(HELLO, 1, hello)                                                                             \
    X(DATA, 2, data)                                                                               \
    X(HEARTBEAT, 3, heartbeat)                                                                     \
    X(BYE, 4, bye)                                                                                 \
    X(WELCOME, 16, welcome)                                                                        \
    X(ACK, 17, ack)                                                                                \
    X(REPLAY, 18, replay)                                                                          \
    X(BARRIER, 19, barrier)                                                                        \
    X(FENCE, 20, fence)                                                                            \
    X(OPEN, 32, open)                                                                              \
    X(PUT, 33, put)                                                                                \
    X(RUN_SEAL, 34, run_seal)                                                                      \
    X(CLOCK, 35, clock_sample)                                                                     \
    X(STATE, 48, state)                                                                            \
    X(COMMITTED, 49, committed)                                                                    \
    X(NACK, 50, nack)                                                                              \
    X(FULL, 51, full)                                                                              \
    X(SEALED, 52, sealed)                                                                          \
    X(RUN_LISTED, 53, run_listed)                                                                  \
    X(RUN_OPEN, 64, run_open)                                                                      \
    X(RUN_END, 65, run_end)                                                                        \
    X(RUN_QUERY, 66, run_query)                                                                    \
    X(RUN_STATE, 67, run_state)                                                                    \
    X(RUN_WRITERS, 68, run_writers)

typedef enum {
#define X(type, number, body) CREMA_MSG_##type = number,
    CREMA_MESSAGES(X)
#undef X
} crema_msg_type_t;

/* A table above CREMA_WIRE_TABLE_ROWS_SENT rows is sent in several messages; HELLO and HEARTBEAT
 * then have the header flag CREMA_WIRE_FLAG_MORE on all but the last, and take effect only when
 * the last has come. */
#define CREMA_WIRE_FLAG_MORE 1u
/* The upper byte of the flags numbers the parts from 0: a table with a missing part is ignored. */
#define CREMA_WIRE_PART_SHIFT 8

/* Parts of a spool that could not be read, sent with its table (with the last part of it): FILE
 * has the file's name in `subject` and the cause in `text`, SPOOL has the cause why the
 * directory cannot be listed, MORE counts files for which there was no room. */
#define CREMA_FAULT_FILE "file_unreadable"
#define CREMA_FAULT_SPOOL "spool_unreadable"
#define CREMA_FAULT_MORE "more_unreadable"
#define CREMA_WIRE_FAULTS_MAX 33u /* so many fit beside CREMA_WIRE_TABLE_ROWS_SENT rows */

typedef enum {
    CREMA_FENCE_SUPERSEDED = 1,
    CREMA_FENCE_CLONE = 2,
    CREMA_FENCE_PRINCIPAL = 3,
    CREMA_FENCE_QUOTA = 4,
    CREMA_FENCE_VERSION = 5,
    CREMA_FENCE_CREDIT_ABUSE = 6,
    CREMA_FENCE_DISMISSED = 7, /* the run is sealed and its agents were started for it: exit */
    CREMA_FENCE_UNKNOWN = 8,   /* unknown session (aggregator restarted): send HELLO */
} crema_fence_reason_t;

#define CREMA_WIRE_KEY_BYTES 32 /* a CURVE public key */

/* What the collector knows of a writer at the end of the run. */
typedef enum {
    CREMA_WRITER_ENDED = 1,   /* gave its stream and the number of its last record */
    CREMA_WRITER_LEFT = 2,    /* could no longer be asked: its stream must contain its own END */
    CREMA_WRITER_UNKNOWN = 3, /* could not be asked, and its stream is unknown */
    CREMA_WRITER_SILENT = 4,  /* has no stream */
} crema_writer_state_t;

typedef enum {
    CREMA_RUN_UNKNOWN,
    CREMA_RUN_OPEN,
    CREMA_RUN_BARRIER, /* asked, waiting for answers and commits */
    CREMA_RUN_VERDICT, /* decided, the sink seals */
    CREMA_RUN_SEALED,
    CREMA_RUN_FAILED, /* the file could not be written; see error */
} crema_run_phase_t;

/* Why RUN_OPEN, RUN_END or RUN_QUERY was refused. Wire numbers: append only. */
typedef enum {
    CREMA_REFUSED_NOT,
    CREMA_REFUSED_UNKNOWN_RUN, /* RUN_QUERY: unknown run */
    CREMA_REFUSED_BAD_ID,
    CREMA_REFUSED_NO_ROOM,     /* the aggregator has reached its number of runs */
    CREMA_REFUSED_QUOTA,       /* this client has reached its number of runs */
    CREMA_REFUSED_OTHER_START, /* a run with this id began at another time */
    CREMA_REFUSED_OTHER_KEY,   /* it belongs to another client */
} crema_refusal_t;

/* A message, with its body as crema.proto describes it; encoding sets the body's `base`. */
typedef struct {
    union {
        ProtobufCMessage base;
        Crema__Hello hello;
        Crema__Data data;
        Crema__Heartbeat heartbeat;
        Crema__Bye bye;
        Crema__Welcome welcome;
        Crema__Ack ack;
        Crema__Replay replay;
        Crema__Barrier barrier;
        Crema__Fence fence;
        Crema__Open open;
        Crema__Put put;
        Crema__ClockSample clock;
        Crema__State state;
        Crema__Committed committed;
        Crema__Nack nack;
        Crema__Full full;
        Crema__RunOpen run_open; /* also what RUN_END and RUN_SEAL have in common with it */
        Crema__RunEnd run_end;
        Crema__RunSeal run_seal;
        Crema__RunWriters run_writers;
        Crema__RunListed run_listed;
        Crema__RunQuery run_query;
        Crema__RunState run_state;
        Crema__Sealed sealed;
        struct { /* what all messages from RUN_OPEN to SEALED begin with */
            ProtobufCMessage run_base;
            ProtobufCBinaryData run_id;
        };
    };
    crema_msg_type_t type;
    uint16_t flags;
    uint64_t session; /* aggregator's session towards agents; 0 otherwise */
} crema_msg_t;

/* "HELLO", ...; "?" for an unknown number. */
const char *crema_msg_name(crema_msg_type_t type);

/* The value of an attribute of the run; "" if the message does not have it. */
const char *crema_msg_attribute(const Crema__RunOpen *open, const char *name);

/* A copy with all that it points to. CREMA_ENOMEM, or as crema_wire_encode(). */
CREMA_MUST_CHECK crema_err_t crema_msg_copy(const crema_msg_t *msg, crema_msg_t **ret_copy);
/* Memory that a copy takes, about. Small messages can unpack to fifty times their size. */
size_t crema_msg_bytes(const crema_msg_t *msg);
/* Of a copy. Accepts NULL; sets *self_p to NULL. */
void crema_msg_destroy(crema_msg_t **self_p);

/* Encodes into a buffer that the caller frees. CREMA_ELIMIT above CREMA_WIRE_MESSAGE_MAX or
 * CREMA_WIRE_BATCH_MAX; CREMA_EINVAL for an unknown type; CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_wire_encode(const crema_msg_t *msg, uint8_t **ret_bytes,
                                               size_t *ret_size);

/* A message must have the ids and numbers its type requires (DATA: stream, run, first >= 1);
 * columns of a table have the length of its stream_ids, or are missing and zero; texts are
 * UTF-8. CREMA_EMAGIC, CREMA_EVERSION (version byte outside [MIN, VERSION]; ret_msg->type is set
 * for a reply), CREMA_ECRC, CREMA_EPROTO, CREMA_ELIMIT. Frames in DATA and PUT are not examined. */
CREMA_MUST_CHECK crema_err_t crema_wire_decode(const uint8_t *bytes, size_t size,
                                               crema_arena_t *arena, crema_msg_t *ret_msg);

/* The same for a message in a journal: accepts versions from KEPT_MIN on. */
CREMA_MUST_CHECK crema_err_t crema_wire_decode_kept(const uint8_t *bytes, size_t size,
                                                    crema_arena_t *arena, crema_msg_t *ret_msg);

#endif
