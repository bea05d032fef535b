/* crema_columns_doc - prints the table of columns for people and for other languages. */
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

/* A Python module with the tables and all wire numbers, so that Python does not duplicate them. */
void crema_columns_print_python(FILE *file);

#endif
