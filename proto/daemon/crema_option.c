#include "crema_option.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <czmq.h>

#include "crema_config.h"
#include "crema_log.h"
#include "crema_print.h"
#include "crema_value.h"
#include "crema_variable.h"
#include "crema_version.h"

/* What every program has, beside its own table. */
static struct {
    bool help, version, check;
    const char *config, *log_level, *log_format;
    int64_t end_with;
} s_common;

static const crema_option_t s_common_options[] = {
    {"config", CREMA_OPTION_TEXT, NULL, 0, 0, "FILE",
     "read options from FILE: lines `name = value`", &s_common.config},
    {"log-level", CREMA_OPTION_TEXT, "info", 0, 0, "LEVEL", "info, warn or error",
     &s_common.log_level},
    {"log-format", CREMA_OPTION_TEXT, "text", 0, 0, "FORMAT", "text or json", &s_common.log_format},
    {"end-with", CREMA_OPTION_INT, NULL, 1, INT_MAX, "PID", "end with this parent process",
     &s_common.end_with},
    {"check", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "check the configuration and exit",
     &s_common.check},
    {"version", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print the version and exit",
     &s_common.version},
    {"help", CREMA_OPTION_FLAG, NULL, 0, 0, NULL, "print this help and exit", &s_common.help},
    {0},
};

/* The configuration file of this process; its texts are handed out, so it stays until the next
 * parse. */
static zconfig_t *s_config;

/* Where a value was found, for messages. */
typedef struct {
    const char *kind; /* "command line", "environment", "file" */
    const char *name; /* of the variable or file, NULL for the command line */
} place_t;

typedef struct {
    const crema_usage_t *usage;
    const crema_option_t *options;
    int argc;
    char **argv;
    int rest; /* index of the first argument not taken */
} parser_t;

#define TABLE_MAX 64 /* options of a program */

/* The program's options, then the common ones. The caller's table may be gone when values are
 * printed. */
static crema_option_t s_table[TABLE_MAX];

/* Where the value of each option came from, for --check. Texts live as long as the value. */
static struct {
    const char *text, *kind;
} s_sources[TABLE_MAX];

/* ---- messages */

/* "crema-agent: <text> (environment CREMA_X)", and false, which stops the parsing. */
static bool s_complain(const parser_t *self, const place_t *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool
s_complain(const parser_t *self, const place_t *place, const char *format, ...)
{
    char what[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    crema_print(stderr, "%s: %s (%s%s%s)", self->usage->program, what, place->kind,
                place->name ? " " : "", place->name ? place->name : "");
    return false;
}

/* What is wrong with a value, by the type of its option. */
static const char *const c_not_a[] = {
    [CREMA_OPTION_FLAG] = "neither true nor false; give true or false",
    [CREMA_OPTION_INT] = "not a whole number; give for example 5",
    [CREMA_OPTION_BYTES] = "not a number of bytes; give for example 4096, 64Ki, 512Mi, 1Gi",
    [CREMA_OPTION_DURATION] = "not a duration; give for example 500ms, 1s, 2m",
};

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
                          c_not_a[option->type]);
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
    size_t i = (size_t)(option - self->options);
    s_sources[i].text = text;
    s_sources[i].kind = place->kind;
    if (option->type == CREMA_OPTION_TEXT) {
        *(const char **)option->value = text;
        return true;
    }
    if (option->type != CREMA_OPTION_FLAG)
        return s_set_number(self, option, text, place);
    return crema_value_parse_flag(text, option->value) ||
           s_complain(self, place, "--%s: \"%s\" is %s", option->name, text, c_not_a[option->type]);
}

/* NULL: there is none of that name. */
static const crema_option_t *
s_find(const parser_t *self, const char *name, size_t length)
{
    for (const crema_option_t *option = self->options; option->name; option++)
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

/* ---- the four sources, from weak to strong */

static bool
s_take_defaults(const parser_t *self)
{
    static const place_t place = {"built in", NULL};
    for (const crema_option_t *option = self->options; option->name; option++) {
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
s_take_file(const parser_t *self, const char *path, zconfig_t **config)
{
    const place_t place = {"file", path};
    zconfig_destroy(config);
    *config = crema_config_read(path);
    if (!*config)
        return s_complain(self, &place, "--config: %s",
                          access(path, R_OK) < 0
                              ? strerror(errno)
                              : "not a file of at most 64 KiB with lines `name = value`");
    for (zconfig_t *item = zconfig_child(*config); item; item = zconfig_next(item)) {
        const char *name = zconfig_name(item);
        const crema_option_t *option = s_find(self, name, strlen(name));
        if (!option || crema_option_is_question(option) || strcmp(option->name, "config") == 0)
            return s_complain(self, &place, "%s: no such option", name);
        if (zconfig_child(item))
            return s_complain(self, &place, "%s: has sections; give a value", name);
        if (!s_set(self, option, zconfig_value(item) ? zconfig_value(item) : "", &place))
            return false;
    }
    return true;
}

/* Sets what `only` points at, or everything if it is NULL. */
static bool
s_take_environment(const parser_t *self, const void *only)
{
    for (const crema_option_t *option = self->options; option->name; option++) {
        if (crema_option_is_question(option) || (only && option->value != only))
            continue;
        const crema_variable_t variable = crema_variable_find(self->usage->program, option->name);
        const place_t place = {"environment", variable.name};
        if (variable.text && !s_set(self, option, variable.text, &place))
            return false;
    }
    return true;
}

/* One line for each outdated variable that the program follows. */
static void
s_warn_of_outdated(const parser_t *self)
{
    for (size_t i = 0; self->options[i].name; i++) {
        const char *option = self->options[i].name;
        const crema_variable_t variable = crema_variable_find(self->usage->program, option);
        char name[CREMA_VARIABLE_CHARS];
        if (!variable.outdated || strcmp(s_sources[i].kind, "environment") != 0)
            continue;
        crema_variable_name(self->usage->program, option, name);
        crema_log_warn("variable_outdated", CREMA_TEXT("variable", variable.name),
                       CREMA_TEXT("use", name));
    }
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
    bool clear = false; /* --no-NAME */
    if (strcmp(given, "-h") == 0)
        option = s_find(self, "help", 4);
    else if (strncmp(given, "--", 2) == 0)
        option = s_find(self, name, length);
    if (!option && strncmp(given, "--no-", 5) == 0) {
        const crema_option_t *flag = s_find(self, name + 3, length - 3);
        clear = flag && flag->type == CREMA_OPTION_FLAG;
        option = clear ? flag : NULL;
    }
    if (!option) {
        s_complain(self, &place, "%s: no such option; see %s --help", given, self->usage->program);
        return false;
    }
    *ret = (argument_t){option, clear ? "false" : "true", 1};
    if (equals && clear)
        return s_complain(self, &place, "%s: takes no value", given);
    if (!equals && option->type == CREMA_OPTION_FLAG)
        return true;
    if (!equals && index + 1 >= self->argc)
        return s_complain(self, &place, "--%s: needs a value, %s", option->name,
                          option->argument ? option->argument : "VALUE");
    *ret = (argument_t){option, equals ? equals + 1 : self->argv[index + 1], equals ? 1 : 2};
    return true;
}

/* Sets what `only` points at, or everything if it is NULL; finds the first argument that is not an
 * option. */
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

/* ---- all of it */

static bool
s_parse_level(const parser_t *self, const char *word, crema_log_level_t *ret_level)
{
    static const place_t place = {"see --help", NULL};
    return crema_log_parse_level(word, ret_level) ||
           s_complain(self, &place, "--log-level: \"%s\" is none of info, warn, error", word);
}

static bool
s_start_log(const parser_t *self)
{
    static const place_t place = {"see --help", NULL};
    crema_log_level_t level;
    crema_log_format_t format;
    if (!s_parse_level(self, s_common.log_level, &level))
        return false;
    if (!crema_log_parse_format(s_common.log_format, &format))
        return s_complain(self, &place, "--log-format: \"%s\" is neither text nor json",
                          s_common.log_format);
    crema_log_start(self->usage->program, level, format);
    return true;
}

/* Environment and command line come twice: first for the file that they may name, then because
 * they are stronger. */
static bool
s_take_all(parser_t *self)
{
    if (!s_take_environment(self, &s_common.config) || !s_take_arguments(self, &s_common.config))
        return false;
    if (s_common.config && !s_take_file(self, s_common.config, &s_config))
        return false;
    return s_take_environment(self, NULL) && s_take_arguments(self, NULL) && s_start_log(self);
}

static void
s_fill_table(const crema_option_t *own)
{
    size_t n = 0;
    while (own[n].name)
        n++;
    assert(n * sizeof *own + sizeof s_common_options <= sizeof s_table);
    memcpy(s_table, own, n * sizeof *own);
    memcpy(s_table + n, s_common_options, sizeof s_common_options);
}

/* Waits for the end of the process behind a pidfd, which stays open. */
static void *
s_await_end(void *context)
{
    struct pollfd ended = {.fd = *(const int *)context, .events = POLLIN};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
    kill(getpid(), SIGTERM);
    return NULL;
}

/* False: this kernel has no pidfd, or there is no thread. */
static bool
s_watch_process(pid_t pid)
{
    sigset_t all, before;
    pthread_t thread;
    static int fd; /* a program ends with one process */
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return false;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool good = pthread_create(&thread, NULL, s_await_end, &fd) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (good)
        pthread_detach(thread);
    else
        close(fd);
    return good;
}

/* From now on this process gets SIGTERM when its parent `pid` ends, at once if it has. The
 * kernel's own way, PR_SET_PDEATHSIG, comes when the thread ends that started this process, which
 * may be one of many: it is for kernels without pidfd. 0: it does not end with anybody. */
static void
s_end_with(int64_t pid)
{
    if (pid == 0)
        return;
    if (!s_watch_process((pid_t)pid))
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != pid) /* it ended before anybody watched */
        raise(SIGTERM);
}

crema_option_result_t
crema_option_parse(const crema_usage_t *usage, const crema_option_t *options, int argc, char **argv,
                   int *ret_rest)
{
    parser_t self = {.usage = usage, .options = s_table, .argc = argc, .argv = argv};
    s_fill_table(options);
    if (argc == 2 && strcmp(argv[1], "--options") == 0) { /* for packages, not for people */
        crema_option_print_tables(usage, options, s_common_options);
        return CREMA_OPTION_DONE;
    }
    if (!s_take_defaults(&self) || !s_take_arguments(&self, &s_common.help) ||
        !s_take_arguments(&self, &s_common.version))
        return CREMA_OPTION_ERROR;
    if (s_common.help) {
        crema_option_print_help(usage, options, s_common_options);
        return CREMA_OPTION_DONE;
    }
    if (s_common.version) {
        printf("%s %s\n", usage->program, CREMA_VERSION);
        return CREMA_OPTION_DONE;
    }
    if (!s_take_all(&self))
        return CREMA_OPTION_ERROR;
    s_warn_of_outdated(&self);
    *ret_rest = self.rest;
    s_end_with(s_common.end_with);
    return s_common.check ? CREMA_OPTION_CHECK : CREMA_OPTION_RUN;
}

/* ---- what it would do */

void
crema_option_print_values(void)
{
    for (size_t i = 0; s_table[i].name; i++) {
        const char *text = s_sources[i].text, *kind = s_sources[i].kind;
        if (!text || crema_option_is_question(&s_table[i]) ||
            strcmp(s_table[i].name, "config") == 0)
            continue;
        const bool from_file = strcmp(kind, "file") == 0;
        crema_print(stdout, "%s = \"%s\"%*s# %s%s%s", s_table[i].name, text,
                    (int)(48 - strnlen(s_table[i].name, 24) - strnlen(text, 20)), "", kind,
                    from_file ? " " : "", from_file ? s_common.config : "");
    }
}

int
crema_option_flushed(const char *program, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE) /* else the reader has seen enough */
        fprintf(stderr, "%s: standard output cannot be written\n", program);
    return EXIT_FAILURE;
}
