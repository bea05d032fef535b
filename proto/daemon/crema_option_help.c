/* What the program says of its options: --help, and --options for packages. */
#include <stdio.h>
#include <string.h>

#include "crema_option.h"
#include "crema_text.h"
#include "crema_variable.h"

#define HELP_COLUMN 34
#define HELP_WIDTH 80

bool
crema_option_is_question(const crema_option_t *option)
{
    static const char *const c_questions[] = {"check", "version", "help", NULL};
    return crema_text_is_in(option->name, c_questions);
}

bool
crema_option_is_on(const crema_option_t *option)
{
    return option->type == CREMA_OPTION_FLAG && option->fallback &&
           strcmp(option->fallback, "true") == 0;
}

/* Words from the column `left` on, where the cursor is; an empty line stays. */
static void
s_print_wrapped(const char *text, int left)
{
    int used = left;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " \n");
        if (used > left && used + 1 + length > HELP_WIDTH) {
            printf("\n%*s", left, "");
            used = left;
        }
        used += printf("%s%.*s", used > left ? " " : "", length, text);
        text += length;
        if (text[0] == '\n' && text[1] == '\n') {
            printf("\n\n%*s", left, "");
            used = left;
            text++;
        }
        text += *text != '\0';
    }
    printf("\n");
}

static void
s_print_option(const char *program, const crema_option_t *option)
{
    char name[CREMA_VARIABLE_CHARS], variable[CREMA_VARIABLE_CHARS + HELP_WIDTH];
    int used = printf("  --%s%s%s%s", crema_option_is_on(option) ? "no-" : "", option->name,
                      option->argument ? " " : "", option->argument ? option->argument : "");
    if (used >= HELP_COLUMN)
        used = printf("\n") - 1;
    printf("%*s", HELP_COLUMN - used, "");
    s_print_wrapped(option->help, HELP_COLUMN);
    if (crema_option_is_question(option))
        return;
    crema_variable_name(program, option->name, name);
    const bool shown = option->fallback && option->type != CREMA_OPTION_FLAG;
    snprintf(variable, sizeof variable, "[%s%s%s]", name, shown ? ", default " : "",
             shown ? option->fallback : "");
    printf("%*s", HELP_COLUMN, "");
    s_print_wrapped(variable, HELP_COLUMN);
}

void
crema_option_print_help(const crema_usage_t *usage, const crema_option_t *own,
                        const crema_option_t *common)
{
    printf("usage: %s %s\n\n", usage->program, usage->synopsis);
    s_print_wrapped(usage->description, 0);
    if (own->name)
        printf("\noptions:\n");
    for (const crema_option_t *option = own; option->name; option++)
        s_print_option(usage->program, option);
    printf("\ncommon options:\n");
    for (const crema_option_t *option = common; option->name; option++)
        s_print_option(usage->program, option);
    printf("\n");
    s_print_wrapped(
        "A value comes from the command line, else the environment variable in brackets, "
        "else the same without the program's name (CREMA_LOG_LEVEL), which sets the "
        "option in every program, else the file, else the default. Sizes take k M G Ki "
        "Mi Gi, durations ms s m h.",
        0);
    if (usage->epilogue) {
        printf("\n");
        s_print_wrapped(usage->epilogue, 0);
    }
}

/* ---- for programs */

static void
s_print_lines(const char *what, const char *lines)
{
    while (lines) {
        lines += strspn(lines, " ");
        const size_t n = strcspn(lines, "\n");
        printf("%s\t%.*s\n", what, (int)n, lines);
        lines = lines[n] ? lines + n + 1 : NULL;
    }
}

static void
s_print_table(const char *program, const crema_option_t *options)
{
    for (const crema_option_t *option = options; option->name; option++) {
        char variable[CREMA_VARIABLE_CHARS] = "";
        if (!crema_option_is_question(option))
            crema_variable_name(program, option->name, variable);
        printf("option\t--%s%s\t%s\t%s\t%s\t%s\n", crema_option_is_on(option) ? "no-" : "",
               option->name, option->argument ? option->argument : "", option->help, variable,
               option->fallback && option->type != CREMA_OPTION_FLAG ? option->fallback : "");
    }
}

void
crema_option_print_tables(const crema_usage_t *usage, const crema_option_t *own,
                          const crema_option_t *common)
{
    s_print_lines("synopsis", usage->synopsis);
    s_print_lines("description", usage->description);
    s_print_lines("epilogue", usage->epilogue);
    s_print_table(usage->program, own);
    printf("common\n");
    s_print_table(usage->program, common);
}
