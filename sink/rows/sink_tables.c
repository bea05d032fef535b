#include "sink_tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sink_attempt.h"
#include "sink_both.h"

struct sink_tables {
    char *spill_dir;
    sink_rows_t *rows[CREMA_TABLE_COUNT];
};

crema_err_t
sink_tables_new(const char *spill_dir, sink_tables_t **ret_self)
{
    sink_tables_t *self = calloc(1, sizeof *self);
    if (!self)
        return CREMA_ENOMEM;
    crema_err_t err = (self->spill_dir = strdup(spill_dir)) ? CREMA_OK : CREMA_ENOMEM;
    for (int t = 0; t < CREMA_TABLE_COUNT && err == CREMA_OK; t++)
        err = sink_rows_new(crema_table_row_bytes(crema_table((crema_table_id_t)t)),
                            self->spill_dir, &self->rows[t]);
    if (err != CREMA_OK)
        sink_tables_destroy(&self);
    else
        *ret_self = self;
    return err;
}

void
sink_tables_destroy(sink_tables_t **self_p)
{
    sink_tables_t *self = *self_p;
    if (!self)
        return;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++)
        sink_rows_destroy(&self->rows[t]);
    free(self->spill_dir);
    free(self);
    *self_p = NULL;
}

crema_err_t
sink_tables_add(sink_tables_t *self, crema_table_id_t table, const void *row)
{
    return sink_rows_add(self->rows[table], row);
}

crema_err_t
sink_tables_append(sink_tables_t *self, crema_table_id_t table, const uint8_t *rows, size_t n)
{
    return sink_rows_append(self->rows[table], rows, n);
}

const char *
sink_tables_dir(const sink_tables_t *self)
{
    return self->spill_dir;
}

sink_rows_t *
sink_tables_rows(const sink_tables_t *self, crema_table_id_t table)
{
    return self->rows[table];
}

/* What one core sorts. */
typedef struct {
    sink_tables_t *tables;
    bool has[CREMA_TABLE_COUNT];
    size_t rows;
    crema_err_t err;
} pile_t;

static void
s_sort_pile(void *context)
{
    pile_t *pile = context;
    for (int t = 0; t < CREMA_TABLE_COUNT && pile->err == CREMA_OK; t++)
        if (pile->has[t])
            pile->err = sink_rows_sort(pile->tables->rows[t], crema_table((crema_table_id_t)t));
}

static void
s_number_chunks(void *context)
{
    pile_t *pile = context;
    sink_tables_t *self = pile->tables;
    pile->err = sink_attempts_number(self->rows[CREMA_TABLE_CHUNKS],
                                     self->rows[CREMA_TABLE_DICT_STREAM], self->spill_dir);
}

static void
s_number_tasks(void *context)
{
    pile_t *pile = context;
    sink_tables_t *self = pile->tables;
    pile->err = sink_attempts_number_tasks(self->rows[CREMA_TABLE_TASK_EVENTS], self->spill_dir);
}

crema_err_t
sink_tables_sort(sink_tables_t *self)
{
    pile_t left = {.tables = self}, right = left;
    for (int t = 0; t < CREMA_TABLE_COUNT; t++) {
        pile_t *lower = left.rows <= right.rows ? &left : &right;
        lower->has[t] = true;
        lower->rows += sink_rows_count(self->rows[t]);
        sink_rows_trim(self->rows[t]);
    }
    sink_both(s_sort_pile, &left, s_sort_pile, &right);
    if (left.err == CREMA_OK && right.err == CREMA_OK)
        sink_both(s_number_chunks, &left, s_number_tasks, &right);
    return left.err == CREMA_OK ? right.err : left.err;
}

crema_err_t
sink_tables_add_dict(sink_tables_t *self, const sink_dict_t *dict)
{
    crema_err_t err = CREMA_OK;
    for (int t = CREMA_TABLE_DICT_STREAM; t <= CREMA_TABLE_DICT_STACK && err == CREMA_OK; t++) {
        crema_table_id_t id = (crema_table_id_t)t;
        const size_t n = sink_dict_count(dict, id);
        if (n > 0) /* an empty dictionary has no rows to point to */
            err = sink_rows_append(self->rows[t], sink_dict_row(dict, id, 0), n);
    }
    return err;
}
