#include "crema_option.h"

#include <czmq.h>

#include "crema_config.h"
#include "crema_log.h"
#include "crema_value.h"
#include "crema_version.h"

/* What every program has, beside its own table. */
static struct {
    bool help, version, check;
    const char *config, *log_level, *log_format;
} s_common;

static const crema_option_t s_common_options[] = {
    {"config", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
     "read options from FILE, a line `name = value` each", &s_common.config},
    {"log-level", CREMA_OPTION_TEXT, "info", 0, 0, "LEVEL", "debug, info, warn or error",
     &s_common.log_level},
    {"log-format", CREMA_OPTION_TEXT, "text", 0, 0, "FORMAT", "text or json", &s_common.log_format},
    {"check", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "check the configuration and exit",
     &s_common.check},
    {"version", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print the version and exit",
     &s_common.version},
    {"help", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print this help and exit", &s_common.help},
    {0},
};

/* The configuration file of this process; its texts are handed out, so it stays until the next parse. */
static zconfig_t *s_config;

/* Where a value was found, for messages. */
typedef struct {
    const char *kind; /* "command line", "environment", "file" */
    const char *name; /* of the variable or file, NULL for the command line */
} place_t;

typedef struct {
    const crema_usage_t *usage;
    const crema_option_t *own;
    int argc;
    char **argv;
    int rest; /* index of the first argument not taken */
} parser_t;

/* ---- messages */

/* "crema-agent: <text> (environment CREMA_X)", and false, which stops the parsing. */
static bool s_complain(const parser_t *self, const place_t *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool
s_complain(const parser_t *self, const place_t *place, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s: ", self->usage->program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (%s%s%s)\n", place->kind, place->name ? " " : "",
            place->name ? place->name : "");
    return false;
}

static const char *
s_kind_name(crema_option_type_t type)
{
    switch (type) {
    case CREMA_OPTION_FLAG:
        return "neither true nor false; give true or false";
    case CREMA_OPTION_INT:
        return "not a whole number; give for example 5";
    case CREMA_OPTION_BYTES:
        return "not a number of bytes; give for example 4096, 64Ki, 512Mi, 1Gi";
    case CREMA_OPTION_DURATION:
        return "not a duration; give for example 500ms, 1s, 2m";
    case CREMA_OPTION_TEXT:
        break;
    }
    return "not a text";
}

static const char *
s_format_number(crema_option_type_t type, int64_t value, char text[CREMA_VALUE_TEXT])
{
    if (type == CREMA_OPTION_BYTES)
        return crema_value_format_bytes(value, text);
    if (type == CREMA_OPTION_DURATION)
        return crema_value_format_duration(value, text);
    snprintf(text, CREMA_VALUE_TEXT, "%" PRId64, value);
    return text;
}

/* ---- one option */

static bool
s_parse_number(crema_option_type_t type, const char *text, int64_t *ret_value)
{
    if (type == CREMA_OPTION_BYTES)
        return crema_value_parse_bytes(text, ret_value);
    if (type == CREMA_OPTION_DURATION)
        return crema_value_parse_duration(text, ret_value);
    return crema_value_parse_int(text, ret_value);
}

static bool
s_set_number(const parser_t *self, const crema_option_t *option, const char *text,
             const place_t *place)
{
    char min[CREMA_VALUE_TEXT], max[CREMA_VALUE_TEXT];
    int64_t value;
    if (!s_parse_number(option->type, text, &value))
        return s_complain(self, place, "--%s: \"%s\" is %s", option->name, text,
                          s_kind_name(option->type));
    bool bounded = option->min != 0 || option->max != 0;
    if (bounded && (value < option->min || value > option->max))
        return s_complain(self, place, "--%s: \"%s\" is out of bounds; give %s to %s", option->name,
                          text, s_format_number(option->type, option->min, min),
                          s_format_number(option->type, option->max, max));
    *(int64_t *)option->value = value;
    return true;
}

static bool
s_set(const parser_t *self, const crema_option_t *option, const char *text, const place_t *place)
{
    if (option->type == CREMA_OPTION_TEXT) {
        *(const char **)option->value = text;
        return true;
    }
    if (option->type == CREMA_OPTION_FLAG) {
        if (crema_value_parse_flag(text, option->value))
            return true;
        return s_complain(self, place, "--%s: \"%s\" is %s", option->name, text,
                          s_kind_name(option->type));
    }
    return s_set_number(self, option, text, place);
}

/* The option of that name in the program's table, else in the common one, else NULL. */
static const crema_option_t *
s_find(const parser_t *self, const char *name, size_t length)
{
    const crema_option_t *const tables[] = {self->own, s_common_options};
    for (size_t t = 0; t < 2; t++)
        for (const crema_option_t *option = tables[t]; option->name; option++)
            if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
                return option;
    return NULL;
}

/* Only meant for the command line. */
static bool
s_is_question(const crema_option_t *option)
{
    return option->value == &s_common.help || option->value == &s_common.version ||
           option->value == &s_common.check;
}

/* ---- the four sources, from weak to strong */

static bool
s_take_defaults(const parser_t *self, const crema_option_t *options)
{
    static const place_t place = {"built in", NULL};
    for (const crema_option_t *option = options; option->name; option++) {
        if (option->fallback) {
            if (!s_set(self, option, option->fallback, &place))
                return false;
        } else if (option->type == CREMA_OPTION_TEXT) {
            *(const char **)option->value = NULL;
        } else if (option->type == CREMA_OPTION_FLAG) {
            *(bool *)option->value = false;
        } else {
            *(int64_t *)option->value = 0;
        }
    }
    return true;
}

static bool
s_take_file(const parser_t *self, const char *path)
{
    const place_t place = {"file", path};
    zconfig_destroy(&s_config);
    s_config = crema_config_read(path);
    if (!s_config)
        return s_complain(self, &place, "--config: cannot be read or is not in zconfig format");
    for (zconfig_t *item = zconfig_child(s_config); item; item = zconfig_next(item)) {
        const char *name = zconfig_name(item);
        const crema_option_t *option = s_find(self, name, strlen(name));
        if (!option || s_is_question(option) || option->value == &s_common.config)
            return s_complain(self, &place, "%s: no such option", name);
        if (zconfig_child(item))
            return s_complain(self, &place, "%s: has sections; give a value", name);
        if (!s_set(self, option, zconfig_value(item) ? zconfig_value(item) : "", &place))
            return false;
    }
    return true;
}

void
crema_option_variable(const crema_option_t *option, char *ret_name, size_t size)
{
    snprintf(ret_name, size, "CREMA_%s", option->name);
    for (char *at = ret_name; *at; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

static bool
s_take_environment(const parser_t *self, const crema_option_t *options)
{
    for (const crema_option_t *option = options; option->name; option++) {
        char name[128];
        crema_option_variable(option, name, sizeof name);
        const place_t place = {"environment", name};
        const char *text = s_is_question(option) ? NULL : getenv(name);
        if (text && *text && !s_set(self, option, text, &place))
            return false;
    }
    return true;
}

/* What one argument asks for. */
typedef struct {
    const crema_option_t *option;
    const char *text;
    int taken; /* arguments: 1 or 2 */
} argument_t;

static bool
s_read_argument(const parser_t *self, int index, argument_t *ret)
{
    static const place_t place = {"command line", NULL};
    const char *given = self->argv[index];
    const char *name = given + 2; /* at least "-x" */
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const crema_option_t *option = NULL;
    bool clear = false;
    if (strcmp(given, "-h") == 0)
        option = s_find(self, "help", 4);
    else if (strncmp(given, "--", 2) == 0)
        option = s_find(self, name, length);
    if (!option && strncmp(given, "--no-", 5) == 0) {
        option = s_find(self, name + 3, length - 3);
        clear = option && option->type == CREMA_OPTION_FLAG;
        option = clear ? option : NULL;
    }
    if (!option) {
        s_complain(self, &place, "%s: no such option; see %s --help", given, self->usage->program);
        return false;
    }
    *ret = (argument_t){option, clear ? "false" : "true", 1};
    if (option->type == CREMA_OPTION_FLAG) {
        if (equals && clear)
            return s_complain(self, &place, "%s: takes no value", given);
        if (equals)
            ret->text = equals + 1;
        return true;
    }
    if (!equals && index + 1 >= self->argc)
        return s_complain(self, &place, "--%s: needs a value, %s", option->name,
                          option->argument ? option->argument : "VALUE");
    ret->text = equals ? equals + 1 : self->argv[index + 1];
    ret->taken = equals ? 1 : 2;
    return true;
}

/* Sets what `only` points at, or everything if it is NULL; finds the first argument that is no option. */
static bool
s_take_arguments(parser_t *self, const void *only)
{
    static const place_t place = {"command line", NULL};
    int index = 1;
    while (index < self->argc) {
        argument_t argument = {0};
        const char *given = self->argv[index];
        if (given[0] != '-' || given[1] == '\0')
            break;
        if (strcmp(given, "--") == 0) {
            index++;
            break;
        }
        if (!s_read_argument(self, index, &argument))
            return false;
        bool wanted = !only || argument.option->value == only;
        if (wanted && !s_set(self, argument.option, argument.text, &place))
            return false;
        index += argument.taken;
    }
    self->rest = index;
    return true;
}

/* ---- help */

#define HELP_COLUMN 34

bool
crema_option_is_on(const crema_option_t *option)
{
    return option->type == CREMA_OPTION_FLAG && option->fallback &&
           strcmp(option->fallback, "true") == 0;
}

static void
s_print_option(const crema_option_t *option)
{
    char name[128];
    int used = printf("  --%s%s%s%s", crema_option_is_on(option) ? "no-" : "", option->name,
                      option->argument ? " " : "", option->argument ? option->argument : "");
    if (used >= HELP_COLUMN)
        used = printf("\n") - 1;
    printf("%*s%s\n", HELP_COLUMN - used, "", option->help);
    if (s_is_question(option))
        return;
    crema_option_variable(option, name, sizeof name);
    if (option->fallback && option->type != CREMA_OPTION_FLAG)
        printf("%*s[%s, default %s]\n", HELP_COLUMN, "", name, option->fallback);
    else
        printf("%*s[%s]\n", HELP_COLUMN, "", name);
}

static void
s_print_help(const parser_t *self)
{
    const crema_usage_t *usage = self->usage;
    printf("usage: %s %s\n\n%s\n\noptions:\n", usage->program, usage->synopsis, usage->description);
    for (const crema_option_t *option = self->own; option->name; option++)
        s_print_option(option);
    printf("\ncommon options:\n");
    for (const crema_option_t *option = s_common_options; option->name; option++)
        s_print_option(option);
    printf("\nA value comes from the command line, else the environment variable in brackets, else "
           "the file, else the\ndefault. Sizes take k M G Ki Mi Gi, durations ms s m h.\n");
    if (usage->epilogue)
        printf("\n%s\n", usage->epilogue);
}

/* ---- all of it */

static bool
s_start_log(const parser_t *self)
{
    static const place_t place = {"see --help", NULL};
    crema_log_level_t level;
    crema_log_format_t format;
    if (!crema_log_parse_level(s_common.log_level, &level))
        return s_complain(self, &place, "--log-level: \"%s\" is none of debug, info, warn, error",
                          s_common.log_level);
    if (!crema_log_parse_format(s_common.log_format, &format))
        return s_complain(self, &place, "--log-format: \"%s\" is neither text nor json",
                          s_common.log_format);
    crema_log_start(self->usage->program, level, format);
    return true;
}

/* The command line comes twice: first for the file it may name and for --help, then, because it is the strongest, at the end. */
static bool
s_take_all(parser_t *self)
{
    if (!s_take_environment(self, s_common_options) || !s_take_arguments(self, &s_common.config))
        return false;
    if (s_common.config && !s_take_file(self, s_common.config))
        return false;
    return s_take_environment(self, self->own) && s_take_environment(self, s_common_options) &&
           s_take_arguments(self, NULL) && s_start_log(self);
}

crema_option_result_t
crema_option_parse(const crema_usage_t *usage, const crema_option_t *options, int argc, char **argv,
                   int *ret_rest)
{
    parser_t self = {.usage = usage, .own = options, .argc = argc, .argv = argv};
    if (argc == 2 && strcmp(argv[1], "--man") == 0) { /* what packages install; not for people */
        crema_option_print_man(usage, options, s_common_options);
        return CREMA_OPTION_DONE;
    }
    if (argc == 2 && strcmp(argv[1], "--options") == 0) {
        crema_option_print_tables(usage, options, s_common_options);
        return CREMA_OPTION_DONE;
    }
    if (!s_take_defaults(&self, s_common_options) || !s_take_defaults(&self, options) ||
        !s_take_arguments(&self, &s_common.help) || !s_take_arguments(&self, &s_common.version))
        return CREMA_OPTION_ERROR;
    if (s_common.help) {
        s_print_help(&self);
        return CREMA_OPTION_DONE;
    }
    if (s_common.version) {
        printf("%s %s\n", usage->program, CREMA_VERSION);
        return CREMA_OPTION_DONE;
    }
    if (!s_take_all(&self))
        return CREMA_OPTION_ERROR;
    *ret_rest = self.rest;
    return s_common.check ? CREMA_OPTION_CHECK : CREMA_OPTION_RUN;
}
