/* row_cell - reads and writes cells of packed rows by column name, which must exist. */
#ifndef ROW_CELL_H
#define ROW_CELL_H

#include <stdint.h>

#include "crema_columns.h"

/* Index of the column, which must exist. */
size_t cell_column(const crema_table_t *table, const char *name);

void cell_set(const crema_table_t *table, uint8_t *row, const char *name, int64_t value);
void cell_set_real(const crema_table_t *table, uint8_t *row, const char *name, double value);
/* True if the text had to be cut. */
bool cell_set_text(const crema_table_t *table, uint8_t *row, const char *name, const char *text);

int64_t cell_int(const crema_table_t *table, const uint8_t *row, const char *name);
/* Valid until the next call. */
const char *cell_text(const crema_table_t *table, const uint8_t *row, const char *name);
double cell_real(const crema_table_t *table, const uint8_t *row, const char *name);

#endif
