/* crema_option - one declarative table gives flags, environment, configuration file, --help,
 * --version and --check. Not getopt or CZMQ's zargs: neither has types, bounds, an environment or
 * a file.
 *
 * Precedence: command line, then the environment (crema_variable.h), then the file named by
 * --config (zconfig, the format CZMQ and its certificates use; keys at the top level are option
 * names), then the default. An unknown option, key or a value out of bounds is an error that names
 * where it was found. An unknown CREMA_* variable is not: other programs share the prefix. --help,
 * --version and --check exist on the command line only. */
#ifndef CREMA_OPTION_H
#define CREMA_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema_error.h"

typedef enum {
    CREMA_OPTION_TEXT,  /* const char * */
    CREMA_OPTION_FLAG,  /* bool; --name sets it, --no-name clears it */
    CREMA_OPTION_INT,   /* int64_t within [min, max] */
    CREMA_OPTION_BYTES, /* int64_t; suffix k M G Ki Mi Gi */
    /* int64_t ns; suffix ms s m h; a bare number is seconds, fractions allowed */
    CREMA_OPTION_DURATION,
} crema_option_type_t;

typedef struct {
    const char *name; /* "heartbeat-interval"; NULL ends the table */
    crema_option_type_t type;
    const char *fallback; /* default, as text; NULL: none (TEXT stays NULL) */
    int64_t min, max;     /* for INT, BYTES and DURATION (ns); both 0: unbounded */
    const char *argument; /* name of the value in --help; NULL for flags */
    const char *help;     /* one line */
    void *value;          /* where it goes: const char **, bool *, int64_t * */
} crema_option_t;

typedef struct {
    const char *program;     /* "crema-agent" */
    const char *synopsis;    /* after "usage: crema-agent " */
    const char *description; /* one or more lines above the options */
    const char *epilogue;    /* below the options, NULL for none */
} crema_usage_t;

typedef enum {
    CREMA_OPTION_RUN,   /* values are in place: go on */
    CREMA_OPTION_DONE,  /* --help or --version was answered on stdout: exit 0 */
    CREMA_OPTION_CHECK, /* values are in place, --check was given: validate, say so, exit */
    CREMA_OPTION_ERROR, /* said on stderr: exit 2 */
} crema_option_result_t;

/* Parses argv[1..argc) up to the first non-option or "--" ("--" itself is skipped); *ret_rest is
 * the index of the first argument not taken. Adds --help, --version, --check, --config,
 * --log-level and --log-format itself and starts the log. Texts live as long as argv, the
 * environment and the process; those of a configuration file until the next parse. */
crema_option_result_t crema_option_parse(const crema_usage_t *usage, const crema_option_t *options,
                                         int argc, char **argv, int *ret_rest);

/* The values of the last parse on standard output, as a configuration file with where each came
 * from: what --check would do. */
void crema_option_print_values(void);

/* The exit status of a program that has answered on standard output: `status`, or EXIT_FAILURE if
 * the answer could not be written, which is then said on standard error unless its reader has
 * left. */
int crema_option_flushed(const char *program, int status);

/* --help and its like: only meant for the command line. */
bool crema_option_is_question(const crema_option_t *option);

/* A flag that is set unless --no-NAME is given. */
bool crema_option_is_on(const crema_option_t *option);

/* --help. */
void crema_option_print_help(const crema_usage_t *usage, const crema_option_t *own,
                             const crema_option_t *common);

/* The same for programs, `<program> --options`: lines of fields with tabs between. "synopsis",
 * "description" or "epilogue" and a line of it; "option", its name as it is given, the name of its
 * value (empty for flags), its help, its variable and its default (empty without one); "common"
 * before the options that every program has. Manual pages and the completions of shells are made
 * of it. */
void crema_option_print_tables(const crema_usage_t *usage, const crema_option_t *own,
                               const crema_option_t *common);

#endif
