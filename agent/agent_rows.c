#include "agent_rows.h"

#include <stdlib.h>

struct agent_rows {
    const crema_table_t *table;
    size_t stride; /* bytes per row */
    uint32_t n;
    uint8_t *rows; /* packed */
    int64_t *ints; /* columns of the record */
    double *reals;
};

crema_err_t
agent_rows_new(crema_table_id_t table, agent_rows_t **ret_self)
{
    if (table >= CREMA_TABLE_WIRE_COUNT)
        return CREMA_EINVAL;
    agent_rows_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    self->table = crema_table(table);
    self->stride = crema_table_row_bytes(self->table);
    self->rows = malloc(AGENT_ROWS_MAX * self->stride);
    self->ints = calloc(AGENT_ROWS_MAX * self->table->n_columns, sizeof *self->ints);
    self->reals = calloc(AGENT_ROWS_MAX * self->table->n_columns, sizeof *self->reals);
    if (!self->rows || !self->ints || !self->reals) {
        agent_rows_destroy(&self);
        return CREMA_ENOMEM;
    }
    *ret_self = self;
    return CREMA_OK;
}

void
agent_rows_destroy(agent_rows_t **self_p)
{
    agent_rows_t *self = *self_p;
    if (!self)
        return;
    free(self->rows);
    free(self->ints);
    free(self->reals);
    free(self);
    *self_p = NULL;
}

uint32_t
agent_rows_count(const agent_rows_t *self)
{
    return self->n;
}

void *
agent_rows_add(agent_rows_t *self)
{
    if (self->n == AGENT_ROWS_MAX)
        return NULL;
    uint8_t *row = self->rows + self->n++ * self->stride;
    crema_row_clear(self->table, row);
    return row;
}

/* Converts packed rows to columns, integers and reals separately. A column that exists only on
 * the wire is unknown. */
static crema_batch_t
s_batch(const agent_rows_t *self)
{
    crema_batch_t batch = {
        .table = self->table, .rows = self->n, .ints = self->ints, .reals = self->reals};
    for (size_t c = 0; c < self->table->n_columns; c++) {
        const crema_column_t *column = &self->table->columns[c];
        if (column->origin == CREMA_FROM_SINK)
            continue;
        bool real = column->type == CREMA_T_F64, sent = column->origin != CREMA_FROM_WIRE_ONLY;
        for (uint32_t r = 0; r < self->n; r++) {
            const uint8_t *row = self->rows + r * self->stride;
            if (real)
                self->reals[batch.n_real_columns * self->n + r] =
                    sent ? crema_row_get_f64(self->table, row, c) : 0;
            else
                self->ints[batch.n_int_columns * self->n + r] =
                    sent ? crema_row_get_i64(self->table, row, c) : 0;
        }
        batch.n_real_columns += real;
        batch.n_int_columns += !real;
    }
    return batch;
}

crema_err_t
agent_rows_write(agent_rows_t *self, crema_spool_writer_t *writer, int64_t mono_ns)
{
    if (self->n == 0)
        return CREMA_OK;
    crema_record_t record = {.type = CREMA_RECORD_BATCH, .batch = s_batch(self)};
    self->n = 0;
    return crema_spool_writer_append(writer, &record, mono_ns);
}
