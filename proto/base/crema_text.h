/* crema_text - texts in arrays that have a size: what does not fit is cut.
 * Pure. */
#ifndef CREMA_TEXT_H
#define CREMA_TEXT_H

#include <string.h>

/* Appends to what is in `to`, whose size is `size`; always ends with a NUL. */
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
