/* What others read of the table of columns: complete, and parsable line by line. */
#include "must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema_columns_doc.h"

static char *s_text;

static const char *
s_print(void (*print)(FILE *file))
{
    size_t size;
    free(s_text);
    FILE *file = open_memstream(&s_text, &size);
    assert_non_null(file);
    print(file);
    assert_int_equal(fclose(file), 0);
    return s_text;
}

static int
s_tear_down(void **state)
{
    (void)state;
    free(s_text);
    s_text = NULL;
    return 0;
}

/* Fails unless `text` has `part`; returns where. */
static const char *
s_has(const char *text, const char *part)
{
    const char *at = strstr(text, part);
    if (!at)
        fail_msg("nothing of \"%s\"", part);
    return at;
}

static void
test_types_have_names(void **state)
{
    (void)state;
    char text[CREMA_DTYPE_TEXT];
    const crema_table_t *file = crema_table(CREMA_TABLE_DICT_FILE);
    const crema_table_t *chunks = crema_table(CREMA_TABLE_CHUNKS);
    assert_string_equal(crema_column_dtype(&file->columns[crema_table_column(file, "name")], text),
                        "S512");
    assert_string_equal(
        crema_column_dtype(&chunks->columns[crema_table_column(chunks, "t_start_ns")], text),
        "i64");
    assert_string_equal(
        crema_column_dtype(&chunks->columns[crema_table_column(chunks, "status")], text), "enum");
    assert_string_equal(
        crema_column_dtype(&chunks->columns[crema_table_column(chunks, "thread")], text), "u16");
}

/* Each column of the file once, under its own table and in its order; what never reaches the file
 * is left out. */
static void
test_markdown_has_every_column_in_its_place(void **state)
{
    (void)state;
    const char *text = s_print(crema_columns_print_markdown);
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++) {
        const crema_table_t *table = crema_table((crema_table_id_t)t);
        char part[128];
        snprintf(part, sizeof part, "\n### `/%s`\n", table->path);
        const char *at = s_has(text, part) + 1;
        const char *next_table = strstr(at, "\n### `");
        for (size_t i = 0; i < table->n_columns; i++) {
            snprintf(part, sizeof part, "\n%s | ", table->columns[i].name);
            if (table->columns[i].size == 0) {
                assert_null(strstr(text, part));
                continue;
            }
            at = s_has(at, part);
            assert_true(!next_table || at < next_table);
        }
    }
    s_has(text, "\nstatus | enum{ok,error,cancelled,lost,partial} | 1 | outcome\n");
}

static void
test_a_line_of_text_for_every_column(void **state)
{
    (void)state;
    const char *text = s_print(crema_columns_print_text);
    size_t lines = 0, columns = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++)
        for (size_t i = 0; i < crema_table((crema_table_id_t)t)->n_columns; i++)
            columns += crema_table((crema_table_id_t)t)->columns[i].size != 0;
    assert_int_equal(lines, columns);
    s_has(text,
          "/chunks\twall_s\tf64\ts\tprocess(), wall time; with bit 7 of quality: opening too\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_have_names),
        cmocka_unit_test(test_markdown_has_every_column_in_its_place),
        cmocka_unit_test(test_a_line_of_text_for_every_column),
    };
    return cmocka_run_group_tests(tests, NULL, s_tear_down);
}
