#include "crema_variable.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "crema_text.h"

/* Options whose value suits one program only: addresses, files, the keys of a role; CREMA_RUN is
 * also what Python hands to child processes, and --output of `crema-sink rebuild` is a file. */
static const char *const c_ambiguous[] = {"bind",    "config", "health-file", "keys",
                                          "metrics", "output", "run",         NULL};

void
crema_variable_name(const char *program, const char *option, char ret_name[CREMA_VARIABLE_CHARS])
{
    snprintf(ret_name, CREMA_VARIABLE_CHARS, "%s_%s", program, option);
    for (char *at = ret_name; *at; at++)
        *at = isalnum((unsigned char)*at) ? (char)toupper((unsigned char)*at) : '_';
}

crema_variable_t
crema_variable_find(const char *program, const char *option)
{
    const char *const prefixes[] = {program, "crema"};
    crema_variable_t found = {0};
    for (size_t i = 0; i < 2 && !found.text; i++) {
        crema_variable_name(prefixes[i], option, found.name);
        const char *text = getenv(found.name);
        found.text = text && *text ? text : NULL;
        found.outdated = found.text && i == 1 && crema_text_is_in(option, c_ambiguous);
    }
    return found;
}
