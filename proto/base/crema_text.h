/* crema_text - texts in arrays of fixed size, in blocks, in lists. Pure: memory only. */
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

/* Bytes of a text in a block, with its NUL; NULL is the empty text. */
static inline size_t
crema_text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 1;
}

/* Copies a text to *at, which moves behind it, in a block whose size was measured before. */
static inline const char *
crema_text_put(char **at, const char *text)
{
    const size_t bytes = crema_text_bytes(text);
    const char *copy = memcpy(*at, text ? text : "", bytes);
    *at += bytes;
    return copy;
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
