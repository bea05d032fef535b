/* crema_columns_doc - the table of columns as people and programs in other languages read it. */
#ifndef CREMA_COLUMNS_DOC_H
#define CREMA_COLUMNS_DOC_H

#include <stdio.h>

#include "crema_columns.h"

#define CREMA_DTYPE_TEXT 16

/* "i64", "f64", "i32", "u32", "u16", "u8", "enum", "S128" into `text`, which is returned. */
char *crema_column_dtype(const crema_column_t *column, char text[CREMA_DTYPE_TEXT]);

/* The tables of the run file, one Markdown table each: column, type, unit, meaning. */
void crema_columns_print_markdown(FILE *file);

/* The same as plain text, one line a column: table, column, type, unit, meaning, tabs between. */
void crema_columns_print_text(FILE *file);

/* docs/metrics.md: every metric, its unit, formula, meaning and source. */
void crema_metrics_print_markdown(FILE *file);

/* A Python module that holds the tables and every number of the wire, so that Python repeats none. */
void crema_columns_print_python(FILE *file);

#endif
