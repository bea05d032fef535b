#include "crema_columns.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "crema_bytes.h"

/* Each table's columns, then the tables. */
#define TABLE(ID, name, ...) static const crema_column_t c_##name[] = {
#define COLUMN(member, name, type, bytes, origin, dict, unknown, units, labels, meaning)           \
    {name, CREMA_T_##type, bytes, CREMA_FROM_##origin, dict, unknown, units, labels, meaning},
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "crema_columns.def"

#define TABLE(ID, name, path, kind, live, final, description)                                      \
    [CREMA_TABLE_##ID] = {CREMA_TABLE_##ID,                                                        \
                          path,                                                                    \
                          CREMA_KIND_##kind,                                                       \
                          live,                                                                    \
                          final,                                                                   \
                          description,                                                             \
                          c_##name,                                                                \
                          sizeof c_##name / sizeof c_##name[0]},
#define COLUMN(...)
#define END(name)
static const crema_table_t s_tables[CREMA_TABLE_COUNT] = {
#include "crema_columns.def"
};

/* The structs are the rows. */
#define TABLE(ID, name, ...)                                                                       \
    static_assert(sizeof(crema_##name##_row_t) ==                                                  \
                      0
#define COLUMN(member, name, type, bytes, ...) +bytes
#define END(name)                                                                                  \
    , "a packed row");
#include "crema_columns.def"

/* Of any table above; the layouts below hold that many. */
#define COLUMNS_MAX 64
#define ROW_BYTES_MAX 640

/* Derived from the declarations: the position of each column in a row and in a Batch. */
typedef struct {
    uint16_t offset[COLUMNS_MAX + 1]; /* of each column, and the size of the row */
    /* index among the integer or real wire columns; -1: not on the wire */
    int8_t wire[COLUMNS_MAX];
    uint8_t n_ints, n_reals;      /* wire columns */
    uint8_t blank[ROW_BYTES_MAX]; /* a row of unknown values */
} layout_t;

static layout_t s_layouts[CREMA_TABLE_COUNT];

static void
s_put_f64(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    crema_put_u64(at, bits);
}

static void
s_put_unknown(const crema_column_t *column, uint8_t *at)
{
    switch (column->type) {
    case CREMA_T_F64:
        s_put_f64(at, NAN);
        break;
    case CREMA_T_I64:
        crema_put_u64(at, (uint64_t)column->unknown);
        break;
    case CREMA_T_I32:
    case CREMA_T_U32:
    case CREMA_T_U16:
        memset(at, 0xff, column->size);
        break;
    case CREMA_T_U8:
    case CREMA_T_ENUM:
    case CREMA_T_STR:
        memset(at, 0, column->size);
    }
}

static void
s_lay_out_table(const crema_table_t *table, layout_t *layout)
{
    assert(table->n_columns <= COLUMNS_MAX);
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        layout->offset[i + 1] = (uint16_t)(layout->offset[i] + column->size);
        assert(layout->offset[i + 1] <= ROW_BYTES_MAX);
        if (column->size)
            s_put_unknown(column, layout->blank + layout->offset[i]);
        if (column->origin == CREMA_FROM_SINK)
            layout->wire[i] = -1;
        else if (column->type == CREMA_T_F64)
            layout->wire[i] = (int8_t)layout->n_reals++;
        else
            layout->wire[i] = (int8_t)layout->n_ints++;
    }
}

/* Runs once before main(), so that every reader finds complete layouts. */
__attribute__((constructor)) static void
s_lay_out(void)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++)
        s_lay_out_table(&s_tables[t], &s_layouts[t]);
}

const crema_table_t *
crema_table(crema_table_id_t id)
{
    return (unsigned)id < CREMA_TABLE_COUNT ? &s_tables[id] : NULL;
}

size_t
crema_table_row_bytes(const crema_table_t *table)
{
    return s_layouts[table->id].offset[table->n_columns];
}

size_t
crema_table_offset(const crema_table_t *table, size_t i)
{
    return s_layouts[table->id].offset[i];
}

int
crema_table_column(const crema_table_t *table, const char *name)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return (int)i;
    return -1;
}

void
crema_table_wire_columns(const crema_table_t *table, size_t *ret_ints, size_t *ret_reals)
{
    *ret_ints = s_layouts[table->id].n_ints;
    *ret_reals = s_layouts[table->id].n_reals;
}

int
crema_table_wire_index(const crema_table_t *table, size_t column)
{
    return s_layouts[table->id].wire[column];
}

static_assert(CREMA_TABLE_DICT_STACK - CREMA_TABLE_DICT_WORKER == CREMA_DICT_STACK &&
                  CREMA_DICT_STACK == CREMA_DICT_COUNT - 1,
              "a table per dictionary, in their order");

crema_table_id_t
crema_dict_table(crema_dict_t kind)
{
    return kind == CREMA_DICT_STREAM ? CREMA_TABLE_DICT_STREAM
                                     : (crema_table_id_t)(CREMA_TABLE_DICT_WORKER + (int)kind);
}

void
crema_row_clear(const crema_table_t *table, uint8_t *row)
{
    memcpy(row, s_layouts[table->id].blank, crema_table_row_bytes(table));
}

void
crema_rows_set_i64(const crema_table_t *table, uint8_t *rows, size_t column, const int64_t *values,
                   size_t n)
{
    const size_t size = crema_table_row_bytes(table);
    uint8_t *at = rows + crema_table_offset(table, column);
    assert(table->columns[column].size != 0);
    switch (table->columns[column].type) {
    case CREMA_T_I64:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u64(at, (uint64_t)values[r]);
        break;
    case CREMA_T_I32:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u32(at, values[r] >= INT32_MIN && values[r] <= INT32_MAX ? (uint32_t)values[r]
                                                                               : UINT32_MAX);
        break;
    case CREMA_T_U32:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u32(at, values[r] >= 0 && values[r] <= UINT32_MAX ? (uint32_t)values[r]
                                                                        : UINT32_MAX);
        break;
    case CREMA_T_U16:
        for (size_t r = 0; r < n; r++, at += size)
            crema_put_u16(at, values[r] >= 0 && values[r] <= UINT16_MAX ? (uint16_t)values[r]
                                                                        : UINT16_MAX);
        break;
    case CREMA_T_U8:
    case CREMA_T_ENUM:
        for (size_t r = 0; r < n; r++, at += size)
            at[0] = values[r] >= 0 && values[r] <= UINT8_MAX ? (uint8_t)values[r] : UINT8_MAX;
        break;
    case CREMA_T_F64:
    case CREMA_T_STR:
        assert(!"an integer column");
    }
}

void
crema_row_set_i64(const crema_table_t *table, uint8_t *row, size_t column, int64_t value)
{
    crema_rows_set_i64(table, row, column, &value, 1);
}

int64_t
crema_row_get_i64(const crema_table_t *table, const uint8_t *row, size_t column)
{
    const uint8_t *at = row + crema_table_offset(table, column);
    switch (table->columns[column].type) {
    case CREMA_T_I64:
        return (int64_t)crema_get_u64(at);
    case CREMA_T_I32:
        return (int32_t)crema_get_u32(at);
    case CREMA_T_U32:
        return crema_get_u32(at);
    case CREMA_T_U16:
        return crema_get_u16(at);
    case CREMA_T_U8:
    case CREMA_T_ENUM:
        return at[0];
    case CREMA_T_F64:
    case CREMA_T_STR:
        break;
    }
    assert(!"an integer column");
    return 0;
}

void
crema_rows_set_f64(const crema_table_t *table, uint8_t *rows, size_t column, const double *values,
                   size_t n)
{
    const size_t size = crema_table_row_bytes(table);
    uint8_t *at = rows + crema_table_offset(table, column);
    assert(table->columns[column].type == CREMA_T_F64);
    for (size_t r = 0; r < n; r++, at += size)
        s_put_f64(at, values[r]);
}

double
crema_row_get_f64(const crema_table_t *table, const uint8_t *row, size_t column)
{
    assert(table->columns[column].type == CREMA_T_F64);
    uint64_t bits = crema_get_u64(row + crema_table_offset(table, column));
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

const char *
crema_side_name(crema_side_t side)
{
#define X(prefix, name, label) #label,
    static const char *const names[] = {CREMA_LABELS_SIDE(X)};
#undef X
    return (unsigned)side < CREMA_SIDE_COUNT ? names[side] : "?";
}
