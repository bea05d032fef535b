/* crema_wire - messages between agent, aggregator, sink and collector: a 24-byte envelope and a protobuf body.
 *
 *   offset 0      4    5     6      8         12     16       24
 *          | magic | ver | type | flags | body_len | crc32 | session | body
 *
 * Little-endian. crc32 is zlib's CRC-32 over bytes 0..11, 16..23 and the body. One message is one ZeroMQ frame (behind the routing id at
 * a ROUTER). Decoded structs point into the arena given, until its next use. */
#ifndef CREMA_WIRE_H
#define CREMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_id.h"
#include "crema_record.h"

#define CREMA_WIRE_MAGIC 0x616d7263u /* "crma" */
#define CREMA_WIRE_VERSION 2
#define CREMA_WIRE_VERSION_MIN 2 /* of a peer */
#define CREMA_WIRE_VERSION_KEPT_MIN                                                                \
    1 /* of a message that was kept: journals have them, envelope and all */
#define CREMA_WIRE_HEADER_BYTES 24
#define CREMA_WIRE_HEADER_BYTES_KEPT                                                               \
    40 /* of a message that 0.1.0 kept; its programs take no shorter message either */
#define CREMA_WIRE_MESSAGE_MAX (256u << 10)
#define CREMA_WIRE_BATCH_MAX (192u << 10) /* frames bytes in one DATA or PUT */
#define CREMA_WIRE_TABLE_ROWS_MAX 4096u   /* rows of a stream table in one message */
#define CREMA_WIRE_TABLE_ROWS_SENT 3072u  /* so many fit one message whatever their numbers */
#define CREMA_WIRE_WRITER_PARTS_MAX 4096u /* of one list of writers */

/* Arena size that suffices for every well-formed message. */
#define CREMA_WIRE_ARENA_BYTES                                                                     \
    (CREMA_ARENA_FACTOR * (size_t)CREMA_WIRE_MESSAGE_MAX + CREMA_ARENA_SLACK)

/* X(TYPE, number, body): its name in crema.proto is that of the body. Numbers are the protocol: append only.
 * RUN_OPEN, RUN_END and RUN_WRITERS go from the collector to the aggregator, and on to the sink. */
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

#define CREMA_STREAM_FLAG_CLOSED 1u /* its END record exists: hi is final */
#define CREMA_STREAM_FLAG_STALLED 2u
/* From a sink: the run accepts nothing more; what is not committed never will be. */
#define CREMA_STREAM_FLAG_REFUSED 4u

typedef struct {
    crema_id_t stream_id;
    crema_id_t run_id;
    uint64_t first_avail; /* first seq still held; 0 unknown */
    uint64_t hi;          /* last complete seq */
    uint64_t committed;
    uint64_t recv_next;
    uint32_t flags;
    uint32_t
        user; /* 1 + uid that owns its segments, from an agent that serves all runs; 0: not stated */
} crema_stream_row_t;

/* A table above CREMA_WIRE_TABLE_ROWS_SENT rows is sent in several messages; HELLO and HEARTBEAT
 * then have the header flag CREMA_WIRE_FLAG_MORE on all but the last, and take effect only when
 * the last has come. */
#define CREMA_WIRE_FLAG_MORE 1u
/* The upper byte of the flags numbers the parts from 0: a table with a missing part is ignored. */
#define CREMA_WIRE_PART_SHIFT 8

typedef struct {
    size_t n;
    const crema_stream_row_t *rows;
} crema_stream_table_t;

typedef struct {
    const char *code, *subject, *text;
    uint64_t count;
} crema_reason_t;

/* Parts of a spool that could not be read, sent with its table (with the last part of it): FILE
 * has the file's name in `subject` and the cause in `text`, SPOOL has the cause why the
 * directory cannot be listed, MORE counts files for which there was no room. */
#define CREMA_FAULT_FILE "file_unreadable"
#define CREMA_FAULT_SPOOL "spool_unreadable"
#define CREMA_FAULT_MORE "more_unreadable"
#define CREMA_WIRE_FAULTS_MAX 33u /* so many fit beside CREMA_WIRE_TABLE_ROWS_SENT rows */

typedef struct {
    size_t n;
    const crema_reason_t *rows;
} crema_faults_t;

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

typedef struct {
    uint32_t ver_min, ver_max;
    crema_id_t agent_id;
    uint64_t boot;
    const char *host;
    int32_t pid;
    uint32_t hb_ivl_ms;
    const char *version;
    crema_id_t run_id; /* the only run it serves; zero: all */
    crema_stream_table_t table;
    crema_faults_t faults;
} crema_hello_t;

typedef struct {
    crema_id_t stream_id, run_id;
    uint64_t first_seq, hi;
    uint32_t
        n; /* frames; a LOSS frame covers many numbers, so the last number is that of the last frame */
    uint32_t flags; /* CREMA_STREAM_FLAG_CLOSED */
    const uint8_t *frames;
    size_t frames_bytes;
    crema_id_t agent_id; /* PUT only: the agent that shipped it */
} crema_data_t;          /* PUT uses it too, with hi 0 */

typedef struct {
    uint64_t hb_no;
    uint32_t hb_ivl_ms;
    uint64_t barrier_seen;
    int64_t t1_mono_ns, t1_real_ns;
    /* t1, t2, t3 of the last ACK that answered a heartbeat, and its time of arrival (t4), for
     * crema_offset. All 0 before the first. */
    int64_t echo_t1_mono_ns, echo_t2_mono_ns, echo_t3_mono_ns, echo_t4_mono_ns;
    crema_stream_table_t table;
    crema_faults_t faults;
} crema_heartbeat_t;

typedef struct {
    uint64_t credit_total_b;
    uint32_t max_batch_b, retry_after_ms;
    crema_stream_table_t table;
} crema_welcome_t;

typedef struct {
    crema_stream_table_t table;
    uint64_t credit_total_b, hb_no;
    int64_t t1_mono_ns, t2_mono_ns, t3_mono_ns;
} crema_ack_t;

typedef struct {
    crema_id_t run_id, agent_id;
    int64_t t_ns, offset_ns, uncertainty_ns, rtt_ns;
    double drift_ppb;
} crema_clock_sample_t;

#define CREMA_WIRE_KEY_BYTES 32 /* a CURVE public key */

/* Body of RUN_OPEN, RUN_END and RUN_SEAL; fields that a type does not use are zero. */
typedef struct {
    crema_id_t run_id;
    int64_t t_start_ns, t_end_ns, t_verdict_ns;
    size_t n_attributes;
    const char *const *keys;
    const char *const *values;
    size_t n_prefixes;
    const char *const *processor_prefixes;
    size_t n_reasons;
    const crema_reason_t *reasons;
    bool dismiss;
    uint32_t writer_parts; /* RUN_END, RUN_SEAL: parts of the list of writers; 0: no list */
    uint8_t
        agent_key[CREMA_WIRE_KEY_BYTES]; /* RUN_OPEN: key of this run's own agents; zero: none */
    crema_id_t owner;                    /* key of the sender, as seen by the aggregator */
} crema_run_msg_t;

/* What the collector knows of a writer at the end of the run. */
typedef enum {
    CREMA_WRITER_ENDED = 1,   /* gave its stream and the number of its last record */
    CREMA_WRITER_LEFT = 2,    /* could no longer be asked: its stream must contain its own END */
    CREMA_WRITER_UNKNOWN = 3, /* could not be asked, and its stream is unknown */
    CREMA_WRITER_SILENT = 4,  /* has no stream */
} crema_writer_state_t;

typedef struct {
    crema_id_t stream_id; /* zero: unknown */
    uint64_t last;        /* 0: unknown */
    uint32_t kind;        /* crema_stream_kind_t */
    uint32_t state;       /* crema_writer_state_t */
    const char *name, *uuid, *text;
    uint64_t dropped; /* records that it could not keep */
} crema_writer_t;

/* One part of a list. */
typedef struct {
    crema_id_t run_id;
    uint32_t part, parts;
    size_t n;
    const crema_writer_t *writers;
    crema_id_t owner; /* RUN_WRITERS: key of the sender, as seen by the aggregator */
} crema_writers_msg_t;

typedef struct {
    crema_id_t run_id;
    const char *path, *verdict, *error;
    int64_t revision;
    size_t n_reasons;
    const crema_reason_t *reasons;
} crema_sealed_t;

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

typedef struct {
    crema_id_t run_id;
    crema_run_phase_t phase;
    crema_refusal_t refusal; /* `error` is its text */
    const char *trouble;     /* what blocks the pipeline */
    uint32_t streams, streams_done, agents;
    uint64_t committed, missing;
    size_t n_waiting;
    const char *const *waiting_for;
    const char *path, *verdict, *error;
    size_t n_reasons;
    const crema_reason_t *reasons;
    int64_t revision, verdict_after_ns, t_now_ns;
    double processor_s, overhead_s;
    uint32_t writers_kept;
} crema_run_state_t;

typedef struct {
    crema_msg_type_t type;
    uint16_t flags;
    uint64_t session; /* aggregator's session towards agents; 0 otherwise */
    union {
        crema_hello_t hello;
        crema_data_t data; /* DATA and PUT */
        crema_heartbeat_t heartbeat;
        struct {
            uint32_t reason;
            crema_stream_table_t table;
            crema_faults_t faults;
        } bye;
        crema_welcome_t welcome;
        crema_ack_t ack;
        struct {
            crema_id_t stream_id;
            uint64_t from_seq;
        } replay;
        struct {
            uint64_t barrier_id;
            crema_id_t run_id;
        } barrier;
        struct {
            crema_fence_reason_t reason;
            uint32_t retry_after_ms;
            crema_id_t run_id; /* DISMISSED: from this run */
        } fence;
        crema_stream_table_t table; /* OPEN, COMMITTED */
        struct {
            uint64_t free_b;
            crema_stream_table_t table;
        } state;
        struct {
            crema_id_t stream_id;
        } nack;
        struct {
            uint32_t retry_after_ms;
            uint64_t free_b;
            const char *why;
            crema_id_t run_id; /* not zero: only this run has reached its limit */
        } full;
        crema_clock_sample_t clock;
        crema_run_msg_t run; /* RUN_OPEN, RUN_END, RUN_SEAL */
        crema_sealed_t sealed;
        crema_writers_msg_t writers; /* RUN_WRITERS; RUN_LISTED, which has no rows */
        struct {                     /* RUN_QUERY */
            crema_id_t query;
            uint8_t query_key[CREMA_WIRE_KEY_BYTES]; /* to be admitted; zero: none */
        };
        crema_run_state_t run_state;
    };
} crema_msg_t;

/* "HELLO", ...; "?" for an unknown number. */
const char *crema_msg_name(crema_msg_type_t type);

/* A copy with its texts and lists, in one block that free() takes; NULL texts become empty. Of a known
 * type without a table and without frames. CREMA_ENOMEM. */
CREMA_MUST_CHECK crema_err_t crema_msg_copy(const crema_msg_t *msg, crema_msg_t **ret_copy);

/* True for a CURVE public key, false for zeros. */
bool crema_wire_is_key(const uint8_t key[CREMA_WIRE_KEY_BYTES]);

/* Encodes into a buffer that the caller frees; NULL texts are empty. CREMA_ELIMIT above
 * CREMA_WIRE_MESSAGE_MAX, CREMA_WIRE_BATCH_MAX or CREMA_WIRE_TABLE_ROWS_MAX; CREMA_EINVAL for an
 * unknown type; CREMA_ENOMEM. */
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
