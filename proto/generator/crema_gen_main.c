/* crema-gen - prints what other languages and the reference page take from the C library. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "crema_numbers.h"
#include "crema_series_doc.h"

static const struct {
    const char *option;
    void (*print)(FILE *file);
    const char *help;
} s_outputs[] = {
    {"--python", crema_numbers_print_python, "the Python module crema/hook/_columns.py"},
    {"--series", crema_series_print_markdown, "docs/operation/series.md"},
};

static void
s_print_usage(FILE *file)
{
    fprintf(file, "usage: crema-gen OPTION\n\n");
    for (size_t i = 0; i < sizeof s_outputs / sizeof s_outputs[0]; i++)
        fprintf(file, "  %-12s %s\n", s_outputs[i].option, s_outputs[i].help);
}

int
main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof s_outputs / sizeof s_outputs[0]; i++) {
        if (strcmp(argv[1], s_outputs[i].option) != 0)
            continue;
        s_outputs[i].print(stdout);
        if (fclose(stdout) == 0)
            return 0;
        perror("crema-gen: standard output");
        return 1;
    }
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    s_print_usage(help ? stdout : stderr);
    return help ? 0 : 2;
}
