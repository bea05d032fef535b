#include "crema_series_doc.h"

#include <stdbool.h>
#include <string.h>

#include "crema_series.h"

/* A series belongs to the program that its name begins with. */
static const struct {
    const char *prefix, *title;
} c_parts[] = {
    {"crema_sink_", "crema-sink"},
    {"crema_aggregator_", "crema-aggregator"},
};
#define PARTS (sizeof c_parts / sizeof *c_parts)

/* PARTS: of every program. */
static size_t
s_part(const char *name)
{
    size_t part = 0;
    while (part < PARTS && strncmp(name, c_parts[part].prefix, strlen(c_parts[part].prefix)) != 0)
        part++;
    return part;
}

static void
s_print_part(FILE *file, size_t part, const char *title)
{
    fprintf(file, "\n## %s\n\n| series | type | labels | meaning |\n|---|---|---|---|\n", title);
    for (int i = 0; i < CREMA_SERIES_N; i++) {
        const crema_series_row_t *row = crema_series_row((crema_series_t)i);
        if (s_part(row->name) != part)
            continue;
        fprintf(file, "| `%s` | %s |", row->name, crema_series_type_name(row->type));
        for (size_t l = 0; l < CREMA_SERIES_LABELS_MAX && row->labels[l]; l++)
            fprintf(file, "%s `%s`", l ? "," : "", row->labels[l]);
        fprintf(file, " | %s |\n", row->help);
    }
}

void
crema_series_print_markdown(FILE *file)
{
    fputs(
        "# Series for Prometheus\n\n"
        "What the programs answer at the address of `--metrics`;\n"
        "[monitoring](monitoring.md#metrics-for-prometheus) describes how to use it. This page is "
        "printed by\n`crema-gen --series`, from the table that the programs use.\n\n"
        "Counters begin at 0 with each start of a program, unless their meaning says otherwise.\n",
        file);
    s_print_part(file, PARTS, "Every program");
    for (size_t part = 0; part < PARTS; part++)
        s_print_part(file, part, c_parts[part].title);
}
