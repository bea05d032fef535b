/* crema_text - texts in arrays of fixed size and in lists. Pure: memory only. */
#ifndef CREMA_TEXT_H
#define CREMA_TEXT_H

#include <stdbool.h>
#include <string.h>

/* Copies into to[size] and cuts what does not fit; the result always ends with a NUL. */
static inline void
crema_text_copy(char *to, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);
    memcpy(to, text, n);
    to[n] = '\0';
}

/* True if the list, which ends with NULL, has that text. */
static inline bool
crema_text_is_in(const char *text, const char *const *list)
{
    while (*list && strcmp(*list, text) != 0)
        list++;
    return *list != NULL;
}

#endif
