#include "crema_columns_doc.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

char *
crema_column_dtype(const crema_column_t *column, char text[CREMA_DTYPE_TEXT])
{
    static const char *const names[] = {
        [CREMA_T_I64] = "i64",   [CREMA_T_F64] = "f64", [CREMA_T_I32] = "i32",
        [CREMA_T_U32] = "u32",   [CREMA_T_U16] = "u16", [CREMA_T_U8] = "u8",
        [CREMA_T_ENUM] = "enum",
    };
    if (column->type == CREMA_T_STR)
        snprintf(text, CREMA_DTYPE_TEXT, "S%u", column->size);
    else
        strcpy(text, names[column->type]);
    return text;
}

/* ---- Markdown */

static void
s_print_markdown_column(FILE *file, const crema_column_t *column)
{
    char dtype[CREMA_DTYPE_TEXT];
    fprintf(file, "%s | %s", column->name, crema_column_dtype(column, dtype));
    if (column->labels)
        fprintf(file, "{%s}", column->labels);
    fprintf(file, " | %s | %s\n", column->units, column->meaning);
}

static void
s_print_markdown_table(FILE *file, const crema_table_t *table)
{
    fprintf(file, "\n### `/%s`\n\n%s\n\ncolumn | type | unit | meaning\n---|---|---|---\n",
            table->path, table->description);
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].size != 0)
            s_print_markdown_column(file, &table->columns[i]);
}

void
crema_columns_print_markdown(FILE *file)
{
    static const struct {
        crema_table_kind_t kind;
        const char *title;
    } parts[] = {
        {CREMA_KIND_STREAM, "Stream tables: live and final file"},
        {CREMA_KIND_ACCOUNT, "Accounting tables: live and final file"},
        {CREMA_KIND_DICT, "Dictionaries: live and final file"},
        {CREMA_KIND_SUMMARY, "Final file only"},
    };
    for (size_t p = 0; p < COUNT(parts); p++) {
        fprintf(file, "%s## %s\n", p ? "\n" : "", parts[p].title);
        for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
            const crema_table_t *table = crema_table((crema_table_id_t)t);
            if (table->kind == parts[p].kind)
                s_print_markdown_table(file, table);
        }
    }
}

/* ---- text */

void
crema_columns_print_text(FILE *file)
{
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        for (size_t i = 0; i < table->n_columns; i++) {
            const crema_column_t *column = &table->columns[i];
            char dtype[CREMA_DTYPE_TEXT];
            if (column->size != 0)
                fprintf(file, "/%s\t%s\t%s\t%s\t%s\n", table->path, column->name,
                        crema_column_dtype(column, dtype), column->units, column->meaning);
        }
    }
}
