/* crema_variable - which environment variables set an option.
 *
 * CREMA_<PROGRAM>_<NAME> is read by that program alone, CREMA_<NAME> by every program that has the
 * option; the first one wins. Where programs mean different things by CREMA_<NAME>, it is
 * outdated: it is read for one more release, and the program warns. An empty variable counts as
 * not set. */
#ifndef CREMA_VARIABLE_H
#define CREMA_VARIABLE_H

#include <stdbool.h>

#define CREMA_VARIABLE_CHARS 128 /* of a name, with its NUL */

typedef struct {
    char name[CREMA_VARIABLE_CHARS];
    const char *text; /* its value; NULL: no variable sets the option */
    bool outdated;    /* crema_variable_name() is what it should be called */
} crema_variable_t;

/* CREMA_AGENT_SPOOL_LIMIT for "crema-agent" and "spool-limit". */
void crema_variable_name(const char *program, const char *option,
                         char ret_name[CREMA_VARIABLE_CHARS]);

/* The variable of this environment that sets a program's option. */
crema_variable_t crema_variable_find(const char *program, const char *option);

#endif
