#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "crema_option.h"
#include "crema_variable.h"
#include "crema_version.h"

#define LINE_CHARS 78 /* of a line; a space and a newline are the same here */

/* Characters of the word that begins there, escaped. */
static size_t
s_word_chars(const char *text, const char *end)
{
    size_t n = 0;
    for (; text < end && *text != ' ' && *text != '\n'; text++)
        n += *text == '-' || *text == '\\' ? 2 : 1;
    return n;
}

/* n bytes as man(7) wants them: dashes and backslashes escaped, no line that begins with a control character or a space. */
static void
s_print_bytes(const char *text, size_t n)
{
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        const bool full = column + 1 + s_word_chars(text + i + 1, text + n) > LINE_CHARS;
        if (c == '\n' || (c == ' ' && full)) {
            putchar('\n');
            column = 0;
            continue;
        }
        if (c == ' ' && column == 0)
            continue;
        if (column == 0 && (c == '.' || c == '\''))
            fputs("\\&", stdout);
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else
            putchar(c);
        column += c == '-' || c == '\\' ? 2 : 1;
    }
}

static void
s_print_text(const char *text)
{
    s_print_bytes(text, strlen(text));
}

/* The first sentence, as the line that apropos(1) shows. */
static void
s_print_summary(const char *description)
{
    putchar(tolower((unsigned char)description[0]));
    s_print_bytes(description + 1, strcspn(description, ".") - 1);
    putchar('\n');
}

/* One paragraph a line of the synopsis; lines after the first repeat the program's name. */
static void
s_print_synopsis(const crema_usage_t *usage)
{
    const char *line = usage->synopsis;
    while (line) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        char text[512];
        snprintf(text, sizeof text, "%.*s", (int)n, line);
        char *words = text + strspn(text, " ");
        size_t name = strlen(usage->program);
        if (strncmp(words, usage->program, name) == 0)
            words += name + 1;
        fputs(line == usage->synopsis ? ".B " : ".br\n.B ", stdout);
        s_print_text(usage->program);
        putchar('\n');
        s_print_text(words);
        putchar('\n');
        line = end ? end + 1 : NULL;
    }
}

static void
s_print_options(const char *program, const crema_option_t *options)
{
    for (const crema_option_t *option = options; option->name; option++) {
        char variable[CREMA_VARIABLE_CHARS];
        fputs(".TP\n.B ", stdout);
        s_print_text("--");
        s_print_text(crema_option_is_on(option) ? "no-" : "");
        s_print_text(option->name);
        if (option->argument)
            printf(" \\fI%s\\fR", option->argument);
        putchar('\n');
        s_print_text(option->help);
        if (crema_option_is_question(option)) {
            putchar('\n');
            continue;
        }
        crema_variable_name(program, option->name, variable);
        printf("\n[%s", variable);
        if (option->fallback && option->type != CREMA_OPTION_FLAG) {
            fputs(", default ", stdout);
            s_print_text(option->fallback);
        }
        puts("]");
    }
}

void
crema_option_print_man(const crema_usage_t *usage, const crema_option_t *own,
                       const crema_option_t *common)
{
    fputs(".TH ", stdout);
    for (const char *c = usage->program; *c; c++)
        putchar(toupper((unsigned char)*c));
    printf(" 1 \"%s\" \"crema %s\" \"crema\"\n.SH NAME\n", CREMA_DATE, CREMA_VERSION);
    s_print_text(usage->program);
    fputs(" \\-\n", stdout);
    s_print_summary(usage->description);
    puts(".SH SYNOPSIS");
    s_print_synopsis(usage);
    puts(".SH DESCRIPTION");
    s_print_text(usage->description);
    puts("\n.SH OPTIONS");
    s_print_options(usage->program, own);
    puts(".SS \"Common options\"");
    s_print_options(usage->program, common);
    puts(".SH ENVIRONMENT AND CONFIGURATION\n"
         "A value comes from the command line, else the environment variable in\n"
         "brackets, else the same without the program\\(aqs name (CREMA_LOG_LEVEL), which\n"
         "sets the option in every program, else the file that\n.B \\-\\-config\nnames, else "
         "the default.\n"
         "Sizes take k M G Ki Mi Gi, durations ms s m h.");
    if (usage->epilogue) {
        puts(".SH NOTES");
        s_print_text(usage->epilogue);
        putchar('\n');
    }
    puts(".SH SEE ALSO\n.BR crema (1),\n.BR crema\\-agent (1),\n.BR crema\\-aggregator (1),\n"
         ".BR crema\\-sink (1),\n.BR crema\\-run\\-file (5),\n.BR crema\\-protocol (7)");
}

/* ---- --help */

#define HELP_COLUMN 34

bool
crema_option_is_question(const crema_option_t *option)
{
    static const char *const c_questions[] = {"check", "version", "help"};
    for (size_t i = 0; i < sizeof c_questions / sizeof *c_questions; i++)
        if (strcmp(option->name, c_questions[i]) == 0)
            return true;
    return false;
}

bool
crema_option_is_on(const crema_option_t *option)
{
    return option->type == CREMA_OPTION_FLAG && option->fallback &&
           strcmp(option->fallback, "true") == 0;
}

static void
s_print_option(const char *program, const crema_option_t *option)
{
    char name[CREMA_VARIABLE_CHARS];
    int used = printf("  --%s%s%s%s", crema_option_is_on(option) ? "no-" : "", option->name,
                      option->argument ? " " : "", option->argument ? option->argument : "");
    if (used >= HELP_COLUMN)
        used = printf("\n") - 1;
    printf("%*s%s\n", HELP_COLUMN - used, "", option->help);
    if (crema_option_is_question(option))
        return;
    crema_variable_name(program, option->name, name);
    if (option->fallback && option->type != CREMA_OPTION_FLAG)
        printf("%*s[%s, default %s]\n", HELP_COLUMN, "", name, option->fallback);
    else
        printf("%*s[%s]\n", HELP_COLUMN, "", name);
}

void
crema_option_print_help(const crema_usage_t *usage, const crema_option_t *own,
                        const crema_option_t *common)
{
    printf("usage: %s %s\n\n%s\n\noptions:\n", usage->program, usage->synopsis, usage->description);
    for (const crema_option_t *option = own; option->name; option++)
        s_print_option(usage->program, option);
    printf("\ncommon options:\n");
    for (const crema_option_t *option = common; option->name; option++)
        s_print_option(usage->program, option);
    printf("\nA value comes from the command line, else the environment variable in brackets, else "
           "the same without\nthe program's name (CREMA_LOG_LEVEL), which sets the option in every "
           "program, else the file, else the\ndefault. Sizes take k M G Ki Mi Gi, durations ms s m "
           "h.\n");
    if (usage->epilogue)
        printf("\n%s\n", usage->epilogue);
}

/* ---- for programs */

static void
s_print_table(const crema_option_t *options)
{
    for (const crema_option_t *option = options; option->name; option++)
        printf("option\t--%s%s\t%s\t%s\n", crema_option_is_on(option) ? "no-" : "", option->name,
               option->argument ? option->argument : "", option->help);
}

void
crema_option_print_tables(const crema_usage_t *usage, const crema_option_t *own,
                          const crema_option_t *common)
{
    for (const char *line = usage->synopsis; line;) {
        line += strspn(line, " ");
        const size_t n = strcspn(line, "\n");
        printf("synopsis\t%.*s\n", (int)n, line);
        line = line[n] ? line + n + 1 : NULL;
    }
    s_print_table(own);
    s_print_table(common);
}
