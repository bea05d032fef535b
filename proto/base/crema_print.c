#define _GNU_SOURCE /* vasprintf */
#include "crema_print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "crema_utf8.h"

static void
s_print(FILE *file, const char *text)
{
    char escape[CREMA_UTF8_ESCAPE_BYTES];
    for (size_t left = strlen(text); left > 0;) {
        const size_t step = crema_utf8_step(text, left), taken = step ? step : 1;
        if (step == 0)
            fprintf(file, "\\x%02x", (unsigned char)*text);
        else if (crema_utf8_escape(text, step, escape))
            fputs(escape, file);
        else
            fwrite(text, 1, step, file);
        text += taken;
        left -= taken;
    }
    fputc('\n', file);
}

void
crema_print(FILE *file, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    const bool made = vasprintf(&text, format, arguments) >= 0;
    va_end(arguments);
    s_print(file, made ? text : "out of memory");
    if (made)
        free(text);
}
