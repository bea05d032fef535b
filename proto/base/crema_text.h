/* crema_text - copies texts into arrays of fixed size and cuts what does not fit. Pure. */
#ifndef CREMA_TEXT_H
#define CREMA_TEXT_H

#include <string.h>

/* Appends to the text in to[size]; the result always ends with a NUL. */
static inline void
crema_text_append(char *to, size_t size, const char *text)
{
    size_t used = strnlen(to, size - 1);
    size_t n = strnlen(text, size - 1 - used);
    memcpy(to + used, text, n);
    to[used + n] = '\0';
}

static inline void
crema_text_copy(char *to, size_t size, const char *text)
{
    to[0] = '\0';
    crema_text_append(to, size, text);
}

#endif
