#include "row_cell.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "crema_utf8.h"

size_t
cell_column(const crema_table_t *table, const char *name)
{
    int i = crema_table_column(table, name);
    assert(i >= 0);
    return (size_t)i;
}

void
cell_set(const crema_table_t *table, uint8_t *row, const char *name, int64_t value)
{
    crema_row_set_i64(table, row, cell_column(table, name), value);
}

void
cell_set_real(const crema_table_t *table, uint8_t *row, const char *name, double value)
{
    crema_rows_set_f64(table, row, cell_column(table, name), &value, 1);
}

bool
cell_set_text(const crema_table_t *table, uint8_t *row, const char *name, const char *text)
{
    const size_t i = cell_column(table, name);
    return crema_utf8_fit(text, (char *)row + crema_table_offset(table, i), table->columns[i].size);
}

int64_t
cell_int(const crema_table_t *table, const uint8_t *row, const char *name)
{
    return crema_row_get_i64(table, row, cell_column(table, name));
}

double
cell_real(const crema_table_t *table, const uint8_t *row, const char *name)
{
    return crema_row_get_f64(table, row, cell_column(table, name));
}

const char *
cell_text(const crema_table_t *table, const uint8_t *row, const char *name)
{
    static char text[CREMA_ROW_BYTES_MAX];
    const size_t i = cell_column(table, name), size = table->columns[i].size;
    memcpy(text, row + crema_table_offset(table, i), size);
    text[size] = '\0';
    return text;
}
