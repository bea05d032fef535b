/* Rows and values of a batch. */
#include <assert.h>

#include "crema_bytes.h"
#include "crema_record.h"

/* Rows of one writer share most names, so the same number stands in series. */
static void
s_set_ids(crema_dict_map_fn map, void *context, crema_dict_t kind, const int64_t *locals,
          uint32_t n, uint8_t *at, size_t row_bytes)
{
    for (uint32_t r = 0; r < n;) {
        const int64_t local = locals[r];
        const uint32_t id =
            local < 0 || local >= UINT32_MAX ? UINT32_MAX : map(context, kind, local);
        for (; r < n && locals[r] == local; r++, at += row_bytes)
            crema_put_u32(at, id);
    }
}

/* Column by column, as they came. */
void
crema_batch_rows(const crema_batch_t *batch, uint32_t first, uint32_t n, crema_dict_map_fn map,
                 void *context, uint8_t *rows)
{
    const crema_table_t *table = batch->table;
    size_t n_ints = 0, n_reals = 0; /* columns passed */
    assert(first + n <= batch->rows);
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        if (column->origin == CREMA_FROM_SINK)
            continue;
        bool real = column->type == CREMA_T_F64;
        size_t at = real ? n_reals++ : n_ints++;
        bool sent = at < (real ? batch->n_real_columns : batch->n_int_columns);
        if (column->origin == CREMA_FROM_WIRE_ONLY || !sent)
            continue;
        at = at * batch->rows + first;
        if (real)
            crema_rows_set_f64(table, rows, i, batch->reals + at, n);
        else if (column->origin == CREMA_FROM_DICT)
            s_set_ids(map, context, column->dict, batch->ints + at, n,
                      rows + crema_table_offset(table, i), crema_table_row_bytes(table));
        else
            crema_rows_set_i64(table, rows, i, batch->ints + at, n);
    }
}

int64_t
crema_batch_int(const crema_batch_t *batch, uint32_t r, size_t column, int64_t missing)
{
    assert(batch->table->columns[column].type != CREMA_T_F64);
    int wire = crema_table_wire_index(batch->table, column);
    return wire >= 0 && (size_t)wire < batch->n_int_columns
               ? batch->ints[(size_t)wire * batch->rows + r]
               : missing;
}

double
crema_batch_real(const crema_batch_t *batch, uint32_t r, size_t column, double missing)
{
    assert(batch->table->columns[column].type == CREMA_T_F64);
    int wire = crema_table_wire_index(batch->table, column);
    return wire >= 0 && (size_t)wire < batch->n_real_columns
               ? batch->reals[(size_t)wire * batch->rows + r]
               : missing;
}
