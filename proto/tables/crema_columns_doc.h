/* crema_columns_doc - the table of columns as text for people. */
#ifndef CREMA_COLUMNS_DOC_H
#define CREMA_COLUMNS_DOC_H

#include <stdio.h>

#include "crema_columns.h"

#define CREMA_DTYPE_TEXT 16

/* "i64", "f64", "i32", "u32", "u16", "u8", "enum", "S128" into `text`, which is returned. */
char *crema_column_dtype(const crema_column_t *column, char text[CREMA_DTYPE_TEXT]);

/* The tables of the run file as Markdown tables: column, type, unit, meaning. */
void crema_columns_print_markdown(FILE *file);

/* The same as plain text, one line per column: table, column, type, unit, meaning, separated by
 * tabs. */
void crema_columns_print_text(FILE *file);

#endif
