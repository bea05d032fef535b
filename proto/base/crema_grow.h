/* crema_grow - room for one more element in an array that grows. Pure: memory only. */
#ifndef CREMA_GROW_H
#define CREMA_GROW_H

#include <stddef.h>
#include <stdlib.h>

/* The array of `n` elements, enlarged if *room is no more than that. NULL: out of memory, and
 * nothing has changed. */
static inline void *
crema_grow(void *array, size_t n, size_t *room, size_t element_bytes)
{
    if (n < *room)
        return array;
    size_t more = *room > 0 ? 2 * *room : 16;
    void *grown = realloc(array, more * element_bytes);
    if (grown)
        *room = more;
    return grown;
}

#endif
