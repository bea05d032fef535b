#include "crema_numbers.h"

#include <stdint.h>
#include <string.h>

#include "crema_columns_doc.h"
#include "crema_frame.h"
#include "crema_limit.h"
#include "crema_note.h"
#include "crema_record.h"
#include "crema_reserved.h"
#include "crema_split.h"
#include "crema_wire.h"

/* A number and its name. */
typedef struct {
    const char *name;
    long long number;
} number_t;

static const number_t s_records[] = {
    {"STREAM", CREMA_RECORD_STREAM}, {"DICT", CREMA_RECORD_DICT}, {"BATCH", CREMA_RECORD_BATCH},
    {"END", CREMA_RECORD_END},       {"LOSS", CREMA_RECORD_LOSS},
};

static const number_t s_stream_kinds[] = {
    {"WORKER", CREMA_STREAM_WORKER},
    {"AGENT", CREMA_STREAM_AGENT},
    {"SCHEDULER", CREMA_STREAM_SCHEDULER},
    {"CLIENT", CREMA_STREAM_CLIENT},
};

static const number_t s_end_reasons[] = {
    {"FINISHED", CREMA_END_FINISHED},
    {"WRITER_GONE", CREMA_END_WRITER_GONE},
};

static const number_t s_fence_reasons[] = {
    {"SUPERSEDED", CREMA_FENCE_SUPERSEDED}, {"CLONE", CREMA_FENCE_CLONE},
    {"PRINCIPAL", CREMA_FENCE_PRINCIPAL},   {"QUOTA", CREMA_FENCE_QUOTA},
    {"VERSION", CREMA_FENCE_VERSION},       {"CREDIT_ABUSE", CREMA_FENCE_CREDIT_ABUSE},
    {"DISMISSED", CREMA_FENCE_DISMISSED},   {"UNKNOWN", CREMA_FENCE_UNKNOWN},
};

static const number_t s_run_phases[] = {
    {"UNKNOWN", CREMA_RUN_UNKNOWN}, {"OPEN", CREMA_RUN_OPEN},     {"BARRIER", CREMA_RUN_BARRIER},
    {"VERDICT", CREMA_RUN_VERDICT}, {"SEALED", CREMA_RUN_SEALED}, {"FAILED", CREMA_RUN_FAILED},
};

static const number_t s_writer_states[] = {
    {"ENDED", CREMA_WRITER_ENDED},
    {"LEFT", CREMA_WRITER_LEFT},
    {"UNKNOWN", CREMA_WRITER_UNKNOWN},
    {"SILENT", CREMA_WRITER_SILENT},
};

static const number_t s_constants[] = {
    {"FRAME_MAGIC", CREMA_FRAME_MAGIC},
    {"RECORD_BODY_MAX", CREMA_RECORD_BODY_MAX},
    {"BATCH_ROWS_MAX", CREMA_BATCH_ROWS_MAX},
    {"BATCH_PROVISIONAL", CREMA_BATCH_PROVISIONAL},
    {"NAME_MAX", CREMA_NAME_MAX},
    {"SPOOL_SEGMENT_BYTES", CREMA_SPOOL_SEGMENT_BYTES},
    {"WIRE_MAGIC", CREMA_WIRE_MAGIC},
    {"WIRE_VERSION", CREMA_WIRE_VERSION},
    {"WIRE_MESSAGE_MAX", CREMA_WIRE_MESSAGE_MAX},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void
s_print_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void
s_print_texts(FILE *file, const char *const *texts)
{
    for (; *texts; texts++)
        fprintf(file, "\"%s\", ", *texts);
}

static void
s_print_numbers(FILE *file, const char *name, const number_t *numbers, size_t n)
{
    fprintf(file, "\n%s = {\n", name);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "    \"%s\": %lld,\n", numbers[i].name, numbers[i].number);
    fprintf(file, "}\n");
}

/* ("worker_id", "dict:0", ""), or the bare name of a real column. */
static void
s_print_wire_column(FILE *file, const crema_column_t *column)
{
    char kind[CREMA_DTYPE_TEXT];
    crema_column_dtype(column, kind);
    if (column->origin == CREMA_FROM_DICT)
        snprintf(kind, sizeof kind, "dict:%u", (unsigned)column->dict);
    if (column->type == CREMA_T_F64)
        fprintf(file, "            \"%s\",\n", column->name);
    else
        fprintf(file, "            (\"%s\", \"%s\", \"%s\"),\n", column->name, kind,
                column->labels ? column->labels : "");
}

static void
s_print_wire_table(FILE *file, const crema_table_t *table)
{
    fprintf(file, "    \"%s\": (\n        %d,\n", table->path, (int)table->id);
    for (int reals = 0; reals <= 1; reals++) {
        fprintf(file, "        (\n");
        for (size_t i = 0; i < table->n_columns; i++)
            if (crema_table_wire_index(table, i) >= 0 &&
                (table->columns[i].type == CREMA_T_F64) == reals)
                s_print_wire_column(file, &table->columns[i]);
        fprintf(file, "        ),\n");
    }
    fprintf(file, "    ),\n");
}

static void
s_print_file_table(FILE *file, const crema_table_t *table)
{
    fprintf(file, "    \"%s\": (\n", table->path);
    for (size_t i = 0; i < table->n_columns; i++) {
        const crema_column_t *column = &table->columns[i];
        char dtype[CREMA_DTYPE_TEXT];
        if (column->size == 0)
            continue;
        fprintf(file, "        (\"%s\", \"%s\", \"%s\", ", column->name,
                crema_column_dtype(column, dtype), column->units);
        s_print_string(file, column->meaning);
        fprintf(file, "),\n");
    }
    fprintf(file, "    ),\n");
}

static void
s_print_messages(FILE *file)
{
    fprintf(file, "\nMESSAGES = {\n");
    for (int type = 0; type <= UINT8_MAX; type++) {
        const char *name = crema_msg_name((crema_msg_type_t)type);
        if (strcmp(name, "?") != 0)
            fprintf(file, "    \"%s\": %d,\n", name, type);
    }
    fprintf(file, "}\n");
}

void
crema_numbers_print_python(FILE *file)
{
    fprintf(
        file,
        "\"\"\"Tables of the run file and numbers of the wire, printed from the C library "
        "by crema-gen.\n\nDo not edit: proto/tables/crema_columns.c and the headers beside it are "
        "the source.\n\"\"\"\n");
    fprintf(file,
            "\n# What a writer sends: table -> (number, integer columns as (name, kind, labels), "
            "names of real columns), in\n# the order of the wire. Kind \"dict:2\" is an id of "
            "the writer's own dictionary 2.\nTABLES = {\n");
    for (size_t t = 0; t < CREMA_TABLE_WIRE_COUNT; t++)
        s_print_wire_table(file, crema_table((crema_table_id_t)t));
    fprintf(file,
            "}\n\n# What the file holds: table -> columns as (name, dtype, unit, meaning), in "
            "their order.\nCOLUMNS = {\n");
    for (size_t t = 0; t < CREMA_TABLE_COUNT; t++)
        s_print_file_table(file, crema_table((crema_table_id_t)t));
    fprintf(file, "}\n\nDICTS = {\n");
    for (int kind = 0; kind < CREMA_DICT_COUNT; kind++)
        fprintf(file, "    \"%s\": %d,\n",
                crema_table(crema_dict_table((crema_dict_t)kind))->path + strlen("dict/"), kind);
    fprintf(file, "}\n\nSIDES = (");
    for (int side = 0; side < CREMA_SIDE_COUNT; side++)
        fprintf(file, "\"%s\", ", crema_side_name((crema_side_t)side));
    fprintf(file, ")\nRESERVED_ATTRIBUTES = (");
    s_print_texts(file, crema_reserved_names);
    fprintf(file, ")\nNOTES = (");
    s_print_texts(file, crema_note_codes);
    fprintf(file, ")\nUNAVAILABLE_METRIC = \"%s\"\n", CREMA_UNAVAILABLE_METRIC);
    s_print_numbers(file, "RECORDS", s_records, COUNT(s_records));
    s_print_numbers(file, "STREAM_KINDS", s_stream_kinds, COUNT(s_stream_kinds));
    s_print_numbers(file, "END_REASONS", s_end_reasons, COUNT(s_end_reasons));
    s_print_messages(file);
    fprintf(file, "\nLIMITS = {\n");
    for (int i = 0; i < CREMA_LIMIT_COUNT; i++)
        fprintf(file, "    \"%s\": %llu,\n", crema_limit((crema_limit_id_t)i)->name,
                (unsigned long long)crema_limit((crema_limit_id_t)i)->limit);
    fprintf(file, "}\nLIMIT_METRIC = \"%s\"\n", CREMA_LIMIT_METRIC);
    s_print_numbers(file, "FENCE_REASONS", s_fence_reasons, COUNT(s_fence_reasons));
    s_print_numbers(file, "RUN_PHASES", s_run_phases, COUNT(s_run_phases));
    s_print_numbers(file, "WRITER_STATES", s_writer_states, COUNT(s_writer_states));
    fprintf(file, "\n");
    for (size_t i = 0; i < COUNT(s_constants); i++)
        fprintf(file, "%s = %lld\n", s_constants[i].name, s_constants[i].number);
}
