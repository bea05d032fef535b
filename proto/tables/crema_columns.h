/* crema_columns - the table of columns, the contract of the run file. Pure: constant data and
 * arithmetic on it.
 *
 * Each table of the run file is declared once, in crema_columns.def: name, type, unit, meaning and
 * where a value comes from. The wire codec, the HDF5 compound type, /schema/columns, the Python
 * hook's column order and the reference page follow from it. Rows in memory have the packed
 * little-endian layout of the file, so they are written as they are. */
#ifndef CREMA_COLUMNS_H
#define CREMA_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"
#include "crema_labels.h"

typedef enum {
    CREMA_T_I64,
    CREMA_T_F64,
    CREMA_T_I32,
    CREMA_T_U32,
    CREMA_T_U16,
    CREMA_T_U8,
    CREMA_T_ENUM, /* u8 with labels */
    CREMA_T_STR,  /* UTF-8, NUL-padded to `size` */
} crema_type_t;

/* Where a column's value comes from. */
typedef enum {
    CREMA_FROM_WIRE, /* the writer sends it */
    /* the writer sends a stream-local dictionary id; the sink stores the run's id */
    CREMA_FROM_DICT,
    CREMA_FROM_SINK,      /* the sink fills it in */
    CREMA_FROM_WIRE_ONLY, /* the writer sends it, the file does not hold it */
} crema_origin_t;

/* Dictionaries, in the order of DictEntry.kind. */
typedef enum {
    CREMA_DICT_WORKER,
    CREMA_DICT_TASK_PREFIX,
    CREMA_DICT_ACTIVITY,
    CREMA_DICT_UNIT,
    CREMA_DICT_METRIC,
    CREMA_DICT_SPAN,
    CREMA_DICT_DATASET,
    CREMA_DICT_FILE,
    CREMA_DICT_SECTION,
    CREMA_DICT_BRANCH,
    CREMA_DICT_PLACE,
    CREMA_DICT_FRAME,
    CREMA_DICT_STACK,
    CREMA_DICT_COUNT,
    CREMA_DICT_STREAM = CREMA_DICT_COUNT, /* created by the sink, never on the wire */
} crema_dict_t;

/* CREMA_TABLE_CHUNKS and so on, in the order of their declarations. */
typedef enum {
#define TABLE(ID, ...) CREMA_TABLE_##ID,
#define COLUMN(...)
#define END(name)
#include "crema_columns.def"
    CREMA_TABLE_COUNT,
} crema_table_id_t;

#define CREMA_TABLE_WIRE_COUNT CREMA_TABLE_GAPS /* tables from here on are never sent in a Batch */

typedef struct {
    const char *name;
    crema_type_t type;
    uint16_t size; /* bytes in the row; 0 for CREMA_FROM_WIRE_ONLY */
    crema_origin_t origin;
    crema_dict_t dict;   /* for CREMA_FROM_DICT */
    int64_t unknown;     /* of an integer column; all ones in the types without a sign */
    const char *units;   /* ns s B 1 % 1/s count Gbit/s bits unit_id */
    const char *labels;  /* of CREMA_T_ENUM, joined by commas, numbered from 0; else NULL */
    const char *meaning; /* a phrase for the file and the reference page */
} crema_column_t;

typedef enum {
    CREMA_KIND_STREAM,  /* live and final; rows end with seq, t_recv_ns, stream_id */
    CREMA_KIND_ACCOUNT, /* live and final */
    CREMA_KIND_DICT,    /* live and final */
    CREMA_KIND_SUMMARY, /* final only */
} crema_table_kind_t;

typedef struct {
    crema_table_id_t id;
    const char *path; /* in the file, without leading slash: "dict/worker" */
    crema_table_kind_t kind;
    uint32_t live_chunk_rows;
    uint32_t final_chunk_rows; /* 0: contiguous, no filter */
    const char *description;
    const crema_column_t *columns;
    size_t n_columns;
} crema_table_t;

/* A packed row of each table: crema_chunks_row_t and so on. Rows are read and written through them
 * in place; the machine is little-endian. */
#define CREMA_FIELD_I64(member, bytes) int64_t member;
#define CREMA_FIELD_F64(member, bytes) double member;
#define CREMA_FIELD_I32(member, bytes) int32_t member;
#define CREMA_FIELD_U32(member, bytes) uint32_t member;
#define CREMA_FIELD_U16(member, bytes) uint16_t member;
#define CREMA_FIELD_U8(member, bytes) uint8_t member;
#define CREMA_FIELD_ENUM(member, bytes) uint8_t member;
#define CREMA_FIELD_STR(member, bytes) char member[bytes];
#define CREMA_IN_ROW_WIRE(type, member, bytes) CREMA_FIELD_##type(member, bytes)
#define CREMA_IN_ROW_DICT(type, member, bytes) CREMA_FIELD_##type(member, bytes)
#define CREMA_IN_ROW_SINK(type, member, bytes) CREMA_FIELD_##type(member, bytes)
#define CREMA_IN_ROW_WIRE_ONLY(type, member, bytes)
#define TABLE(ID, name, ...) typedef struct __attribute__((packed, may_alias)) {
#define COLUMN(member, name, type, bytes, origin, ...) CREMA_IN_ROW_##origin(type, member, bytes)
#define END(name)                                                                                  \
    }                                                                                              \
    crema_##name##_row_t;
#include "crema_columns.def"

/* Enough for the widest row. */
#define CREMA_ROW_BYTES_MAX 1024

/* id < CREMA_TABLE_COUNT, else NULL. */
const crema_table_t *crema_table(crema_table_id_t id);

/* Bytes of one packed row. */
size_t crema_table_row_bytes(const crema_table_t *table);

/* Byte offset of column `i` in a packed row; for i == n_columns the size of the row. */
size_t crema_table_offset(const crema_table_t *table, size_t i);

/* Index of a column, or -1. */
int crema_table_column(const crema_table_t *table, const char *name);

/* How many integer and real columns a Batch of this table carries (origins WIRE, DICT and
 * WIRE_ONLY). */
void crema_table_wire_columns(const crema_table_t *table, size_t *ret_ints, size_t *ret_reals);

/* Where a Batch carries a column: its number among the integer columns, or among the real ones if
 * it is CREMA_T_F64; -1 if the writer does not send it. */
int crema_table_wire_index(const crema_table_t *table, size_t column);

/* The dictionary table of a kind: CREMA_DICT_WORKER -> dict/worker. */
crema_table_id_t crema_dict_table(crema_dict_t kind);

/* Fills one packed row with the type's "unknown": NaN, -1, 0 for _ns and hashes, all ones for ids
 * and u16, 0 otherwise. */
void crema_row_clear(const crema_table_t *table, uint8_t *row);

/* Field access by column index, converting between C types and the packed layout. Integers cover
 * every type but CREMA_T_F64 and CREMA_T_STR; one that the column cannot hold becomes all ones
 * ("unknown"; 255 for u8 and enums). CREMA_FROM_WIRE_ONLY columns have no place in a row. `rows`:
 * n packed rows, one behind the other. */
void crema_row_set_i64(const crema_table_t *table, uint8_t *row, size_t column, int64_t value);
void crema_rows_set_i64(const crema_table_t *table, uint8_t *rows, size_t column,
                        const int64_t *values, size_t n);
int64_t crema_row_get_i64(const crema_table_t *table, const uint8_t *row, size_t column);
void crema_rows_set_f64(const crema_table_t *table, uint8_t *rows, size_t column,
                        const double *values, size_t n);
double crema_row_get_f64(const crema_table_t *table, const uint8_t *row, size_t column);

/* "processor", ...; "?" out of range. */
const char *crema_side_name(crema_side_t side);

#endif
