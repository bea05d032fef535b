/* sink_cell - reads and writes cells of packed rows by column name, for the few rows of a
 * summary and for tests. Pure: a name that is not a column of the table is a programming error. */
#ifndef SINK_CELL_H
#define SINK_CELL_H

#include <stdint.h>

#include "crema_columns.h"

/* Enough for the widest row. */
#define SINK_ROW_BYTES_MAX 1024

/* Index of the column, which must exist. */
size_t sink_cell_column(const crema_table_t *table, const char *name);

void sink_cell_set(const crema_table_t *table, uint8_t *row, const char *name, int64_t value);
void sink_cell_set_real(const crema_table_t *table, uint8_t *row, const char *name, double value);
/* True if the text had to be cut. */
bool sink_cell_set_text(const crema_table_t *table, uint8_t *row, const char *name,
                        const char *text);

int64_t sink_cell_int(const crema_table_t *table, const uint8_t *row, const char *name);
double sink_cell_real(const crema_table_t *table, const uint8_t *row, const char *name);

#endif
