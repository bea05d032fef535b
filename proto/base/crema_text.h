/* crema_text - copies texts into arrays of fixed size and cuts what does not fit. Pure. */
#ifndef CREMA_TEXT_H
#define CREMA_TEXT_H

#include <string.h>

/* Into to[size]; the result always ends with a NUL. */
static inline void
crema_text_copy(char *to, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);
    memcpy(to, text, n);
    to[n] = '\0';
}

#endif
