#include "sink_check_cell.h"

#include <math.h>
#include <string.h>

#include "crema_utf8.h"
#include "sink_bound.h"

#define NAME_COLUMN 1 /* after the id; of a stream its uuid */

/* ---- values */

static size_t
s_labels(const crema_column_t *column)
{
    size_t n = 1;
    for (const char *at = column->labels; *at; at++)
        n += *at == ',';
    return n;
}

bool
sink_check_is_text(const char *field, size_t size)
{
    size_t n = strnlen(field, size);
    for (size_t i = n; i < size; i++)
        if (field[i] != '\0')
            return false;
    return crema_utf8_valid(field, n);
}

/* worker_id is a row of /dict/worker. */
static crema_table_id_t
s_table_of(const crema_column_t *column)
{
    const size_t n = strlen(column->name);
    if (strcmp(column->name, "chunk_row") == 0)
        return CREMA_TABLE_CHUNKS;
    if (column->type != CREMA_T_U32 || n < 4 || strcmp(column->name + n - 3, "_id") != 0)
        return CREMA_TABLE_COUNT;
    int t = 0;
    for (; t < CREMA_TABLE_COUNT; t++) {
        const char *path = crema_table((crema_table_id_t)t)->path;
        if (strncmp(path, "dict/", 5) == 0 && strlen(path) == n - 3 + 5 &&
            memcmp(path + 5, column->name, n - 3) == 0)
            break;
    }
    return (crema_table_id_t)t;
}

/* Points in time, counts and bytes are never negative, except for what stands for unknown. */
static bool
s_is_amount(const crema_column_t *column)
{
    if (column->type == CREMA_T_I32)
        return true;
    return column->type == CREMA_T_I64 && strcmp(column->name, "offset_ns") != 0 &&
           (strcmp(column->units, "ns") == 0 || strcmp(column->units, "count") == 0 ||
            strcmp(column->units, "B") == 0 || strcmp(column->name, "seq") == 0);
}

/* What the sink takes of a writer; of what it computes, anything that is finite. */
static void
s_bound_real(const crema_table_t *table, size_t column, sink_check_range_t *range)
{
    const sink_bound_t bound = sink_bound_of(table);
    range->from = -HUGE_VAL;
    range->to = HUGE_VAL;
    for (uint8_t i = 0; i < bound.n; i++)
        if (bound.columns[i].column == column) {
            range->from = (double)bound.columns[i].from;
            range->to = (double)bound.columns[i].below;
        }
}

sink_check_range_t
sink_check_range(const crema_table_t *table, size_t i, const uint64_t rows[CREMA_TABLE_COUNT],
                 bool older, bool newer)
{
    const crema_column_t *column = &table->columns[i];
    sink_check_range_t range = {
        .below = INT64_MAX, .unknown = column->unknown, .of = s_table_of(column)};
    if (range.of != CREMA_TABLE_COUNT) {
        range.below = (int64_t)rows[range.of];
        range.unknown = UINT32_MAX;
    } else if (column->type == CREMA_T_ENUM) {
        range.below = (int64_t)s_labels(column);
        range.unknown = 0;
    } else if (column->type == CREMA_T_F64) {
        s_bound_real(table, i, &range);
    }
    range.is_bounded = range.of != CREMA_TABLE_COUNT || s_is_amount(column) ||
                       (column->type == CREMA_T_ENUM && !newer) ||
                       (column->type == CREMA_T_F64 && table->id != CREMA_TABLE_CUSTOM && !older);
    return range;
}

bool
sink_check_integer(const sink_check_range_t *range, int64_t value)
{
    return !range->is_bounded || value == range->unknown || (value >= 0 && value < range->below);
}

bool
sink_check_real(const sink_check_range_t *range, double value)
{
    return !range->is_bounded || isnan(value) ||
           (isfinite(value) && value >= range->from && value < range->to);
}

/* ---- names */

/* Appends the text of a column to a key, with a NUL behind it. */
static size_t
s_append(char *key, size_t used, const crema_table_t *table, const uint8_t *row, int column)
{
    const char *field = (const char *)row + crema_table_offset(table, (size_t)column);
    const size_t n = strnlen(field, table->columns[column].size);
    memcpy(key + used, field, n);
    key[used + n] = '\0';
    return used + n + 1;
}

/* Appends the bytes of a column of numbers. */
static size_t
s_append_number(char *key, size_t used, const crema_table_t *table, const uint8_t *row,
                const char *column)
{
    const size_t i = (size_t)crema_table_column(table, column);
    memcpy(key + used, row + crema_table_offset(table, i), sizeof(uint32_t));
    return used + sizeof(uint32_t);
}

/* What tells the rows of a dictionary apart: name and uuid, of a frame its function and line too,
 * of a stack its caller and its frame. */
static size_t
s_key(char *key, const crema_table_t *table, const uint8_t *row)
{
    if (table->id == CREMA_TABLE_DICT_STACK) {
        size_t size = s_append_number(key, 0, table, row, "parent_id");
        return s_append_number(key, size, table, row, "frame_id");
    }
    size_t size = s_append(key, 0, table, row, NAME_COLUMN);
    const int uuid = crema_table_column(table, "uuid");
    if (uuid > NAME_COLUMN)
        size = s_append(key, size, table, row, uuid);
    if (table->id == CREMA_TABLE_DICT_FRAME) {
        size = s_append(key, size, table, row, crema_table_column(table, "function"));
        size = s_append_number(key, size, table, row, "line");
    }
    return size;
}

/* Workers and spans are known by their uuid, and may lack a name; stacks have none. */
static bool
s_lacks_name(const crema_table_t *table, const uint8_t *row, int64_t hash)
{
    static const char c_none[3]; /* name, uuid and host of an entry that has none of them */
    const bool nameless = table->id == CREMA_TABLE_DICT_WORKER ||
                          table->id == CREMA_TABLE_DICT_SPAN || table->id == CREMA_TABLE_DICT_STACK;
    return !nameless && row[crema_table_offset(table, NAME_COLUMN)] == '\0' &&
           hash != (int64_t)sink_hash(0, c_none, sizeof c_none);
}

crema_err_t
sink_check_name(sink_intern_t *names, const crema_table_t *table, const uint8_t *row,
                const char **ret_wrong)
{
    char key[2 * CREMA_ROW_BYTES_MAX];
    uint32_t number;
    bool fresh;
    const int64_t hash = crema_row_get_i64(table, row, table->n_columns - 1);
    size_t size = s_key(key, table, row);
    if (crema_row_get_i64(table, row, table->n_columns - 2) !=
        0) { /* truncated: the rest differs */
        memcpy(key + size, &hash, sizeof hash);
        size += sizeof hash;
    }
    crema_err_t err = sink_intern_add(names, key, size, &number, &fresh);
    if (err != CREMA_OK)
        return err;
    *ret_wrong = s_lacks_name(table, row, hash) ? "has no name"
                 : fresh                        ? NULL
                                                : "has the name of another row";
    return CREMA_OK;
}
