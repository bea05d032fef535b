/* crema_record - spool records: decodes them, and encodes for writers in C.
 *
 * Decoding takes memory from a bounded arena: at most CREMA_ARENA_FACTOR times the wire size
 * plus a constant, so a bomb is refused. Pointers in a decoded struct are valid until the next
 * use of the arena. */
#ifndef CREMA_RECORD_H
#define CREMA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_arena.h"
#include "crema_body.h"
#include "crema_columns.h"
#include "crema_error.h"
#include "crema_frame.h"

#define CREMA_NAME_MAX 512 /* bytes of a dictionary text kept; longer ones are cut and flagged */
#define CREMA_BATCH_ROWS_MAX 4096

/* Arena size that suffices for every well-formed record. */
#define CREMA_RECORD_ARENA_BYTES                                                                   \
    (CREMA_ARENA_FACTOR * (size_t)CREMA_RECORD_BODY_MAX + CREMA_ARENA_SLACK)

#define CREMA_BATCH_PROVISIONAL 1u

typedef struct {
    const crema_table_t *table;
    uint32_t rows;
    uint32_t flags;
    size_t n_int_columns; /* columns present, <= those of the table */
    size_t n_real_columns;
    const int64_t *ints; /* column-major: value of row r, column c at [c * rows + r] */
    const double *reals;
} crema_batch_t;

typedef enum { CREMA_END_FINISHED, CREMA_END_WRITER_GONE } crema_end_reason_t;

/* Wire order; /gaps.cause maps to it. Nothing writes the reserved ones. */
typedef enum {
    CREMA_LOSS_UNKNOWN,
    CREMA_LOSS_EVICTED,
    CREMA_LOSS_CORRUPT,
    CREMA_LOSS_TORN_TAIL, /* reserved */
    CREMA_LOSS_STORE_REGRESSED,
    CREMA_LOSS_AGENT_GONE, /* reserved */
    CREMA_LOSS_INVALID,    /* reserved */
    CREMA_LOSS_DISK_FULL,
} crema_loss_reason_t;

/* A record, with its body as crema.proto describes it, but for batches; encoding sets the body's
 * `base`. */
typedef struct {
    union {
        ProtobufCMessage base;
        Crema__StreamInfo stream;
        Crema__Dict dict;
        crema_batch_t batch;
        Crema__End end;   /* reason: crema_end_reason_t */
        Crema__Loss loss; /* reason: crema_loss_reason_t */
    };
    crema_record_type_t type;
} crema_record_t;

/* CREMA_EPROTO: undecodable, unknown type or table, column counts that do not match the rows,
 * text that is not UTF-8; CREMA_ELIMIT: above a limit. Additions of newer writers are ignored:
 * columns after the last known one, entries of unknown dictionaries; an unknown loss reason
 * becomes CREMA_LOSS_UNKNOWN, an unknown end reason CREMA_END_WRITER_GONE. */
CREMA_MUST_CHECK crema_err_t crema_record_decode(const crema_frame_t *frame, crema_arena_t *arena,
                                                 crema_record_t *ret_record);

/* True if the frame is a BATCH of that table, judged by the first bytes of its body without any
 * validation: a quick test before decoding. */
bool crema_record_is_batch_of(const crema_frame_t *frame, crema_table_id_t table);

/* Encodes header and body of one frame into buf. CREMA_ELIMIT if it does not fit or has more than
 * CREMA_BATCH_ROWS_MAX rows, CREMA_EINVAL for a batch with more columns than its table. */
CREMA_MUST_CHECK crema_err_t crema_record_encode(const crema_record_t *record, uint64_t seq,
                                                 int64_t t_ns, uint8_t *buf, size_t size,
                                                 size_t *ret_bytes);

/* Writes what was sent of rows first..first+n of the batch into `n` cleared, packed rows of its
 * table, with dictionary columns mapped by `map(context, kind, local_id)`. A local id outside
 * 0..2^32-2 means "none": it is not mapped and becomes 0xFFFFFFFF. Wire-only columns are read with
 * crema_batch_int() and crema_batch_real(). first + n <= batch->rows; a block of rows is as many as
 * stay in the processor's first cache. */
#define CREMA_BATCH_BLOCK 64
typedef uint32_t (*crema_dict_map_fn)(void *context, crema_dict_t kind, int64_t local_id);
void crema_batch_rows(const crema_batch_t *batch, uint32_t first, uint32_t n, crema_dict_map_fn map,
                      void *context, uint8_t *rows);

/* Value of an integer (or real) column of row r, by the column's index in the table; `missing` if
 * the writer did not send it. */
int64_t crema_batch_int(const crema_batch_t *batch, uint32_t r, size_t column, int64_t missing);
double crema_batch_real(const crema_batch_t *batch, uint32_t r, size_t column, double missing);

#endif
